"""The dot plot: drawn to scale, well formed whatever its names are."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from pricdr.pages import Dot, dot_plot
from pricdr.pages.dots import ticks
from tests.pages.everything import EVIL

DOTS = [
    Dot(row, group, mean, mean - 0.02, mean + 0.02)
    for group, means in (("warm", (0.2, 0.31)), ("cold", (0.21, 0.25)))
    for row, mean in zip(("popularity", "with release"), means, strict=True)
]


def drawn(dots: list[Dot], **options: str) -> str:
    """Return a plot's markup."""
    figure = dot_plot("plot", "caption", dots, label=options.pop("label", "x"), **options)
    assert figure is not None
    return figure.svg


def test_a_plot_is_well_formed_and_drawn_to_scale():
    svg = ElementTree.fromstring(drawn(DOTS, label="NDCG@10", strong="with release"))
    _, _, width, height = map(float, svg.get("viewBox").split())
    at = [float(circle.get("cx")) for circle in svg.iter("circle")]
    marks = {float(text.text): float(text.get("x")) for text in svg.iter("text") if text.get("class") == "tick"}
    (a, x_a), *_, (b, x_b) = marks.items()
    for dot, x in zip(DOTS, at, strict=True):
        assert x == pytest.approx(x_a + (dot.mean - a) / (b - a) * (x_b - x_a), abs=0.2)
    for bar, dot in zip((line for line in svg.iter("line") if line.get("class") == "bar"), DOTS, strict=True):
        length = float(bar.get("x2")) - float(bar.get("x1"))
        assert length == pytest.approx((dot.high - dot.low) / (b - a) * (x_b - x_a), abs=0.2)
    bold = [text.text for text in svg.iter("text") if text.get("font-weight") == "600"]
    assert bold == ["warm", "with release", "0.310", "cold", "with release", "0.250"]
    for part in svg.iter():
        assert all(0 <= float(part.get(name, 0)) <= width for name in ("x", "x1", "x2", "cx"))
        assert all(0 <= float(part.get(name, 0)) <= height for name in ("y", "y1", "y2", "cy"))
    words = [text.text for text in svg.iter("text")]
    assert [word for word in words if word in {"warm", "cold"}] == ["warm", "cold"]
    assert "0.310" in words
    assert words[-1] == "NDCG@10"


def test_groups_stay_together_in_any_order():
    mixed = drawn(sorted(DOTS, key=lambda dot: dot.row))
    assert mixed.count(">warm</text>") == mixed.count(">cold</text>") == 1


def test_what_cannot_be_drawn_is_left_out():
    nan = float("nan")
    alone = drawn([Dot("one user", "cold", 0.5, nan, nan), Dot("none", "cold", nan, nan, nan)])
    assert alone.count("<circle") == 1
    assert 'class="bar"' not in alone
    assert dot_plot("plot", "caption", [Dot("none", "cold", nan, nan, nan)], label="x") is None
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


def test_names_in_a_plot_are_text():
    svg = ElementTree.fromstring(drawn([Dot(EVIL, EVIL, 0.2, 0.1, 0.3)], label=EVIL, strong=EVIL))
    assert {element.tag for element in svg.iter()} == {"svg", "g", "text", "title", "line", "rect", "circle"}
    (mark,) = [group for group in svg.iter("g") if group.get("class") == "mark"]
    assert "<script>" in mark.get("data-series")
