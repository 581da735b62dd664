"""What a reader can do with a page: look closer, sort, filter, copy, save, link. By mouse and by keyboard."""

import csv
import io
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from pricdr.errors import printable
from pricdr.pages import render
from tests.pages.everything import EVIL, everything

pytestmark = pytest.mark.browser

TABLE = "#figures-of-all"
SHOWN = printable(EVIL)


@pytest.fixture(scope="module")
def html():
    return render(everything())


@pytest.fixture
def page(html, open_page):
    return open_page(html)


def column(page, number: int) -> list[str]:
    return page.locator(f"{TABLE} tbody tr:visible > :nth-child({number})").all_inner_texts()


def test_a_click_on_a_head_sorts_numbers_as_numbers_and_a_third_one_brings_the_order_back(page):
    head = page.locator(f"{TABLE} thead th").nth(2)
    first = column(page, 1)
    values = {"jlt": 0.9, "sjlt": 0.25, "spectral": 1200.0, SHOWN: 10.0}

    def ordered() -> list[float]:
        return [values[name.replace("\xa0", " ")] for name in column(page, 1)]

    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert all(a > b for a, b in pairwise(ordered()))
    assert page.locator("#said").inner_text() == "Sorted by HR@10, descending"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert all(a < b for a, b in pairwise(ordered()))
    head.locator("button").click()
    assert head.get_attribute("aria-sort") is None
    assert column(page, 1) == first


def test_words_sort_as_words_and_what_is_missing_comes_last_either_way(page):
    names, _, _, _, mrr, _ = page.locator(f"{TABLE} thead th button").all()
    names.click()
    assert [name[:5] for name in column(page, 1)] == ["</tit", "jlt", "sjlt", "spect"]
    for _ in range(2):
        mrr.click()
        assert column(page, 5)[-1] == "–"
    assert page.locator(f"{TABLE} [aria-sort]").count() == 1


def test_a_head_can_be_reached_and_pressed_with_the_keyboard(page):
    page.locator(f"{TABLE} thead button").nth(2).focus()
    assert page.locator("#tip").inner_text() == "HR among ten"
    page.keyboard.press("Enter")
    assert page.locator(f"{TABLE} [aria-sort=descending]").count() == 1


def test_what_is_typed_filters_the_rows_of_a_long_table_alone(page):
    rows = page.locator("#wide-15 tbody tr:visible")
    assert page.locator(f"{TABLE} [data-filter]").count() == 0
    page.locator("#wide-15 [data-filter]").fill("(PLAINTEXT) 1")
    assert rows.count() == 3  # 1, 10 and 11
    assert page.locator("#said").inner_text() == "3 of 12 rows shown"
    page.locator("#wide-15 [data-filter]").fill("")
    assert rows.count() == 12


def test_a_tooltip_comes_with_the_mouse_and_goes_with_escape(page):
    tip = page.locator("#tip")
    page.locator(f"{TABLE} tbody td").nth(1).hover()
    assert tip.inner_text().splitlines() == ["exactly 0.123456", "seed 1: 0.12", "seed 2: 0.13"]
    box = tip.bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 1280
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator(f"{TABLE} tbody td").nth(1).hover()
    page.locator("h1").hover()
    tip.wait_for(state="hidden")


def test_a_tooltip_comes_with_the_keyboard_and_arrows_move_it(page):
    page.locator(f"{TABLE} [tabindex='0'][data-tip]").focus()
    page.keyboard.press("ArrowDown")
    row = page.evaluate("document.activeElement.closest('tr').textContent")
    assert row.startswith("sjlt")
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    assert "seed 2: 0.13" in page.locator("#tip").inner_text()


def test_folded_parts_open_on_paper_and_where_a_link_leads(page):
    folded = page.get_by_text("folded away")
    assert folded.is_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert folded.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert folded.is_hidden()
    page.evaluate("() => { location.hash = 'deep'; }")
    folded.wait_for(state="visible")


def test_a_chart_is_saved_as_the_light_picture(html, open_page, tmp_path):
    page = open_page(html, color_scheme="dark", accept_downloads=True)
    with page.expect_download() as download:
        page.locator("#dots [data-save]").click()
    assert download.value.suggested_filename == "dots.svg"
    download.value.save_as(tmp_path / "dots.svg")
    svg = ElementTree.parse(tmp_path / "dots.svg").getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert "#ffffff" in (tmp_path / "dots.svg").read_text()


def copied(page, format: str) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(f"{TABLE} [data-copy={format}]").click()
    page.locator(f"{TABLE} [data-copy={format}]:text('Copied')").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def test_a_table_is_copied_as_csv_as_it_is_shown_and_no_cell_is_a_formula(page):
    page.locator(f"{TABLE} thead button").nth(2).click()
    page.locator(f"{TABLE} tbody tr", has_text="sjlt").evaluate("(row) => { row.hidden = true; }")
    rows = list(csv.reader(io.StringIO(copied(page, "csv"))))
    assert rows[0] == ["method", "private", "HR@10", "NDCG@10", "MRR@10", "change"]
    assert [row[0] for row in rows[1:]] == ["spectral", SHOWN, "jlt"]
    assert rows[1] == ["spectral", "yes", "1,200", "0.020", "0.7", "'+3 [+1, +5]"]
    assert rows[2][2:] == ["10", "9", "0.6", "'=1+1"]
    assert rows[3][2:] == ["0.9 ± 0.01", "0.100", "0.5", "+0.1"]


def test_a_table_is_copied_as_markdown_in_which_names_are_text(page):
    lines = copied(page, "markdown").splitlines()
    assert lines[0].startswith("| method | private | HR@10 |")
    assert lines[1] == "| --- | --- | ---: | ---: | ---: | ---: |"
    assert lines[3] == "| sjlt | yes | 0.25 ± 0.01 | 0.030 | – | -12 |"
    assert all(line.count(" | ") == 5 for line in lines)
    assert r"\<script\>" in lines[5]


def test_where_the_clipboard_is_refused_the_old_way_copies(html, open_page):
    page = open_page(html)
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    page.evaluate("() => document.addEventListener('copy', () => { window.old = document.activeElement.value; })")
    page.locator(f"{TABLE} [data-copy=csv]").click()
    page.locator(f"{TABLE} [data-copy=csv]:text('Copied')").wait_for()
    assert page.evaluate("window.old").startswith("method,private,")
    assert page.locator("textarea").count() == 0


def test_every_part_can_be_linked_to(page):
    for anchor in page.locator("a.anchor").all():
        to = anchor.get_attribute("href")
        assert page.locator(f"[id='{to[1:]}']").count() == 1
    anchor = page.locator(f"{TABLE} .anchor")
    assert anchor.evaluate("(one) => getComputedStyle(one).opacity") == "0"
    anchor.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert anchor.evaluate("(one) => one === document.activeElement && getComputedStyle(one).opacity") == "1"
    page.keyboard.press("Enter")
    assert page.url.endswith(TABLE)
