"""Results as one page that needs nothing else: tables, a dot plot with interval bars, and words around them.

The markup is in ``templates``; here are the pieces of a page as plain values, and the arithmetic of the plot. The page
forbids itself to load anything.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.markup import template_environment

_WIDTH: Final = 400
_ROW, _HEAD, _AXIS = 26, 34, 40
"""Heights of a row, of a group's heading and of the axis."""
_LETTER: Final = 7.0
"""Generous width of a letter, so that labels never run into the plot."""
_VALUE: Final = 52
"""Width of the column of figures at the right."""


@dataclass(frozen=True)
class Dot:
    """One figure of the plot: a row (a method), its group (a kind of user), and a mean with its interval."""

    row: str
    group: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Tick:
    """A value on the axis: where it is and what is written there."""

    x: float
    label: str


@dataclass(frozen=True)
class PlotRow:
    """A dot as it is drawn, with its name on the left and its figure on the right."""

    name: str
    value: str
    in_words: str
    x: float
    y: float
    bar: tuple[float, float] | None
    """From where to where; None where the interval is not finite."""
    strong: bool

    @property
    def text_y(self) -> float:
        """The baseline of text that is centred on the row."""
        return self.y + 4.5


@dataclass(frozen=True)
class PlotGroup:
    """Rows under one heading."""

    name: str
    top: float
    rows: tuple[PlotRow, ...]

    @property
    def heading_y(self) -> float:
        """The baseline of the heading."""
        return self.top - 11

    @property
    def bottom(self) -> float:
        """Where the group ends."""
        return self.top + _ROW * len(self.rows)


@dataclass(frozen=True)
class Plot:
    """Everything that is drawn, in units of the picture; without groups there is nothing to draw."""

    label: str
    in_words: str
    """For those who cannot see the plot."""
    left: float
    right: float
    """The scale lies between them: names are to the left, figures to the right."""
    ticks: tuple[Tick, ...]
    groups: tuple[PlotGroup, ...]

    @property
    def bottom(self) -> float:
        """Where the rows end and the axis begins."""
        return self.groups[-1].bottom

    @property
    def width(self) -> float:
        """Of the whole picture."""
        return self.right + _VALUE

    @property
    def height(self) -> float:
        """Of the whole picture."""
        return self.bottom + _AXIS

    @property
    def middle(self) -> float:
        """Of the scale: the label of the axis is centred there."""
        return (self.left + self.right) / 2


@dataclass(frozen=True)
class TableRow:
    """A row of a table: its name, and cells as pairs of a value and an interval (or "")."""

    name: str
    cells: tuple[tuple[str, str], ...]
    strong: bool


@dataclass(frozen=True)
class FigureTable:
    """A table whose first column names the row."""

    header: Sequence[str]
    rows: Sequence[TableRow]
    spans: Sequence[tuple[str, int]]
    """A line over the header: what it says, and over how many columns."""


@dataclass(frozen=True)
class Section:
    """A piece of a page; what it has is shown in the order of these fields."""

    heading: str = ""
    """Without one, the section just follows the one before."""
    paragraphs: Sequence[str] = ()
    plot: Plot | None = None
    table: FigureTable | None = None
    bullets: Sequence[str] = ()
    commands: Sequence[str] = ()
    """To copy, one a line."""


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return a whole HTML page.

    >>> render_page("R&D", [Section(paragraphs=["a < b"])]).count("a &lt; b")
    1
    """
    environment = template_environment("pricdr.demo")
    environment.filters["px"] = _pixels
    return environment.get_template("page.html.j2").render(title=title, sections=sections)


def figure_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    spans: Sequence[tuple[str, int]] = (),
    strong: str | None = None,
) -> FigureTable:
    """Return a table of texts, of which the first in each row is its name; ``strong`` names the row to point out."""
    drawn = [TableRow(name, tuple(map(split_interval, cells)), name == strong) for name, *cells in rows]
    return FigureTable(header, drawn, spans)


def split_interval(cell: str) -> tuple[str, str]:
    """Return a figure and its interval apart: the interval may move to the next line, but only as a whole.

    >>> split_interval("0.1 ± 0.2"), split_interval("+0.1 [-0.1, +0.3]"), split_interval("plain")
    (('0.1', '± 0.2'), ('+0.1', '[-0.1, +0.3]'), ('plain', ''))
    """
    match = re.fullmatch(r"(.*?) (±.*|\[.*\])", cell, flags=re.DOTALL)
    return (match[1], match[2]) if match else (cell, "")


def dot_plot(dots: Sequence[Dot], *, label: str, strong: str | None = None, digits: int = 3) -> Plot:
    """Lay out a dot and an interval bar for every figure, the groups below one another on one scale.

    Args:
        dots: the figures; those whose mean is not finite are left out.
        label: what the axis shows.
        strong: the row to point out.
        digits: decimals of the figures.
    """
    dots = [dot for dot in dots if math.isfinite(dot.mean)]
    if not dots:
        return Plot(label, f"{label}. There is nothing to plot.", 0.0, 0.0, (), ())
    ends = [value for dot in dots for value in (dot.mean, dot.low, dot.high) if math.isfinite(value)]
    marks = ticks(min(ends), max(ends))
    left = 12 + _LETTER * max(len(dot.row) for dot in dots)
    right = max(_WIDTH, left + 180 + _VALUE) - _VALUE

    def x(value: float) -> float:
        return left + (value - marks[0]) / (marks[-1] - marks[0]) * (right - left)

    groups: list[PlotGroup] = []
    for name in dict.fromkeys(dot.group for dot in dots):
        top = (groups[-1].bottom if groups else 0.0) + _HEAD
        rows = []
        for at, dot in enumerate(dot for dot in dots if dot.group == name):
            finite = math.isfinite(dot.low) and math.isfinite(dot.high)
            value, low, high = (f"{number:.{digits}f}" for number in (dot.mean, dot.low, dot.high))
            row = PlotRow(
                name=dot.row,
                value=value,
                in_words=f"{dot.row}: {value} [{low}, {high}]",
                x=x(dot.mean),
                y=top + _ROW * (at + 0.5),
                bar=(x(dot.low), x(dot.high)) if finite else None,
                strong=dot.row == strong,
            )
            rows.append(row)
        groups.append(PlotGroup(name, top, tuple(rows)))
    decimals = _decimals(marks[1] - marks[0])
    in_words = "; ".join(f"{dot.group}, {dot.row}: {dot.mean:.{digits}f}" for dot in dots)
    axis = tuple(Tick(x(mark), f"{mark:.{decimals}f}") for mark in marks)
    return Plot(label, f"{label}. {in_words}", left, right, axis, tuple(groups))


def ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Return round numbers that span from ``low`` to ``high``: at least two, and about so many.

    >>> ticks(0.21, 0.36)
    [0.2, 0.25, 0.3, 0.35, 0.4]
    >>> ticks(1.0, 1.0)
    [0.8, 0.9, 1.0, 1.1, 1.2]
    """
    if high - low < 1e-9 * max(1.0, abs(high)):
        room = 0.2 * (abs(high) or 1.0)
        low, high = low - room, high + room
    exact = (high - low) / max(1, about - 1)
    power = 10.0 ** math.floor(math.log10(exact))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= exact * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _decimals(step: float) -> int:
    """Return how many decimals a multiple of ``step`` needs to be told from the next."""
    return next(places for places in range(13) if places == 12 or round(step, places) == round(step, 12))


def _pixels(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}"
