"""A dot plot with interval bars, drawn without any library: groups of rows below one another on one scale.

The markup is in ``templates/figures/dots.svg.j2``; here is its arithmetic.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.markup import shown_text
from pricdr.pages.figures import Figure, draw

_WIDTH: Final = 560
_ROW, _HEAD, _AXIS = 26, 34, 40
"""Heights of a row, of a group's heading and of the axis."""
_LETTER: Final = 7.2
"""Generous width of a letter, so that labels never run into the plot."""
_VALUE: Final = 56
"""Width of the column of figures at the right."""


@dataclass(frozen=True)
class Dot:
    """One figure of the plot: a row (a method), its group (a kind of user), and a mean with its interval."""

    row: str
    group: str
    mean: float
    low: float
    high: float
    series: str = ""
    """What readers hide it by; by default the row."""
    hover: Sequence[str] = ()
    """Further lines for those who point at it."""


@dataclass(frozen=True)
class Tick:
    """A value on the axis: where it is and what is written there."""

    x: float
    label: str
    zero: bool


@dataclass(frozen=True)
class PlotRow:
    """A dot as it is drawn, with its name on the left and its figure on the right."""

    name: str
    series: str
    value: str
    hover: tuple[str, ...]
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
    """Everything that is drawn, in units of the picture."""

    label: str
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


def dot_plot(
    id: str, caption: str, dots: Sequence[Dot], *, label: str, strong: str = "", digits: int = 3, note: str = ""
) -> Figure | None:
    """Return a figure with a dot and an interval bar for every value, or None where there is nothing to draw.

    Args:
        id: what a link to the figure names.
        caption: what it shows.
        dots: the values; those whose mean is not finite are left out.
        label: what the axis shows.
        strong: the row to point out.
        digits: decimals of the values.
        note: a sentence behind the caption.
    """
    dots = [dot for dot in dots if math.isfinite(dot.mean)]
    if not dots:
        return None
    plot = _layout(dots, label, strong, digits)
    in_words = "; ".join(f"{dot.group}, {dot.row}: {_interval(dot, digits)}" for dot in dots)
    series = tuple(dict.fromkeys(dot.series or dot.row for dot in dots))
    svg = draw("dots", id=id, caption=caption, plot=plot)
    return Figure(id, caption, f"{label}. {in_words}.", svg, series, note=note)


def _layout(dots: Sequence[Dot], label: str, strong: str, digits: int) -> Plot:
    ends = [value for dot in dots for value in (dot.mean, dot.low, dot.high) if math.isfinite(value)]
    marks = ticks(min(ends), max(ends))
    left = 12 + _LETTER * max(len(shown_text(dot.row)) for dot in dots)
    right = max(_WIDTH, left + 180 + _VALUE) - _VALUE

    def x(value: float) -> float:
        return left + (value - marks[0]) / (marks[-1] - marks[0]) * (right - left)

    groups: list[PlotGroup] = []
    for name in dict.fromkeys(dot.group for dot in dots):
        top = (groups[-1].bottom if groups else 0.0) + _HEAD
        rows = []
        for at, dot in enumerate(dot for dot in dots if dot.group == name):
            finite = math.isfinite(dot.low) and math.isfinite(dot.high)
            row = PlotRow(
                name=dot.row,
                series=dot.series or dot.row,
                value=f"{dot.mean:.{digits}f}",
                hover=(dot.row, f"{dot.group}: {_interval(dot, digits)}", *dot.hover),
                x=x(dot.mean),
                y=top + _ROW * (at + 0.5),
                bar=(x(dot.low), x(dot.high)) if finite else None,
                strong=dot.row == strong,
            )
            rows.append(row)
        groups.append(PlotGroup(name, top, tuple(rows)))
    decimals = _decimals(marks[1] - marks[0])
    axis = tuple(Tick(x(mark), f"{mark:.{decimals}f}", mark == 0) for mark in marks)
    return Plot(label, left, right, axis, tuple(groups))


def _interval(dot: Dot, digits: int) -> str:
    """Return a mean and its interval, where it has one.

    >>> _interval(Dot("a", "b", 0.2, 0.1, 0.3), 2), _interval(Dot("a", "b", 0.2, math.nan, math.nan), 2)
    ('0.20 [0.10, 0.30]', '0.20')
    """
    mean, low, high = (f"{value:.{digits}f}" for value in (dot.mean, dot.low, dot.high))
    return f"{mean} [{low}, {high}]" if math.isfinite(dot.low) and math.isfinite(dot.high) else mean


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
