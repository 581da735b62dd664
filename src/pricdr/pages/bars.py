"""Horizontal bars on one scale, drawn without any library: lengths to compare by eye, and shares of a whole."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pricdr.pages.figures import Figure, draw

_WIDTH: Final = 400.0
_ROW: Final = 46.0
_THICK: Final = 14.0


@dataclass(frozen=True)
class Bar:
    """A value, what it is called and how it is written."""

    label: str
    value: float
    text: str
    whole: float | None = None
    """What the value is a part of: drawn as an outline around it."""
    strong: bool = False


@dataclass(frozen=True)
class DrawnBar:
    """A bar as it is drawn, below its label."""

    label: str
    text: str
    y: float
    length: float
    outline: float | None
    strong: bool


def bar_chart(id: str, caption: str, bars: Sequence[Bar], *, note: str = "") -> Figure | None:
    """Return a figure with a bar for every value that is finite, or None where there is nothing to draw.

    Args:
        id: what a link to the figure names.
        caption: what it shows.
        bars: values of at least 0, in one unit.
        note: a sentence behind the caption.
    """
    bars = [bar for bar in bars if math.isfinite(bar.value) and bar.value >= 0]
    longest = max((max(bar.value, bar.whole or 0.0) for bar in bars), default=0.0)
    if not longest or not math.isfinite(longest):
        return None
    drawn = [
        DrawnBar(
            label=bar.label,
            text=bar.text,
            y=_ROW * at,
            length=max(1.0, _WIDTH * (bar.value / longest)),
            outline=None if bar.whole is None else _WIDTH * (bar.whole / longest),
            strong=bar.strong,
        )
        for at, bar in enumerate(bars)
    ]
    svg = draw("bars", id=id, caption=caption, bars=drawn, width=_WIDTH, height=_ROW * len(bars), thick=_THICK)
    in_words = "; ".join(f"{bar.label}: {bar.text}" for bar in bars)
    return Figure(id, caption, f"{in_words}.", svg, note=note)
