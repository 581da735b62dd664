"""The served page in Chromium: axe finds no violations, also on a phone, in dark mode, without scripts, by keyboard.

A test also fails if a page logs to its console, violates its content-security policy, or sends a request to another
server.
"""

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from pricdr.serving.keys import Scope, add_key
from pricdr.serving.snapshot import WatchedModel
from tests.browser.test_every_page import PALE, TOO_WIDE
from tests.report import made_up
from tests.serving.conftest import app_of
from tests.serving.processes import serving
from tests.serving.two_companies import SCRIPT, two_companies

pytestmark = pytest.mark.browser

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
EVIL = f"{SCRIPT}/../\u202egnp.exe😀"


def go_to(path):
    return lambda page, base, companies: page.goto(f"{base}{path}")


def look_up(user, k="10"):
    def submit(page, base, companies):
        page.goto(f"{base}/page")
        page.get_by_label("User id").fill(getattr(companies, user, user))
        page.get_by_label("Number of items").fill(k)
        page.get_by_role("button", name="Show recommendations").click()
        page.wait_for_load_state()  # the style sheet too, on a busy machine

    return submit


PAGES = {
    "find": go_to("/page"),
    "user": look_up("warm"),
    "cold user": look_up("cold"),
    "hostile user": look_up(EVIL),
    "long list": look_up("warm", "30"),
    "refused": look_up("", "0"),
    "model": go_to("/page/model"),
    "certificate": go_to("/page/certificate"),
    "frontier": go_to("/page/frontier"),
    "not there": go_to("/page/nothing"),
}
REFUSED = ("status of 404", "status of 422")
"""What Chromium logs for every page with such a status."""


@pytest.fixture(scope="module")
def companies(tmp_path_factory):
    return two_companies(tmp_path_factory)


@pytest.fixture(scope="module")
def base(browser, companies, tmp_path_factory) -> Iterator[str]:
    """The address of a server with all options in use."""
    cold = {"guided, ε = 1": 0.12, "guided, ε = 4": 0.17, "spectral, ε = 4": 0.15, "jlt, ε = 8": 0.1}
    results = made_up.frontier(tmp_path_factory.mktemp("results"), cold)
    models = [WatchedModel(companies.model(name)) for name in ("final", "without")]
    app = app_of(models, evaluation=companies.evaluation, frontier=results / "frontier_toy.jsonl")
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def visit(browser, base, companies):
    """Open pages; at the end, none may have logged an error or sent a request elsewhere."""
    contexts, problems = [], []

    def open_page(name, page=None, **options):
        if page is None:
            options = {"viewport": DESK, "reduced_motion": "reduce", **options}
            contexts.append(browser.new_context(**options))
            page = contexts[-1].new_page()
            page.set_default_timeout(30000)
            page.on(
                "console",
                lambda message: any(text in message.text for text in REFUSED) or problems.append(message.text),
            )
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("request", lambda request: request.url.startswith(f"{base}/page") or problems.append(request.url))
            page.on("dialog", lambda dialog: problems.append(dialog.message))
        PAGES[name](page, base, companies)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not problems


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(PHONE, "dark", id="phone, dark"),
        pytest.param(DESK, "light", id="desk, light", marks=pytest.mark.slow),
        pytest.param(PHONE, "light", id="phone, light", marks=pytest.mark.slow),
        pytest.param(DESK, "dark", id="desk, dark", marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing_wrong_and_nothing_is_wider_than_the_screen(visit, size, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = None
    for name in PAGES:
        page = visit(name, page, viewport=size, color_scheme=scheme)
        for details in page.locator("details:not([hidden])").all():
            details.evaluate("(element) => { element.open = true; }")
        violations = Axe().run(page).response["violations"]
        assert [(name, rule["id"], rule["nodes"][0]["html"][:200]) for rule in violations] == []
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"], name
        assert page.evaluate(TOO_WIDE, size["width"]) == [], name
        n_texts, pale = page.evaluate(PALE)
        assert n_texts > 5
        assert not pale, name
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 28)"}[scheme]


def test_without_javascript_everything_works(visit):
    page = None
    for name in PAGES:
        page = visit(name, page, java_script_enabled=False)
        assert page.locator("h1").is_visible()
    assert visit("hostile user", page).get_by_label("User id").input_value() == EVIL
    page = visit("user", page)
    assert page.get_by_role("table").count() == 2
    assert page.locator("tbody tr").count() == 20
    for chart in visit("frontier", page).locator("main img").all():
        assert chart.bounding_box()["height"] > 30


def test_a_reader_finds_a_user_with_the_keyboard_alone(visit, base, companies):
    page = visit("find")
    keys = page.keyboard
    keys.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to content"
    assert page.locator(":focus").bounding_box()["x"] >= 0
    keys.press("Enter")
    keys.press("Tab")
    assert page.locator(":focus").get_attribute("id") == "id"
    outline = page.locator(":focus").evaluate("(element) => getComputedStyle(element).outlineStyle")
    assert outline == "solid"
    keys.type(companies.warm)
    keys.press("Tab")
    keys.press("ControlOrMeta+a")
    keys.type("3")
    keys.press("Enter")
    page.wait_for_url(f"{base}/page/user")
    assert page.get_by_role("heading", level=2).inner_text() == f"User {companies.warm}"
    assert page.get_by_role("table").first.locator("tbody tr").count() == 3
    # On to the card, through the navigation.
    page.get_by_role("link", name="Model card").focus()
    keys.press("Enter")
    page.wait_for_url(f"{base}/page/model")
    assert page.get_by_role("link", name="Model card").get_attribute("aria-current") == "page"


def test_an_error_is_shown_next_to_its_field_which_has_the_focus(visit):
    page = visit("refused")
    assert page.get_by_role("alert").is_visible()
    assert page.locator(":focus").get_attribute("id") == "id"
    described = page.get_by_label("User id").get_attribute("aria-describedby")
    assert page.locator(f"#{described}").inner_text() == "The id is empty."


def test_no_address_in_the_history_holds_an_id(visit, base, companies):
    page = visit("user")
    assert page.url == f"{base}/page/user"
    page.get_by_role("link", name="Certificate").click()
    assert page.evaluate("document.referrer") == ""
    page.goto(f"{base}/page/user")  # opened without sending the form, it is empty
    assert page.get_by_label("User id").input_value() == ""


def test_on_paper_the_answer_is_there_and_the_form_is_not(visit):
    page = visit("user", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("form").is_hidden()
    assert page.get_by_role("table").first.is_visible()


def test_a_browser_asks_for_the_key_and_opens_the_page_with_it(browser, companies, tmp_path):
    key = add_key(tmp_path / "keys.json", "officer", [Scope.PAGE])
    with serving(companies.model("final"), keys=tmp_path / "keys.json") as server:
        for password, status in ((key, 200), ("wrong", 401)):
            context = browser.new_context(http_credentials={"username": "", "password": password})
            assert context.new_page().goto(f"{server.address}/page").status == status
            context.close()
