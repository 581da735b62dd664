"""Whatever page we write: it renders, on a phone and on paper too, can be read in the dark, and without its script."""

import pytest

from tests.browser.examples import PAGES

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
A4 = {"width": 680, "height": 960}
"""A sheet between margins of 15 mm, in pixels."""

TOO_WIDE = """(width) => [...document.querySelectorAll("main *, header *, footer *")]
  .filter((one) => !one.closest(".box, pre, .unseen") && one.getBoundingClientRect().right > width + 0.5)
  .map((one) => one.outerHTML.slice(0, 80))"""
CUT_OFF = """(width) => [...document.querySelectorAll("tr, img, pre")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > width + 0.5)
  .map((one) => one.outerHTML.slice(0, 80))"""
PALE = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = parts(colour).map((one) => linear(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor, [, , , alpha = 1] = parts(colour);
      if (alpha === 1) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const pale = [];
  let seen = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility({ opacityProperty: true })) continue;
    if (element.closest("script, style, .unseen, title")) continue;
    const colour = getComputedStyle(element).color;
    const [a, b] = [light(colour), light(ground(element))].sort((x, y) => y - x);
    seen += 1;
    if ((a + 0.05) / (b + 0.05) < 4.5) pale.push(`${colour} on ${ground(element)}: ${texts.currentNode.textContent}`);
  }
  return [seen, pale];
}"""


@pytest.fixture(scope="module", params=PAGES)
def html(request, tmp_path_factory, browser):
    return PAGES[request.param](tmp_path_factory.mktemp(request.param))


def test_it_renders_without_a_word_of_complaint_and_fits_a_desk_and_a_phone(html, open_page):
    page = open_page(html, **PHONE)
    assert page.locator("h1").count() == 1
    page.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    assert page.locator("main table, main img").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate(TOO_WIDE, 360) == []
    assert page.evaluate(CUT_OFF, 360) == []  # no figure is to be scrolled for
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") == 1280
    assert page.evaluate(TOO_WIDE, 1280) == []


def test_every_text_stands_out_in_the_light_and_in_the_dark(html, open_page):
    page = open_page(html, color_scheme="light")
    for details in page.locator("details").all():
        details.evaluate("(one) => { one.open = true; }")
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        seen, pale = page.evaluate(PALE)
        assert seen > 30
        assert not pale
    assert grounds == ["rgb(255, 255, 255)", "rgb(21, 24, 28)"]


def test_on_paper_nothing_is_cut_off_and_nothing_asks_to_be_clicked(html, open_page):
    page = open_page(html, color_scheme="dark", viewport=A4)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(PALE)[1] == []
    assert page.evaluate(CUT_OFF, A4["width"]) == []
    shown = page.locator("tbody tr").evaluate_all(
        "(rows) => rows.filter((row) => !row.closest('details')).map((row) => row.checkVisibility())"
    )
    assert all(shown)
    for query in (".tools", ".anchor", "nav"):
        assert not [one for one in page.locator(query).all() if one.is_visible()]
    scrolling = page.locator(".box").evaluate_all("(all) => all.map((one) => getComputedStyle(one).overflowX)")
    assert set(scrolling) == {"visible"}  # nobody can scroll paper
    wide = page.locator("#wide-15 tbody th").evaluate_all("(all) => all.map((one) => one.clientWidth)")
    assert all(width >= 30 for width in wide)  # words may break, but not into letters
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_without_its_script_everything_is_there_to_read(html, open_page):
    page = open_page(html, java_script_enabled=False)
    for table in page.locator("main table").all():
        inside = table.locator("xpath=ancestor::details").count()
        assert inside or table.is_visible()
    for chart in page.locator("img").all():
        inside = chart.locator("xpath=ancestor::details").count()
        assert inside or (chart.is_visible() and chart.bounding_box()["height"] > 30)
    assert page.locator("button:visible, input:visible").count() == 0
