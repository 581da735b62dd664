"""Results as one page that needs nothing else: a table, a dot plot with interval bars, and words around them.

Small pure functions from text and numbers to markup. Whatever is not :class:`Html` already is escaped, and the page
forbids itself to load anything.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from pricdr.errors import printable


class Html(str):
    """Text that is markup already; any other text is escaped wherever it is put."""

    __slots__ = ()


@dataclass(frozen=True)
class Dot:
    """One figure of the plot: a row (a method), its group (a kind of user), and a mean with its interval."""

    row: str
    group: str
    mean: float
    low: float
    high: float


def page(title: str, sections: Sequence[tuple[str, str]]) -> str:
    """A whole HTML page: a heading and a body each, in this order; a section without a heading just follows.

    >>> page("R&D", [("", "a < b")]).count("a &lt; b")
    1
    """
    parts = [f"<h1>{_text(title)}</h1>"]
    for heading, body in sections:
        parts += [f"<h2>{_text(heading)}</h2>"] if heading else []
        parts.append(body if isinstance(body, Html) else paragraphs(body))
    return _PAGE.format(title=_text(title), style=_STYLE, body="\n".join(parts))


def paragraphs(*texts: str) -> Html:
    """Each text as a paragraph."""
    return Html("\n".join(f"<p>{_text(text)}</p>" for text in texts))


def bullets(lines: Sequence[str]) -> Html:
    """A list."""
    return Html("<ul>\n" + "\n".join(f"<li>{_text(line)}</li>" for line in lines) + "\n</ul>")


def commands(lines: Sequence[str]) -> Html:
    """Commands to copy, one a line."""
    return Html("<pre><code>" + "\n".join(_text(line) for line in lines) + "</code></pre>")


def together(*parts: Html) -> Html:
    """Several pieces of markup as one."""
    return Html("\n".join(parts))


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    above: Sequence[tuple[str, int]] = (),
    strong: str | None = None,
) -> Html:
    """A table whose first column names the row.

    ``above`` puts a line over the header: what it says, and over how many columns. ``strong`` is the row to point out.

    >>> "<td>1 &lt; 2</td>" in table(["", "x"], [["a", "1 < 2"]])
    True
    """
    lines = ['<div class="wide"><table>', "<thead>"]
    if above:
        spans = "".join(f'<th colspan="{int(width)}" scope="colgroup">{_text(name)}</th>' for name, width in above)
        lines.append(f"<tr>{spans}</tr>")
    lines.append("<tr>" + "".join(f'<th scope="col">{_text(name)}</th>' for name in header) + "</tr>")
    lines += ["</thead>", "<tbody>"]
    for name, *cells in rows:
        found = "".join(f"<td>{_unbroken(cell)}</td>" for cell in cells)
        lines.append(f'<tr{_strong(name == strong)}><th scope="row">{_text(name)}</th>{found}</tr>')
    return Html("\n".join([*lines, "</tbody>", "</table></div>"]))


_WIDTH: Final = 400
_ROW, _HEAD, _AXIS = 26, 34, 40
"""Heights of a row, of a group's heading and of the axis."""
_LETTER: Final = 7.0
"""Generous width of a letter, so that labels never run into the plot."""
_VALUE: Final = 52


def dot_plot(dots: Sequence[Dot], *, label: str, strong: str | None = None, digits: int = 3) -> Html:
    """A dot and an interval bar for every figure, the groups below one another on one scale.

    ``label`` says what the axis shows; ``strong`` is the row to point out. Where an interval is not finite there is no
    bar.
    """
    dots = [dot for dot in dots if math.isfinite(dot.mean)]
    if not dots:
        return paragraphs("There is nothing to plot.")
    ends = [value for dot in dots for value in (dot.mean, dot.low, dot.high) if math.isfinite(value)]
    marks = ticks(min(ends), max(ends))
    left = 12 + _LETTER * max(len(dot.row) for dot in dots)
    right = max(_WIDTH, left + 180 + _VALUE) - _VALUE

    def x(value: float) -> float:
        return left + (value - marks[0]) / (marks[-1] - marks[0]) * (right - left)

    y, parts = 0.0, []
    for group in dict.fromkeys(dot.group for dot in dots):
        members = [dot for dot in dots if dot.group == group]
        parts.append(f'<text class="group" x="0" y="{y + _HEAD - 11:.1f}">{_text(group)}</text>')
        top, y = y + _HEAD, y + _HEAD + _ROW * len(members)
        parts += [f'<line class="grid" x1="{x(m):.1f}" y1="{top:.1f}" x2="{x(m):.1f}" y2="{y:.1f}"/>' for m in marks]
        for at, dot in enumerate(members):
            middle = top + _ROW * (at + 0.5)
            parts.append(_drawn(dot, x, (middle, left, right), digits, marked=dot.row == strong))
    places = _decimals(marks[1] - marks[0])
    parts += [f'<text class="tick" x="{x(m):.1f}" y="{y + 16:.1f}">{m:.{places}f}</text>' for m in marks]
    foot = f'<text class="axis" x="{(left + right) / 2:.1f}" y="{y + 34:.1f}">{_text(label)}</text>'
    told = "; ".join(f"{dot.group}, {dot.row}: {dot.mean:.{digits}f}" for dot in dots)
    size = f"{right + _VALUE:.0f} {y + _AXIS:.0f}"
    opening = f'<svg viewBox="0 0 {size}" role="img" aria-label="{_text(f"{label}. {told}")}">'
    return Html("\n".join(["<figure>", opening, *parts, foot, "</svg>", "</figure>"]))


def ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers that span from ``low`` to ``high``: at least two, and about so many.

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


def _drawn(
    dot: Dot, x: Callable[[float], float], place: tuple[float, float, float], digits: int, *, marked: bool
) -> str:
    """One row: its name, a line to follow, the bar, the dot, and the figure."""
    y, left, right = place
    bar = ""
    if math.isfinite(dot.low) and math.isfinite(dot.high):
        bar = f'<line class="bar" x1="{x(dot.low):.1f}" y1="{y:.1f}" x2="{x(dot.high):.1f}" y2="{y:.1f}"/>'
    told = f"{dot.row}: {dot.mean:.{digits}f} [{dot.low:.{digits}f}, {dot.high:.{digits}f}]"
    return (
        f"<g{_strong(marked)}><title>{_text(told)}</title>"
        f'<text x="0" y="{y + 4.5:.1f}">{_text(dot.row)}</text>'
        f'<line class="rule" x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}"/>{bar}'
        f'<circle cx="{x(dot.mean):.1f}" cy="{y:.1f}" r="5"/>'
        f'<text class="value" x="{right + _VALUE:.1f}" y="{y + 4.5:.1f}">{dot.mean:.{digits}f}</text></g>'
    )


def _decimals(step: float) -> int:
    """How many a multiple of ``step`` needs to be told from the next."""
    return next(places for places in range(13) if places == 12 or round(step, places) == round(step, 12))


def _unbroken(cell: str) -> str:
    """A cell whose interval (± half, or [low, high]) may move to the next line, but only as a whole."""
    return re.sub(r"(±[^<]*|\[[^<]*\])$", r"<span>\1</span>", _text(cell))


def _strong(yes: bool) -> str:
    return ' class="strong"' if yes else ""


def _text(text: str) -> str:
    """Markup as it is, other text escaped; a number and its % stay on one line."""
    return text if isinstance(text, Html) else escape(printable(text)).replace(" %", "\xa0%")


_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --muted: #5f6570; --line: #d8dce2; --soft: #f4f6f8;
  --accent: #0a5fc2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15181c; --ink: #e6e9ec; --muted: #a3aab4; --line: #363c44; --soft: #1f242a; --accent: #6fb1ff; } }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 44rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
li { margin: .25rem 0; }
ul { padding-left: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .45rem; text-align: right; font-weight: normal; border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); vertical-align: bottom; }
th:first-child { text-align: left; padding-left: 0; }
th[colspan] { text-align: center; }
td span { white-space: nowrap; }
tr.strong > * { font-weight: 600; }
@media (max-width: 32rem) { table { font-size: .8rem; } th, td { padding: .3rem .25rem; } }
pre { background: var(--soft); padding: .8rem 1rem; border-radius: 6px; font-size: .85rem;
  white-space: pre-wrap; }
figure { margin: 1rem 0; }
svg { display: block; width: 100%; max-width: 32rem; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: var(--ink); }
svg .group, svg .strong text { font-weight: 600; }
svg .tick, svg .axis { fill: var(--muted); text-anchor: middle; font-size: 12px; }
svg .value { text-anchor: end; font-variant-numeric: tabular-nums; }
svg .grid, svg .rule { stroke: var(--line); }
svg .rule { stroke-dasharray: 1 4; }
svg .bar { stroke: var(--muted); stroke-width: 3; stroke-linecap: round; }
svg circle { fill: var(--muted); stroke: var(--paper); stroke-width: 1.5; }
svg .strong .bar { stroke: var(--accent); }
svg .strong circle { fill: var(--accent); }
"""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
