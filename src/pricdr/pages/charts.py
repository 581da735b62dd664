"""Charts: altair says what to draw, vl-convert draws it once, and the page holds plain SVG.

No chart library reaches the reader: the page's own script gives tooltips, hides series and downloads. For that a mark
says in its ``description`` what it is, made by :func:`described`. altair and vl-convert are the extra ``report``.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from markupsafe import Markup

from pricdr.errors import printable
from pricdr.extras import REPORT
from pricdr.markup import shown_text
from pricdr.pages.figures import Figure, size_class
from pricdr.pages.palette import INK, LINE, MUTED, SERIES
from pricdr.pages.tables import Table

if TYPE_CHECKING:
    import altair as alt

_NAMESPACE: Final = "{http://www.w3.org/2000/svg}"
_ELEMENTS: Final = {"svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clipPath"}
_DROPPED: Final = {"role", "aria-roledescription", "aria-label", "aria-hidden", "pointer-events", "version", "href"}
_FONT: Final = "system-ui, sans-serif"
_QUIET: Final = {"labelColor": MUTED.light, "titleColor": MUTED.light, "labelFontSize": 12, "titleFontSize": 12}
THEME: Final[Mapping[str, Mapping[str, Any]]] = {
    "view": {"stroke": None, "continuousWidth": 420, "continuousHeight": 260},
    "axis": {
        **_QUIET,
        **dict.fromkeys(("gridColor", "domainColor", "tickColor"), LINE.light),
        **{"titleFontWeight": "normal", "labelLimit": 0, "titlePadding": 8, "labelPadding": 4},
    },
    "header": {**_QUIET, "labelColor": INK.light, "titleFontWeight": "normal"},
    "legend": {
        **{"orient": "bottom", "direction": "horizontal", "columns": 2, "labelLimit": 0, "symbolOpacity": 1},
        **{"labelColor": INK.light, "titleColor": MUTED.light, "labelFontSize": 12, "symbolSize": 70},
        **{"titleFontWeight": "normal", "rowPadding": 4, "columnPadding": 18},
    },
    "title": {"anchor": "start", "color": INK.light, "fontSize": 13, "fontWeight": 600, "offset": 12},
    "point": {"filled": True, "size": 55, "opacity": 1},
    "line": {"strokeWidth": 2},
    "rule": {"strokeWidth": 1.5},
    "text": {"color": INK.light, "fontSize": 12},
    "range": {"category": [colour.light for colour in SERIES]},
}
"""The looks of every chart, in altair's words; what a chart configures itself comes before."""


def described(series: str, *lines: str) -> str:
    r"""Return what a mark is, for the ``description`` channel: its series, and the lines of its tooltip.

    A mark without lines (a line, a band, an error bar) has no tooltip, and is hidden together with its series.

    >>> described("jlt", "ε = 8: 0.1234 ± 0.0021", "seed 1: 0.1228")
    '["jlt", "\\u03b5 = 8: 0.1234 \\u00b1 0.0021", "seed 1: 0.1228"]'
    """
    return json.dumps([series, *lines])


def chart_figure(
    id: str,
    caption: str,
    chart: "alt.TopLevelMixin",
    *,
    in_words: str,
    data: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    table: Table | None = None,
    note: str = "",
) -> Figure:
    """Draw a chart and return it as a figure.

    Args:
        id: what a link to the figure names.
        caption: what it shows.
        chart: what to draw. Marks whose ``description`` is made by :func:`described` have tooltips and can be hidden.
        in_words: its figures, for those who cannot see it.
        data: rows by the names that the chart calls them by (``alt.NamedData``). altair copies rows that are part of a
            chart in every layer, which takes longer than drawing it.
        table: the same figures as a table.
        note: a sentence behind the caption.
    """
    root = ElementTree.fromstring(_draw(chart, data or {}))
    series = _prepare(root, id, caption)
    svg = Markup(ElementTree.tostring(root, encoding="unicode"))
    return Figure(id, caption, in_words, svg, series, table, note)


def _draw(chart: "alt.TopLevelMixin", data: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    REPORT.require()
    import vl_convert

    # As text that is one line and printable: names from outside may hold what no XML can.
    spec = _printable(chart.to_dict(validate=False))  # our own charts, all drawn in tests
    spec["datasets"] = {**spec.get("datasets", {}), **{name: _printable(list(rows)) for name, rows in data.items()}}
    own = spec.get("config", {})
    own.pop("view", None)  # altair's default, which would hide the theme's
    spec["config"] = {name: {**THEME.get(name, {}), **own.get(name, {})} for name in {*THEME, *own}}
    spec["config"] |= {"font": _FONT, "background": None}
    return str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


def _printable(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _printable(inner) for key, inner in value.items()}
    return [_printable(inner) for inner in value] if isinstance(value, list) else value


def _prepare(root: ElementTree.Element, id: str, caption: str) -> tuple[str, ...]:
    """Make vega's SVG part of a page, in place: only known elements, own ids, marks with words. Return its series."""
    root.tag = root.tag.removeprefix(_NAMESPACE)
    _keep_known(root)
    series: dict[str, None] = {}
    for element in list(root.iter()):
        words = _words(element.get("aria-label", ""))
        path = element.get("aria-roledescription", "") in {"line mark", "area mark"}
        for name in [
            name for name in element.attrib if name in _DROPPED or ":" in name or name.startswith(("on", "{"))
        ]:
            del element.attrib[name]
        _tidy(element, id)
        if any(role in element.get("class", "") for role in ("role-axis", "role-legend", "role-title")):
            element.set("aria-hidden", "true")
        if words:
            series[words[0]] = None
            _describe(element, words, focusable=len(words) > 1 and not path)
    for entry in _legend_entries(root):
        for symbol in entry.iter("path"):
            if symbol.get("fill", "none") != "none":  # a filled symbol with a dashed edge looks torn
                symbol.attrib.pop("stroke-dasharray", None)
        label = "".join(entry.itertext())
        for name in series:
            if printable(name) == label:
                entry.set("data-series", shown_text(name))
                entry.set("class", "entry")
    root.set("class", f"chart {size_class(float(root.get('width', '0')))}".strip())
    root.set("role", "group")
    root.set("aria-label", shown_text(caption))
    root.set("aria-describedby", f"{id}-words")
    return tuple(series)


def _keep_known(parent: ElementTree.Element) -> None:
    """Remove whatever is not a plain shape or text, and what is never seen."""
    for child in list(parent):
        child.tag = child.tag.removeprefix(_NAMESPACE)  # inside HTML an svg needs none
        if child.tag not in _ELEMENTS or child.get("display") == "none" or child.get("d") in {"", "M0,0h0v0h0Z"}:
            parent.remove(child)
        else:
            _keep_known(child)


def _tidy(element: ElementTree.Element, id: str) -> None:
    """Shorten numbers that are finer than any screen, and make ids the figure's own."""
    for name, value in element.attrib.items():
        if name in {"transform", "d", "x2", "y2", "x", "y", "width", "height"}:
            element.set(
                name, re.sub(r"-?\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), value)
            )
        elif name == "id":
            element.set(name, f"{id}-{value}")
        elif value.startswith("url(#"):
            element.set(name, f"url(#{id}-{value.removeprefix('url(#')}")


def _words(label: str) -> list[str]:
    """Return what :func:`described` was given, or nothing for any other label."""
    if not label.startswith('["'):
        return []
    try:
        return [str(line) for line in json.loads(label)]
    except ValueError:
        return []


def _describe(element: ElementTree.Element, words: list[str], *, focusable: bool) -> None:
    shown = [shown_text(line) for line in words]
    element.set("data-series", shown[0])
    if not focusable:
        element.set("aria-hidden", "true")
        return
    element.set("class", "mark")
    element.set("role", "img")
    element.set("aria-label", ". ".join(shown))
    title = ElementTree.Element("title")
    title.text = "\n".join(shown)
    element.insert(0, title)


def _legend_entries(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield the groups that hold one symbol and one label of a legend."""
    for legend in root.iter("g"):
        if "role-legend-entry" in legend.get("class", ""):
            for group in legend.iter("g"):
                labels = [inner for inner in group if "role-legend-label" in inner.get("class", "")]
                if labels:
                    yield group
