"""The report in a real browser: its own tables and charts sort, hide, tell their seeds, copy and can be linked to.

That any page renders, fits a phone and paper, and can be read in the dark, is in ``test_every_page``.
"""

import re

import pytest

from pricdr.report.folder import read_folder
from pricdr.report.page import report
from tests.report import made_up

pytestmark = pytest.mark.browser

TABLE = "#table2-douban-book-music"


@pytest.fixture(scope="module")
def html(tmp_path_factory, browser):
    return report(read_folder(made_up.everything(tmp_path_factory.mktemp("results"))))


@pytest.fixture
def page(html, open_page):
    return open_page(html)


def names(page):
    return page.locator(f"{TABLE} tbody tr:visible > :first-child").all_inner_texts()


def test_the_answer_is_on_the_first_screen(page):
    for about in ("What crosses.", "From which ε, and how certain.", "Warm users, and the paper's projections."):
        box = page.get_by_text(about, exact=False).first.bounding_box()
        assert box["y"] + box["height"] < 900
    assert page.locator("#crossing-1 svg.chart").is_visible()


def test_table_2_sorts_by_our_figure_and_missing_ones_come_last(page):
    before = names(page)
    ours = page.locator(f"{TABLE} thead .names th").nth(3)
    assert ours.inner_text().startswith("ours")
    ours.locator("button").click()
    assert names(page)[:3] == ["PriCDR-S", "PriCDR-J", "ETL"]
    assert set(names(page)[-5:]) == {"NeuMF", "CoNet", "DDTCDR", "DARec", "PriCDR-SYM"}
    ours.locator("button").click()
    ours.locator("button").click()
    assert names(page) == before


def test_a_hidden_method_leaves_tables_and_charts_of_its_section(page):
    choice = page.locator("#table2 > .choice, #table2 .choice").first
    choice.locator("summary").click()
    choice.get_by_label("BPR", exact=True).uncheck()
    assert "BPR" not in names(page)
    assert page.locator("#table2-douban-book-music-chart [data-series=BPR].mark:visible").count() == 0
    assert page.locator("#table2-douban-book-music-chart .mark:visible").count() > 0


def test_a_figure_tells_its_seeds_to_whoever_points_at_it(page):
    page.locator(f"{TABLE} tbody tr").first.locator("td").nth(2).hover()
    assert "seed 5: 0.13" in page.locator("#tip").inner_text()
    mark = page.locator("#crossing-1 .mark[data-series=guided]").first
    mark.hover()
    told = page.locator("#tip").inner_text()
    assert re.search(r"guided, ε = \d+: \d+ ± \d+.%", told)
    assert "seed 1: " in told


def test_a_point_of_a_curve_tells_both_epsilons_by_keyboard(page):
    page.locator("#rq4-epsilon-ungated-1-cold .mark[data-series^='jlt, paper']").first.focus()
    told = page.locator("#tip").inner_text()
    assert "nominal ε = " in told
    assert "exact ε = " in told
    assert "release refused in 0 of 5 runs" in told


def test_an_impossible_cell_has_a_letter_that_is_explained_below_its_table(page):
    table = page.locator(TABLE)
    row = table.locator("tbody tr", has_text="BPR")
    assert row.locator("sup").first.inner_text() in {"a", "b", "c"}
    assert "Impossible together with HR@5 and HR@10" in table.locator(".footnote").all_inner_texts()[0]


@pytest.mark.parametrize("anchor", ["table2", "rq4-epsilon", "frontier", "provenance", "crossing-1", "cost-table"])
def test_every_part_can_be_linked_to(html, open_page, anchor):
    page = open_page(html)
    page.evaluate("(name) => { location.hash = name; }", anchor)
    top = page.locator(f"[id='{anchor}']").bounding_box()["y"]
    assert -5 <= top <= 900


def test_a_table_is_copied_as_numbers(html, open_page):
    page = open_page(html, permissions=["clipboard-read", "clipboard-write"])
    page.locator(f"{TABLE} [data-copy=csv]").click()
    page.locator(f"{TABLE} [data-copy=csv]:text('Copied')").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    line = next(line for line in copied.splitlines() if line.startswith("BPR"))
    assert "0.2889" in line
    assert "0.13" in line
