"""Colours, shapes and dashes of all pages: told apart by the colour-blind, and in black and white.

A figure is drawn in the light colours, so that a downloaded one is always light. The style sheet replaces each of them
by its dark twin where the reader prefers dark pages; it is made from these tables, and nothing else names a colour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pricdr.errors import ParameterError

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True)
class Colour:
    """A colour on light and on dark pages."""

    light: str
    dark: str


PAPER: Final = Colour("#ffffff", "#15181c")
INK: Final = Colour("#1c2024", "#e6e9ec")
MUTED: Final = Colour("#5a606b", "#a9b0ba")
LINE: Final = Colour("#d8dce2", "#3a4048")
SOFT: Final = Colour("#f4f6f8", "#1f242a")
ACCENT: Final = Colour("#0a5fc2", "#78b6ff")
CAUTION: Final = Colour("#a3410a", "#ffa76b")

# After Okabe and Ito; the four pale ones are darkened, so that each has a contrast of 3 with the paper.
SERIES: Final = (
    Colour("#0072b2", "#5cb3e8"),  # blue
    Colour("#d55e00", "#ff9350"),  # vermilion
    Colour("#00835f", "#3ecb9d"),  # green
    Colour("#ad5690", "#e7a1cb"),  # purple
    Colour("#a87400", "#e8b740"),  # amber
    Colour("#3f97c9", "#a5dafa"),  # sky
    Colour("#3d444d", "#d3d8de"),  # graphite
    Colour("#7b828d", "#8d95a1"),  # grey
)
SHAPES: Final = (
    *("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"),
)
DASHES: Final = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (5, 2), (12, 3), (1, 3), (6, 2, 1, 2))
"""A dash and its gap, in pixels."""

GROUND: Final = {"paper": PAPER, "ink": INK, "muted": MUTED, "line": LINE, "soft": SOFT, "accent": ACCENT}
"""The colours of everything but series, by their names in the style sheet."""
ALL: Final = (*GROUND.values(), CAUTION, *SERIES)


@dataclass(frozen=True)
class Palette:
    """Which colour, shape and dash each series has: the same in all figures that are given the same names.

    >>> Palette(["jlt", "sjlt"]).colour("sjlt")
    '#d55e00'
    """

    names: Sequence[str]

    def colour(self, name: str) -> str:
        """Return the colour of a series on light pages."""
        return SERIES[self._position(name) % len(SERIES)].light

    def color(self, field: str = "series", **options: Any) -> "alt.Color":  # noqa: ANN401 - altair's options
        """Return altair's channel of colours; ``options`` go to altair, such as ``title`` or ``legend``."""
        import altair as alt

        colours = [SERIES[at % len(SERIES)].light for at in range(len(self.names))]
        return alt.Color(field, type="nominal", scale=self._scale(colours), **{"title": None, **options})

    def shape(self, field: str = "series", **options: Any) -> "alt.Shape":  # noqa: ANN401
        """Return altair's channel of shapes; with the same field as :meth:`color` both share one legend."""
        import altair as alt

        # Each further round of colours starts one shape later: no two series look alike.
        shapes = [SHAPES[(at + at // len(SERIES)) % len(SHAPES)] for at in range(len(self.names))]
        return alt.Shape(field, type="nominal", scale=self._scale(shapes), **{"title": None, **options})

    def dash(self, field: str = "series", **options: Any) -> "alt.StrokeDash":  # noqa: ANN401
        """Return altair's channel of dashes; with the same field as :meth:`color` both share one legend."""
        import altair as alt

        dashes = [list(DASHES[(at + at // len(SERIES)) % len(DASHES)]) for at in range(len(self.names))]
        return alt.StrokeDash(field, type="nominal", scale=self._scale(dashes), **{"title": None, **options})

    def _scale(self, values: list[Any]) -> "alt.Scale":
        import altair as alt

        return alt.Scale(domain=list(self.names), range=values)

    def _position(self, name: str) -> int:
        if name not in self.names:
            raise ParameterError(f"{name!r} is none of the palette's series: {', '.join(self.names)}")
        return list(self.names).index(name)
