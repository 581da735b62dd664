"""Charts: altair says what to draw, vl-convert draws it; the picture for dark pages has other colours and is the same.

A page loads no chart library. Without altair and vl-convert, the extra ``report``, it has a figure's words instead.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pricdr.errors import MissingExtraError, printable
from pricdr.extras import REPORT
from pricdr.pages import Figure

if TYPE_CHECKING:
    import altair as alt

WIDTH: Final = 290  # of a chart without its axes, in pixels: with them it fits a phone
INK, MUTED, LINE, PAPER = "#1c2024", "#5a606b", "#d8dce2", "#ffffff"
# After Okabe and Ito, darkened or lightened so that each has a contrast of 3 with the paper.
SERIES: Final = ("#0072b2", "#d55e00", "#00835f", "#ad5690", "#a87400", "#3f97c9", "#3d444d", "#7b828d")
_DARK_SERIES: Final = ("#5cb3e8", "#ff9350", "#3ecb9d", "#e7a1cb", "#e8b740", "#a5dafa", "#d3d8de", "#8d95a1")
DARK: Final = {
    **{INK: "#e6e9ec", MUTED: "#a9b0ba", LINE: "#3a4048", PAPER: "#15181c"},
    **dict(zip(SERIES, _DARK_SERIES, strict=True)),
}
"""What each colour becomes on dark pages."""
SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
_QUIET: Final = {"labelColor": MUTED, "titleColor": MUTED, "labelFontSize": 12, "titleFontSize": 12}
_THEME: Final[dict[str, Any]] = {
    # Pictures have their words beside them; vega would put titles into expressions, where "\\u001b" is no text.
    "aria": False,
    "background": PAPER,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_QUIET,
        **dict.fromkeys(("gridColor", "domainColor", "tickColor"), LINE),
        **{"titleFontWeight": "normal", "labelLimit": 220, "titlePadding": 8, "labelPadding": 4},
    },
    "header": {**_QUIET, "labelColor": INK, "labelFontWeight": 600, "labelAnchor": "start", "labelOrient": "top"},
    "legend": {
        **{"orient": "bottom", "direction": "horizontal", "columns": 2, "labelLimit": 280, "symbolOpacity": 1},
        **{"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12, "symbolSize": 70},
        **{"titleFontWeight": "normal", "rowPadding": 4, "columnPadding": 18},
    },
    "title": {"anchor": "start", "color": INK, "fontSize": 13, "fontWeight": 600, "offset": 12},
    "point": {"filled": True, "size": 55, "opacity": 1, "color": SERIES[0]},
    "line": {"strokeWidth": 2, "color": SERIES[0]},
    "rule": {"strokeWidth": 1.5, "color": SERIES[0]},
    "text": {"color": INK, "fontSize": 12},
    "range": {"category": list(SERIES), "symbol": list(SHAPES)},
}
"""The looks of every chart in vega's words; what a chart configures itself comes before."""


def chart_figure(
    id: str, caption: str, draw: "Callable[[], alt.TopLevelMixin]", *, in_words: str, note: str = ""
) -> Figure:
    """Draw a chart in the colours and fonts of pages; where charts cannot be drawn here, the figure is its words."""
    try:
        REPORT.require()
    except MissingExtraError as error:
        return Figure(id, caption, in_words, note=f"{note} In words, since {error}.".strip())
    import vl_convert

    # As text that is one line and printable: names from outside may hold what no XML can.
    spec = _printable(draw().to_dict(validate=False))  # our own charts, all drawn in tests
    own = {name: value for name, value in spec.get("config", {}).items() if name != "view"}  # altair's, not ours
    config = _THEME | {name: {**_THEME.get(name, {}), **value} for name, value in own.items()}
    svg = str(vl_convert.vegalite_to_svg(spec | {"config": config}, allowed_base_urls=[]))
    # vega counts ids over everything that a process has drawn; a picture must not depend on those before it.
    ids = {old: f"clip{at}" for at, old in enumerate(re.findall(r'<clipPath id="(\w+)"', svg))}
    light = re.sub(r'(?<=<clipPath id=")\w+|(?<=url\(#)\w+', lambda found: ids.get(found[0], found[0]), svg)
    dark = re.sub(r'(?<=")#[0-9a-f]{6}(?=")', lambda found: DARK.get(found[0], found[0]), light)
    return Figure(id, caption, in_words, light, dark, note)


def _printable(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _printable(inner) for key, inner in value.items()}
    return [_printable(inner) for inner in value] if isinstance(value, list) else value


class Dot(NamedTuple):
    """One value of a dot plot: a row (a method), its group (a kind of user), and a mean with its interval."""

    row: str
    group: str
    mean: float
    low: float
    high: float


def dot_plot(
    id: str, caption: str, dots: Sequence[Dot], *, label: str, strong: str = "", digits: int = 3, note: str = ""
) -> Figure | None:
    """Return a figure with a dot and an interval for every finite value, or None where there is nothing to draw."""
    rows: list[dict[str, Any]] = []
    for dot in (dot for dot in dots if math.isfinite(dot.mean)):
        text, low, high = f"{dot.mean:.{digits}f}", dot.mean, dot.mean
        words = f"{dot.group}, {dot.row}: {text}"
        if math.isfinite(dot.low) and math.isfinite(dot.high):
            low, high = dot.low, dot.high
            words += f" [{low:.{digits}f}, {high:.{digits}f}]"
        opacity = 1 if dot.row == strong or not strong else 0.55
        rows.append(dot._asdict() | {"low": low, "high": high, "text": text, "words": words, "opacity": opacity})
    if not rows:
        return None
    in_words = f"{label}. {'; '.join(row['words'] for row in rows)}."
    return chart_figure(id, caption, partial(_dots, rows, label), in_words=in_words, note=note)


def _dots(rows: Sequence[dict[str, Any]], label: str) -> "alt.TopLevelMixin":
    import altair as alt

    groups, names = (list(dict.fromkeys(row[key] for row in rows)) for key in ("group", "row"))
    axis = alt.Axis(grid=False, ticks=False, labels=False, domain=False)
    faded = alt.Opacity("opacity:Q", scale=None)
    x = alt.X("low:Q", title=label, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    base = alt.Chart().encode(y=alt.Y("row:N", sort=names, title=None, axis=axis))
    layers = [
        base.mark_rule(strokeWidth=3).encode(x=x, x2="high:Q", opacity=faded),
        base.mark_point().encode(x="mean:Q", opacity=faded),
        # Names stand above their rows, not beside them: on a phone they would leave no room for the dots.
        base.mark_text(align="left", dy=-13, limit=230).encode(x=alt.value(0), text="row:N"),
        base.mark_text(align="right", dy=-13).encode(x=alt.value(WIDTH), text="text:N"),
    ]
    if min(row["low"] for row in rows) < 0 < max(row["high"] for row in rows):
        layers.insert(0, alt.Chart().mark_rule(strokeDash=[3, 3], opacity=0.5).encode(x=alt.datum(0)))
    panel = alt.layer(*layers, data=alt.InlineData(values=rows)).properties(width=WIDTH, height=36 * len(names))
    faceted = panel.facet(row=alt.Row("group:N", sort=groups, title=None))
    chart: alt.TopLevelMixin = faceted.resolve_scale(y="independent")
    return chart
