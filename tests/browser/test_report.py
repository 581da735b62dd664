"""The report in a real browser: the answer, its picture and its table come first, and the rest is folded.

That any page renders, fits a phone and paper, and can be read in the dark, is in ``test_every_page``.
"""

import pytest

from pricdr.report.folder import read_folder
from pricdr.report.page import report
from tests.report import made_up

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def html(tmp_path_factory, browser):
    return report(read_folder(made_up.everything(tmp_path_factory.mktemp("results"))))


def test_the_answer_and_its_picture_are_on_the_first_screen_and_the_page_is_short(html, open_page):
    page = open_page(html)
    for words in ("keeps 75 ± 0 % on Toy", "#shares img", "0 of 4 controls", "#summary-sampled thead"):
        found = page.locator(words) if words[0] == "#" else page.get_by_text(words).first
        box = found.bounding_box()
        assert box["y"] + min(box["height"], 150) < 900
    assert page.evaluate("document.documentElement.scrollHeight") < 3_500
    assert page.locator("main table:visible").count() == 1


def test_a_picture_is_the_dark_one_on_dark_pages_and_the_light_one_on_paper(html, open_page):
    page = open_page(html, color_scheme="dark")
    shown = "document.querySelector('#shares img').currentSrc"
    dark, light = page.locator("#shares source").get_attribute("srcset"), page.locator("#shares img")
    assert page.evaluate(shown) == dark
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(300)  # browsers choose pictures in their own time
    assert page.evaluate(shown) == light.get_attribute("src")


def test_every_folded_part_can_be_linked_to(html, open_page):
    page = open_page(html)
    for anchor in ("table2-4", "table3", "arms-1", "provenance-table"):
        page.evaluate("(name) => { location.hash = name; }", anchor)
        page.locator(f"[id='{anchor}']").wait_for(state="visible")
        assert -5 <= page.locator(f"[id='{anchor}']").bounding_box()["y"] <= 900
    page.locator("#summary-sampled tbody tr").first.locator("td").nth(1).hover()
    assert "seed 5: 0." in page.locator("#tip").inner_text()
