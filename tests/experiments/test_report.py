"""A page that needs nothing else, and in which no text is markup by accident."""

import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from pricdr.demo.page import (
    Dot,
    Html,
    bullets,
    commands,
    dot_plot,
    page,
    paragraphs,
    table,
    ticks,
    together,
)

EVIL = '<script>alert("x")</script>&\'"\x1b[31m\u202e\n\0'
DOTS = [
    Dot(row, group, mean, mean - 0.02, mean + 0.02)
    for group, means in (("warm", (0.2, 0.31)), ("cold", (0.21, 0.25)))
    for row, mean in zip(("popularity", "with release"), means, strict=True)
]


class Seen(HTMLParser):
    """Every tag with its attributes, and what was never closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def whole(*sections: tuple[str, str]) -> str:
    return page("A title", sections)


def test_a_page_is_whole_and_loads_nothing():
    body = together(paragraphs("a"), table(["", "x"], [["r", "1"]]), dot_plot(DOTS, label="NDCG@10"))
    text = whole(("", "before"), ("Heading", body), ("How", commands(["pricdr demo"])))
    seen = Seen(text)
    assert not seen.open
    assert not {tag for tag, _ in seen.tags} & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not [name for _, attrs in seen.tags for name in attrs if name in {"src", "href"} or name.startswith("on")]
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert '<meta name="viewport"' in text
    assert [tag for tag, _ in seen.tags].count("h2") == 2


def test_text_is_escaped_wherever_it_goes():
    plot = dot_plot([Dot(EVIL, EVIL, 0.2, 0.1, 0.3)], label=EVIL, strong=EVIL)
    grid = table([EVIL, EVIL], [[EVIL, EVIL]], above=[(EVIL, 2)], strong=EVIL)
    body = together(paragraphs(EVIL), bullets([EVIL]), commands([EVIL]), grid, plot)
    text = page(EVIL, [(EVIL, body), (EVIL, EVIL)])
    assert "<script" not in text
    assert "alert" in text
    assert all(line.replace("\xa0", " ").isprintable() for line in text.split("\n"))
    seen = Seen(text)
    assert not seen.open
    known = {"class", "scope", "colspan", "lang", "charset", "name", "content", "http-equiv", "role", "aria-label"}
    drawn = {"viewbox", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r"}
    assert {name for _, attrs in seen.tags for name in attrs} <= known | drawn


def test_markup_is_not_escaped_again():
    assert Html("<b>") in page("t", [("", Html("<b></b>"))])
    assert bullets([Html("<b>x</b>")]) == "<ul>\n<li><b>x</b></li>\n</ul>"
    assert "{braces} {0}" in page("{title}", [("", "{braces} {0}")])


def test_a_plot_is_well_formed_and_drawn_to_scale():
    figure = ElementTree.fromstring(dot_plot(DOTS, label="NDCG@10", strong="with release"))
    svg = figure.find("svg")
    _, _, width, height = map(float, svg.get("viewBox").split())
    at = [float(circle.get("cx")) for circle in svg.iter("circle")]
    marks = {float(text.text): float(text.get("x")) for text in svg.iter("text") if text.get("class") == "tick"}
    (a, x_a), *_, (b, x_b) = marks.items()
    for dot, x in zip(DOTS, at, strict=True):
        assert x == pytest.approx(x_a + (dot.mean - a) / (b - a) * (x_b - x_a), abs=0.2)
    for bar, dot in zip((line for line in svg.iter("line") if line.get("class") == "bar"), DOTS, strict=True):
        length = float(bar.get("x2")) - float(bar.get("x1"))
        assert length == pytest.approx((dot.high - dot.low) / (b - a) * (x_b - x_a), abs=0.2)
    assert len([group for group in svg.iter("g") if group.get("class") == "strong"]) == 2
    for part in svg.iter():
        assert all(0 <= float(part.get(name, 0)) <= width for name in ("x", "x1", "x2", "cx"))
        assert all(0 <= float(part.get(name, 0)) <= height for name in ("y", "y1", "y2", "cy"))
    words = [text.text for text in svg.iter("text")]
    assert [word for word in words if word in {"warm", "cold"}] == ["warm", "cold"]
    assert "0.310" in words
    assert words[-1] == "NDCG@10"


def test_groups_stay_together_in_any_order():
    mixed = dot_plot(sorted(DOTS, key=lambda dot: dot.row), label="x")
    assert mixed.count('class="group"') == 2


def test_what_cannot_be_drawn_is_left_out():
    nan = float("nan")
    alone = dot_plot([Dot("one user", "cold", 0.5, nan, nan), Dot("none", "cold", nan, nan, nan)], label="x")
    assert alone.count("<circle") == 1
    assert 'class="bar"' not in alone
    assert "nothing to plot" in dot_plot([], label="x")
    ElementTree.fromstring(dot_plot([Dot("a label that is long " * 5, "g", 0.0, 0.0, 0.0)], label="x"))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.213, 0.358), (-0.02, 0.07), (5.0, 5.0), (0.0, 0.0), (1e-5, 3e-5), (120, 9000)]
)
def test_ticks_are_few_rise_evenly_and_span_everything(low, high):
    marks = ticks(low, high)
    assert 2 <= len(marks) <= 8
    assert marks[0] <= low + 1e-12
    assert high - 1e-12 <= marks[-1]
    steps = {round(b - a, 12) for a, b in pairwise(marks)}
    assert max(steps) == pytest.approx(min(steps))
    assert min(steps) > 0


def test_intervals_move_to_the_next_line_as_a_whole():
    text = table(["", "a", "b", "c"], [["r", "0.1 ± 0.2", "+0.1 [-0.1, +0.3]", "plain"]])
    assert "<td>0.1 <span>± 0.2</span></td><td>+0.1 <span>[-0.1, +0.3]</span></td><td>plain</td>" in text


def test_pages_are_built_where_nothing_heavy_is_installed():
    blocked = "import sys\nfor name in ('polars', 'pydantic', 'torch', 'numpy', 'scipy'): sys.modules[name] = None\n"
    code = f"{blocked}from pricdr.demo.page import page; page('t', [])"
    subprocess.run([sys.executable, "-c", code], check=True)
