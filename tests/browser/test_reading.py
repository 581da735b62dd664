"""What a reader can do with a page: look closer, sort, choose, copy, download, link. By mouse and by keyboard."""

import csv
import io
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from pricdr.errors import printable
from pricdr.pages import render
from tests.pages.everything import EVIL, NAMES, everything

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
    head = page.locator(f"{TABLE} thead .names th").nth(2)
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
    names, _, _, _, mrr, _ = page.locator(f"{TABLE} thead .names th button").all()
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


def test_what_is_unchecked_disappears_from_tables_and_figures_of_its_section_alone(page):
    choice = page.locator("#tables .choice")
    choice.locator("summary").click()
    choice.get_by_label("sjlt", exact=True).uncheck()
    assert column(page, 1)[:2] == ["jlt", "spectral"]
    marks = page.locator("#dots .mark")
    assert [mark.is_visible() for mark in marks.all()] == [True, False, True, True] * 2
    assert "3 of 4 shown" in choice.locator("summary").inner_text()
    assert page.locator("#charts [data-series=sjlt].mark:visible").count() > 0
    choice.get_by_text("Hide all").click()
    assert column(page, 1) == []
    choice.get_by_text("Show all").click()
    assert len(column(page, 1)) == 4
    assert choice.locator("summary").inner_text() == "Choose methods"


def test_a_series_takes_its_points_lines_and_bars_with_it_and_its_name_in_the_legend_fades(page):
    choice = page.locator("#charts .choice")
    choice.locator("summary").click()
    for name in NAMES[1:]:
        choice.locator("input").nth(NAMES.index(name)).uncheck()
    for figure in ("#alone", "#left", "#right"):
        shown = page.locator(f"{figure} svg [data-series]:not(.entry):visible")
        assert set(shown.evaluate_all("(all) => all.map((one) => one.dataset.series)")) == {"jlt"}
        assert page.locator(f"{figure} svg .entry.off").count() == 3
    assert page.locator("#alone .mark:visible").count() == 5
    choice.locator("input").nth(1).check()
    choice.locator("input").nth(0).uncheck()
    stop = page.locator("#alone .mark:visible[tabindex='0']")
    assert stop.get_attribute("data-series") == "sjlt"


def test_a_tooltip_comes_with_the_mouse_and_goes_with_escape(page):
    tip = page.locator("#tip")
    mark = page.locator("#alone .mark").nth(2)
    mark.hover()
    assert tip.inner_text().splitlines() == ["jlt", "ε = 2: 0.0764 ± 0.0100", "seed 1: 0.07639"]
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator(f"{TABLE} tbody td").nth(1).hover()
    assert tip.inner_text().splitlines() == ["exactly 0.123456", "seed 1: 0.12", "seed 2: 0.13"]
    box = tip.bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 1280
    page.locator("h1").hover()
    tip.wait_for(state="hidden")


def test_a_tooltip_comes_with_the_keyboard_and_arrows_move_it(page):
    tip = page.locator("#tip")
    marks = page.locator("#alone .mark")
    assert page.locator("#alone .mark[tabindex='0']").count() == 1
    marks.first.focus()
    assert "ε = 0.5" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "ε = 1" in tip.inner_text()
    page.keyboard.press("End")
    assert tip.inner_text().startswith(SHOWN.replace(" %", "\xa0%"))
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator(f"{TABLE} [tabindex='0'][data-tip]").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('tr').dataset.series") == "sjlt"
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"


def test_a_point_is_met_from_a_little_way_off(page):
    box = page.locator("#alone .mark").nth(2).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] + 8)
    assert "ε = 2" in page.locator("#tip").inner_text()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] + 30)
    page.locator("#tip").wait_for(state="hidden")


def test_folded_parts_open_on_paper_and_where_a_link_leads(html, open_page, tmp_path):
    page = open_page(html)
    more, points = page.locator("details.more"), page.locator("#alone-points")
    assert more.get_attribute("open") is None
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.get_by_text("folded away").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.get_by_text("folded away").is_hidden()
    assert points.is_hidden()
    page.evaluate("() => { location.hash = 'alone-points'; }")
    points.locator("table").wait_for(state="visible")


def copied(page, format: str) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(f"{TABLE} [data-copy={format}]").click()
    page.locator(f"{TABLE} [data-copy={format}]:text('Copied')").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def test_a_table_is_copied_as_csv_as_it_is_shown_and_no_cell_is_a_formula(page):
    page.locator(f"{TABLE} thead button").nth(2).click()
    choice = page.locator("#tables .choice")
    choice.locator("summary").click()
    choice.get_by_label("sjlt", exact=True).uncheck()
    rows = list(csv.reader(io.StringIO(copied(page, "csv"))))
    assert rows[0] == ["method", "private", "sampled: HR@10", "sampled: NDCG@10", "full: MRR@10", "full: change"]
    assert [row[0] for row in rows[1:]] == ["spectral", SHOWN, "jlt"]
    assert rows[1] == ["spectral", "yes", "1,200", "0.020", "0.7", "'+3 [+1, +5]"]
    assert rows[2][2:] == ["10", "9", "0.6", "'=1+1"]
    assert rows[3][2:] == ["0.9 ± 0.01", "0.100", "0.5", "+0.1"]


def test_a_table_is_copied_as_markdown_in_which_names_are_text(page):
    lines = copied(page, "markdown").splitlines()
    assert lines[0].startswith("| method | private | sampled: HR@10 |")
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


@pytest.mark.parametrize("figure", ["alone", "dots"])
def test_a_figure_is_saved_as_svg_and_png_in_light_colours_without_what_is_hidden(html, open_page, figure, tmp_path):
    page = open_page(html, color_scheme="dark", accept_downloads=True)
    page.locator(".choice summary").evaluate_all("(all) => all.forEach((one) => one.click())")
    for choice in page.locator(".choice").all():
        choice.get_by_label("sjlt", exact=True).uncheck()
    files = {}
    for kind in ("svg", "png"):
        with page.expect_download() as download:
            page.locator(f"#{figure} [data-save={kind}]").click()
        assert download.value.suggested_filename == f"{figure}.{kind}"
        download.value.save_as(tmp_path / kind)
        files[kind] = (tmp_path / kind).read_bytes()
    svg = ElementTree.fromstring(files["svg"])
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    series = {element.get("data-series") for element in svg.iter() if element.get("data-series")}
    assert series == {printable(name).replace(" %", "\xa0%") for name in NAMES if name != "sjlt"}
    assert svg[1].get("fill") == "#ffffff"
    assert files["png"].startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(files["png"][at : at + 4], "big") for at in (16, 20))
    assert (width, height) == tuple(2 * round(float(svg.get(name))) for name in ("width", "height"))


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
