"""A page needs nothing else, and no text in it is markup by accident."""

import subprocess
import sys

import pytest

from pricdr.errors import ParameterError, printable
from pricdr.pages import Cell, Column, Page, Section, Table, render, table
from tests.pages.everything import EVIL, everything
from tests.pages.parsed import require_self_contained


@pytest.fixture(scope="module")
def text() -> str:
    return render(everything())


def test_a_page_of_everything_is_whole_and_loads_nothing(text):
    page = require_self_contained(text)
    for media in ("prefers-color-scheme: dark", "print", "max-width", "prefers-reduced-motion"):
        assert media in text
    assert "width=device-width" in text
    assert [page.tags.count(tag) for tag in ("section", "h2", "h3", "header", "footer", "picture")] == [
        5,
        3,
        2,
        1,
        1,
        1,
    ]


def test_text_is_escaped_wherever_it_goes(text):
    page = require_self_contained(text)
    assert 'alert("x")</script>' not in text
    assert "49" not in page.text.replace("0.49", "")
    assert all(line.replace("\xa0", " ").isprintable() for line in text.split("\n"))
    shown = printable(EVIL).replace(" %", "\xa0%")
    # Title, h1, section, lead, paragraph, note, fact, command, summary, footer, table row, list, caption.
    assert page.text.count(shown) >= 13
    assert any(shown in words for words in page.values("img", "alt"))


def test_a_row_of_another_width_is_refused():
    with pytest.raises(ParameterError, match="table t has 2 columns"):
        table("t", "c", ["a", "b"], [["1"]])


def test_marks_are_explained_once_below_the_table():
    rows = [
        [Cell("a"), Cell("1", mark="why"), Cell("2", mark="other")],
        [Cell("b"), Cell("3", mark="why"), "4"],
    ]
    given = Table("t", "c", [Column("m", numeric=False), Column("x"), Column("y")], rows)
    page = require_self_contained(render(Page("t", [Section("s", [given])])))
    assert [name for name in page.ids if name.startswith("t-")] == ["t-caption", "t-a", "t-b"]
    assert page.values("a", "href").count("#t-a") == 2
    assert page.text.count("why") == 1


@pytest.mark.parametrize(
    ("cell", "numeric", "key"),
    [
        (Cell("0.123 ± 0.1"), True, "0.123"),
        (Cell("< 0.001"), True, "0.001"),
        (Cell("−0.5"), True, "-0.5"),
        (Cell("+12 %"), True, "12.0"),
        (Cell("1e-06"), True, "1e-06"),
        (Cell("ε"), True, ""),
        (Cell("no data"), True, ""),
        (Cell("without limit", float("inf")), True, "Infinity"),
        (Cell("0.1", float("nan")), True, ""),
        (Cell("BPR 2"), False, "bpr 2"),
        (Cell("cold", "3"), False, "3"),
    ],
)
def test_cells_sort_by_what_they_mean(cell, numeric, key):
    assert cell.sort_key(numeric=numeric) == key


def test_intervals_move_to_the_next_line_as_a_whole():
    given = table("t", "c", ["", "a", "b", "c"], [["r", "0.1 ± 0.2", "+0.1 [-0.1, +0.3]", "plain"]])
    text = render(Page("t", [Section("s", [given])]))
    for shown in ('>0.1 <span class="detail">± 0.2</span></td>', '>+0.1 <span class="detail">[-0.1, +0.3]</span></td>'):
        assert shown in text
    assert ">plain</td>" in text


def test_pages_are_built_where_nothing_heavy_is_installed():
    heavy = ("polars", "pydantic", "torch", "numpy", "scipy", "altair", "vl_convert")
    blocked = f"import sys\nfor name in {heavy}: sys.modules[name] = None\n"
    code = f"{blocked}from pricdr.pages import Page, render; render(Page('t'))"
    subprocess.run([sys.executable, "-c", code], check=True)
