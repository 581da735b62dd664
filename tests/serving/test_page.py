"""The page over HTTP: what it shows, what it never shows, how it refuses. tests/browser checks how it looks."""

import gc
import html
import json
import re
import subprocess
import sys
import weakref
from itertools import pairwise
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from pricdr.errors import InputError, printable
from pricdr.models.recommend import Basis
from pricdr.report.card import ModelCard
from pricdr.serving.keys import Scope, add_key
from pricdr.serving.page import error_page
from pricdr.serving.snapshot import Answer, RecommendedItem, Snapshot, WatchedModel
from tests.pages.parsed import Parsed
from tests.report import made_up
from tests.serving.conftest import Client, app_of
from tests.serving.two_companies import HOSTILE, two_companies

PAGES = ("/page", "/page/user", "/page/model", "/page/certificate", "/page/frontier")


@pytest.fixture(scope="module")
def companies(tmp_path_factory):
    return two_companies(tmp_path_factory)


def client_for(companies, model="final", compare=None, **settings):
    models = [WatchedModel(companies.model(name)) for name in (model, compare) if name is not None]
    return Client(app_of(models, **settings), models[0])


@pytest.fixture(scope="module")
def plain(companies):
    return client_for(companies)


@pytest.fixture(scope="module")
def full(companies, tmp_path_factory):
    """A server with all options in use."""
    cold = {"guided, ε = 1": 0.12, "guided, ε = 4": 0.17, "spectral, ε = 4": 0.15}
    results = made_up.frontier(tmp_path_factory.mktemp("results"), cold)
    frontier = results / "frontier_toy.jsonl"
    return client_for(companies, compare="without", evaluation=companies.evaluation, frontier=frontier)


def ask(client, user, k=10):
    return client.post("/page/user", data={"id": user, "k": str(k)})


def words(response):
    """Return the visible text, as one line."""
    return " ".join(Parsed(response.text).text.replace("\xa0", " ").split())


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_accessible_html_without_script_or_inline_style(plain, full, path):
    for client in (plain, full):
        response = client.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        page = Parsed(response.text)
        assert not page.open
        assert "aria-invalid" not in response.text
        assert not {"script", "style", "iframe", "object", "base"} & set(page.tags)
        assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
        assert len(page.ids) == len(set(page.ids))
        assert page.tags.count("h1") == page.tags.count("main") == 1
        loaded = [value for tag, name, value in page.attributes if tag != "a" and name in {"href", "src", "action"}]
        outside = {value for value in loaded if not value.startswith("data:image/svg+xml")}
        assert outside <= {"/page/style.css", "/page/user"}
        assert all(value.startswith(("#", "/page")) for value in page.values("a", "href"))
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["referrer-policy"] == "no-referrer"
        assert "no-store" in response.headers["cache-control"]
        levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert page.tags.count("caption") == page.tags.count("table")
        assert set(page.values("label", "for")) == set(page.values("input", "id"))
        assert page.values("a", "href")[0] == "#content"


def test_the_root_leads_to_the_page_and_what_it_loads_is_served_from_here(plain):
    response = plain.get("/")
    assert (response.status_code, response.headers["location"]) == (307, "/page")
    style = plain.get("/page/style.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "prefers-color-scheme: dark" in style.text
    assert not re.search(r"@import|url\(|https?:", style.text)


def test_a_user_gets_what_the_model_recommends_and_its_basis(plain, companies):
    response = ask(plain, companies.warm, 5)
    listed = plain.get(f"/users/{companies.warm}/recommendations?k=5").json()
    shown = re.findall(r'<th scope="row"[^>]*>(\d+)</th><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td>', response.text)
    assert shown == [(str(item["rank"]), item["item"], f"{item['score']:.4g}") for item in listed["items"]]
    assert listed["basis"] == "both"
    assert "own history and release" in words(response)
    assert re.search(r"What the user rated here: \d+ items", words(response))


@pytest.mark.parametrize(
    ("model", "who", "says"),
    [
        ("with", "warm", "These are based on what the user rated here and on the user's row in the release."),
        ("with", "cold", "These are based on the user's row in the release"),
        ("without", "warm", "No release row is used for this user."),
        ("without", "cold", "The model uses nothing about this user."),
        ("without", "nobody", "The model does not know this id: it has no ratings and no release row for it."),
    ],
)
def test_every_basis_has_its_sentence(companies, model, who, says):
    client, user = client_for(companies, model), getattr(companies, who, "nobody-at-all")
    response = ask(client, user)
    assert response.status_code == 200
    assert says in words(response)
    assert ("The user rated nothing here." in words(response)) == (who == "cold")
    assert client.get(f"/users/{user}/recommendations").json()["items"][0]["item"] in words(response)


@pytest.mark.parametrize("user", [*HOSTILE, "\u2066x\u2069", "</bdi></h2><h1>", "a" * 1000, "\ufeff", "{{ 7*7 }}"])
def test_hostile_ids_are_shown_as_text_and_sent_again_as_they_are(plain, user):
    response = ask(plain, user, 1)
    assert response.status_code == 200
    page = Parsed(response.text)
    assert (page.tags.count("script"), page.tags.count("h1")) == (0, 1)
    # The field holds the exact id, to be sent again; the heading shows a printable form of it.
    assert page.values("input", "value")[0] == user
    heading = re.search(r'<bdi class="id">(.*?)</bdi></h2>', response.text)[1]
    assert html.unescape(heading) == printable(user).replace(" %", "\xa0%")


def test_no_address_and_no_link_holds_an_id(full, companies):
    page = Parsed(ask(full, companies.warm).text)
    addresses = [value for _, name, value in page.attributes if name in {"href", "src", "action"}]
    assert not [address for address in addresses if companies.warm in address]
    assert page.values("form", "method") == ["post"]
    # An id in the address is ignored.
    assert companies.warm not in full.get(f"/page/user?id={companies.warm}").text


BAD_K = ["0", "-1", "1001", "ten", "1.5", "", "1e3", "٣", "9" * 40, " "]
BAD_IDS = ["", "a\nb", "\x00", "\x1b[31m", "\u2028", "x" * 1001]


def test_what_is_invalid_is_refused_next_to_its_field_and_shown_safely(plain):
    for user, k in (*(("u0", k) for k in BAD_K), *((user, "10") for user in BAD_IDS)):
        response, field = ask(plain, user, k), "k-error" if user == "u0" else "id-error"
        assert response.status_code == 422
        page = Parsed(response.text)
        assert ("input", "aria-invalid", "true") in page.attributes
        assert page.values("input", "aria-describedby") == [field]
        assert field in page.ids
        assert ("The number of items must be a whole number from 1 to 1,000." in words(response)) == (user == "u0")
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u2028]", response.text)
        assert len(response.text) < 10_000


FORM = {"content-type": "application/x-www-form-urlencoded"}
UNREADABLE = [
    ({"content": b"id=%ff", "headers": FORM}, 400),
    ({"content": "id=é".encode(), "headers": FORM}, 400),
    ({"data": {"id": ["a", "b"]}}, 400),
    ({"data": {str(at): "x" for at in range(9)}}, 400),
    ({"data": {"id": "x" * 20_000}}, 413),
    ({"data": {"id": "x" * 2_000_000}}, 413),
    ({"json": {"id": "a"}}, 415),
    ({"files": {"id": b"a"}}, 415),
    ({}, 415),
]


def test_a_form_that_cannot_be_read_is_refused_with_a_page(plain):
    for request, status in UNREADABLE:
        response = plain.post("/page/user", **request)
        assert response.status_code == status
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert Parsed(response.text).tags.count("h1") == 1
        assert "Traceback" not in response.text


def test_a_form_as_a_browser_sends_it_is_read(plain):
    body = urlencode({"id": "ä 100%+&=", "k": "3"})
    kind = "Application/X-WWW-form-urlencoded; charset=UTF-8"
    response = plain.post("/page/user", content=body, headers={"content-type": kind})
    assert Parsed(response.text).values("input", "value") == ["ä 100%+&=", "3"]


def test_an_unknown_address_gets_a_page_below_page_and_json_elsewhere(plain):
    for path in ("/page/nothing", "/page/", "/page/model/x", "/page/..%2f..%2fetc"):
        response = plain.get(path)
        assert response.status_code == 404
        assert "There is nothing at this address." in words(response)
    assert plain.get("/nothing").json() == {"error": "there is nothing at this address"}
    assert plain.request("PUT", "/page/user").status_code == plain.post("/page").status_code == 405
    wrong = plain.get("/page", headers={"host": "evil.example"})
    assert (wrong.status_code, wrong.headers["content-type"]) == (421, "text/html; charset=utf-8")
    busy = words(SimpleNamespace(text=bytes(error_page(503, "the server is busy: try again").body).decode()))
    assert "The server is busy The server is busy: try again. Find a user" in busy


def test_a_page_asks_for_a_key_where_there_are_keys(companies, tmp_path):
    file = tmp_path / "keys.json"
    good, other = (add_key(file, scope.value, [scope]) for scope in (Scope.PAGE, Scope.RECOMMEND))
    client = client_for(companies, keys=file)
    refused = client.get("/page")
    assert refused.status_code == 401
    # In separate headers: Chromium reads only one challenge in each.
    challenges = refused.headers.get_list("www-authenticate")
    assert [challenge.partition(" ")[0] for challenge in challenges] == ["Basic", "Bearer"]
    assert "A key is required" in words(refused)
    assert client.get("/page", auth=("anybody", other)).status_code == 403
    assert client.get("/page", auth=("anybody", good)).status_code == 200


def test_two_models_are_compared_item_by_item(full, companies, monkeypatch):
    """The difference counts the items in both lists and the others, and each item says where the other has it."""
    lists = {"final": "abcd", "without": "acxy"}

    def answers(snapshot, queries):
        items = [RecommendedItem(item, 1.0, rank) for rank, item in enumerate(lists[snapshot.name], 1)]
        return [Answer(query.id, Basis.BOTH, items) for query in queries]

    monkeypatch.setattr(Snapshot, "answers", answers)
    response = ask(full, companies.warm)
    both = "In both lists: 2 of 4 items, 1 of them at the same rank. Only in “final”: 2. Only in “without”: 2."
    assert both in words(response)
    cells = re.findall(r'<td class="words">([^<]*)</td>', response.text)
    assert cells[:8] == ["a", "same rank", "b", "only here", "c", "↓ 1 lower", "d", "only here"]
    assert cells[8:] == ["a", "same rank", "c", "↑ 1 higher", "x", "only here", "y", "only here"]
    text = words(ask(client_for(companies, compare="final"), companies.warm))
    assert "“final” and “final” recommend the same items in the same order." in text
    assert text.count("same rank") == 8


def test_the_card_is_that_of_the_command_line(full, companies):
    card = ModelCard.of(companies.model("final"), companies.evaluation)
    text = words(full.get("/page/model"))
    for section in card.page.sections:
        assert section.heading in text
    assert "Evidence test: passed" in text
    assert "Model for comparison: without" in text


def test_an_evaluation_of_another_model_stops_the_start_but_not_a_running_server(companies, tmp_path):
    """And the card of a model that was replaced does not keep it in memory."""
    content = json.loads(companies.evaluation.read_text())
    content["trainings"]["with"]["method"] = "bpr"
    (tmp_path / "e.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="none of them is 'final'"):
        client_for(companies, evaluation=tmp_path / "e.json")
    folders = iter(["without", "final"])
    model = WatchedModel(tmp_path, load=lambda _: Snapshot.load(companies.model(next(folders))))
    client = Client(app_of([model], evaluation=tmp_path / "e.json"), model)
    assert "figures of this model" in words(client.get("/page/model"))
    old = weakref.ref(model.snapshot.model)
    (tmp_path / "model.json").touch()
    model.reload_if_changed()
    model.reload_if_changed()
    gc.collect()
    assert old() is None
    text = words(client.get("/page/model"))
    assert "Model card: final" in text
    assert "The evaluation given to this server is of another model" in text
    assert "Quality: not measured." in text


def test_the_certificate_is_explained_with_its_curve_and_how_it_was_checked(plain, companies):
    response = plain.get("/page/certificate")
    for part in (
        "PRIVATE: it may leave the source, within the promise below.",
        "ε = 8, δ = 1e-06, μ = 1.532, for one rating",
        "What an attacker could learn",
        "What is not protected",
        "Its signature was checked when the model was trained.",
        "Release 1 of this ledger: epsilon 8 spent of 16 at delta 1e-06",
    ):
        assert part in words(response)
    assert response.text.count("<img ") == 1
    assert "No release was used." in words(client_for(companies, "without").get("/page/certificate"))


def test_the_frontier_is_drawn_and_says_where_it_was_measured_or_how_to_make_one(plain, full):
    response, without = full.get("/page/frontier"), words(plain.get("/page/frontier"))
    assert "not on the data of the model served here" in words(response)
    assert response.text.count("<img ") == 1
    assert "The frontier in full" in words(response)
    assert "pricdr reproduce specs/frontier.toml --out results" in without
    assert "pricdr serve MODEL --frontier" in without


def test_a_server_needs_no_torch_and_no_charts_unless_a_frontier_is_given():
    code = (
        "import sys\nfor name in ('torch', 'altair', 'vl_convert'): sys.modules[name] = None\n"
        "import pricdr.serving.server\nfrom pathlib import Path\nfrom pricdr.serving.page import router\n"
        "try:\n    router(None, None, frontier=Path('x.jsonl'))\nexcept Exception as error:\n"
        "    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtraError charts need")


def test_a_file_that_is_not_a_frontier_is_refused_at_the_start(companies, tmp_path):
    made_up.table2(tmp_path / "results")
    other = next((tmp_path / "results").glob("*.jsonl"))
    for path in (other, other.with_name("x.txt"), other.with_name("nowhere.jsonl")):
        with pytest.raises(InputError, match=f"{path.name} contains no frontier results"):
            client_for(companies, frontier=path)
    with pytest.raises(InputError, match="is not a results folder"):
        client_for(companies, frontier=tmp_path / "x.jsonl")


def test_a_refused_folder_is_shown_without_its_reason(companies):
    client = client_for(companies)
    client.model.problem = "/secret/place is corrupt"
    for path in PAGES:
        text = words(client.get(path))
        assert "A newer model folder was refused, so an older model is being served." in text
        assert "/secret" not in text
