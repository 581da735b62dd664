"""A page that needs nothing else, and in which no text is markup by accident."""

import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from pricdr.demo.page import Dot, Section, dot_plot, figure_table, render_page, ticks

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


def drawn(dots: list[Dot], **options: str) -> str:
    """A plot's markup: the figure of a page with nothing else."""
    text = render_page("t", [Section(plot=dot_plot(dots, label=options.pop("label", "x"), **options))])
    return text[text.index("<figure>") : text.index("</figure>") + len("</figure>")]


def test_a_page_is_whole_and_loads_nothing():
    figures = Section("Heading", ["a"], dot_plot(DOTS, label="NDCG@10"), figure_table(["", "x"], [["r", "1"]]))
    text = render_page("A title", [Section(paragraphs=["before"]), figures, Section("How", commands=["pricdr demo"])])
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
    table = figure_table([EVIL, EVIL], [[EVIL, EVIL, f"1 [{EVIL}]"]], spans=[(EVIL, 2)], strong=EVIL)
    text = render_page(EVIL, [Section(EVIL, [EVIL, EVIL], plot, table, [EVIL], [EVIL])])
    assert "<script" not in text
    # Title (twice), heading and paragraphs; seven times in the plot, six in the table; the bullet and the command.
    assert text.count("&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&amp;&#39;&#34;") == 5 + 7 + 6 + 2
    assert all(line.replace("\xa0", " ").isprintable() for line in text.split("\n"))
    seen = Seen(text)
    assert not seen.open
    known = {"class", "scope", "colspan", "lang", "charset", "name", "content", "http-equiv", "role", "aria-label"}
    drawn = {"viewbox", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r"}
    assert {name for _, attrs in seen.tags for name in attrs} <= known | drawn


def test_text_that_looks_like_a_template_is_text():
    text = render_page("{title}", [Section("{%raw%}", ["{{ title }} {0}"])])
    for words in ("<h1>{title}</h1>", "<h2>{%raw%}</h2>", "<p>{{ title }} {0}</p>"):
        assert words in text


def test_a_plot_is_well_formed_and_drawn_to_scale():
    figure = ElementTree.fromstring(drawn(DOTS, label="NDCG@10", strong="with release"))
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
    mixed = drawn(sorted(DOTS, key=lambda dot: dot.row))
    assert mixed.count('class="group"') == 2


def test_what_cannot_be_drawn_is_left_out():
    nan = float("nan")
    alone = drawn([Dot("one user", "cold", 0.5, nan, nan), Dot("none", "cold", nan, nan, nan)])
    assert alone.count("<circle") == 1
    assert 'class="bar"' not in alone
    assert "<p>There is nothing to plot.</p>" in render_page("t", [Section(plot=dot_plot([], label="x"))])
    ElementTree.fromstring(drawn([Dot("a label that is long " * 5, "g", 0.0, 0.0, 0.0)]))


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
    table = figure_table(["", "a", "b", "c"], [["r", "0.1 ± 0.2", "+0.1 [-0.1, +0.3]", "plain"]])
    text = render_page("t", [Section(table=table)])
    assert "<td>0.1 <span>± 0.2</span></td><td>+0.1 <span>[-0.1, +0.3]</span></td><td>plain</td>" in text


def test_pages_are_built_where_nothing_heavy_is_installed():
    blocked = "import sys\nfor name in ('polars', 'pydantic', 'torch', 'numpy', 'scipy'): sys.modules[name] = None\n"
    code = f"{blocked}from pricdr.demo.page import render_page; render_page('t', [])"
    subprocess.run([sys.executable, "-c", code], check=True)
