"""The charts of the report, in altair's words; ``pricdr.pages.charts`` draws them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pricdr.pages import Figure, Palette
from pricdr.pages.charts import chart_figure, described
from pricdr.pages.palette import MUTED, SERIES
from pricdr.report.answer import Point
from pricdr.report.curves import CurvePoint, Level, Question
from pricdr.report.folder import STRATA
from pricdr.report.frontier import SyntheticPoint
from pricdr.report.measurements import Measurement, number
from pricdr.report.table2 import Task

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 290, 240
"""Of a chart without its axes, in pixels: with them it fits a phone."""
_SHORT: Final = 18
"""Letters of a name that leaves room for another beside it in a legend."""
_ROOM: Final = 2**0.15
"""What a logarithmic axis goes beyond its ends by, so that no point is cut in half."""
LOWEST_SHARE, HIGHEST_SHARE = -0.5, 1.5
"""What of an axis of shares is drawn at most: where plaintext gains next to nothing, shares of it are anything."""


def share_panels(points: Sequence[Point], palette: Palette, *, id: str, notes: Mapping[str, str]) -> list[Figure]:
    """Return one panel per pair: what cold users keep of the plaintext gain, against ε, on one scale.

    Args:
        points: what was measured.
        palette: the look of every strategy.
        id: what ids of the panels begin with.
        notes: a sentence behind the caption of a pair.
    """
    rows = [
        {
            **_marks(point.curve, point.share, _share_lines(point)),
            "pair": point.pair,
            "x": point.epsilon,
        }
        for point in points
    ]
    # A pair with a note has shares of next to nothing: they must not squeeze the others.
    telling = [row for row in rows if row["pair"] not in notes] or rows
    domain = _domain([(row["low"], row["high"]) for row in telling], at_least=(0.0, 1.0))
    domain = (max(domain[0], LOWEST_SHARE), min(domain[1], HIGHEST_SHARE))
    figures = []
    for at, pair in enumerate(dict.fromkeys(point.pair for point in points), 1):
        own = [row for row in rows if row["pair"] == pair]
        layers = _lines(palette, x=_log_axis(own, "ε"), y=_share_axis(domain))
        words = "; ".join(
            f"{point.curve}, ε = {point.epsilon:g}: {point.share.percent()}" for point in points if point.pair == pair
        )
        note = notes.get(pair, "")
        figures.append(
            chart_figure(
                f"{id}-{at}", pair, _layered(layers, palette), in_words=f"{words}.", data={"rows": own}, note=note
            )
        )
    return figures


def synthetic_panels(points: Sequence[SyntheticPoint], palette: Palette, *, id: str) -> list[Figure]:
    """Return one panel per number of users: what strategies keep on a made-up pair, against ε."""
    figures = []
    for users in sorted({point.users for point in points}):
        own = [point for point in points if point.users == users]
        rows = [
            {
                **_marks(point.arm, point.share, [f"{point.arm}, ε = {point.epsilon:g}", _with_error(point)]),
                "low": point.share.value - point.error,
                "high": point.share.value + point.error,
                "x": point.epsilon,
            }
            for point in own
        ]
        layers = _lines(palette, x=_log_axis(rows, "ε"), y=_share_axis((-0.05, 1.0)))
        words = "; ".join(f"{point.arm}, ε = {point.epsilon:g}: {100 * point.share.value:.0f} %" for point in own)
        name = f"{users:,} users"
        figures.append(
            chart_figure(f"{id}-{users}", name, _layered(layers, palette), in_words=f"{words}.", data={"rows": rows})
        )
    return figures


def paper_and_ours(task: Task, *, id: str, metric: str) -> Figure:
    """Return the paper's figure and ours for every method of a task."""
    rows: list[dict[str, Any]] = []
    for row in task.rows:
        ours = row.ours(metric)
        if row.paper is not None:
            value = row.paper.figures[metric]
            text = f"{row.method}, the paper: {value:.4f}"
            rows.append(
                {"method": row.method, "whose": "the paper", "value": value, "tip": described(row.method, text)}
            )
        if ours:
            tip = [f"{row.method}, ours: {ours.in_words()}", *_seed_lines(ours)]
            rows.append({**_marks(row.method, ours, tip), "method": row.method, "whose": "ours"})
    palette = Palette(["ours", "the paper"])
    names = [row.method for row in task.rows]
    chart = _dots("method", names, metric, color=palette.color("whose"), shape=palette.shape("whose"))
    words = "; ".join(
        f"{row.method}: the paper {row.paper.figures[metric]:.4f}, ours {row.ours(metric).in_words() or 'not measured'}"
        for row in task.rows
        if row.paper is not None
    )
    caption = f"{task.title}, {metric}: the paper's figure and ours, ± one standard error over seeds"
    return chart_figure(id, caption, chart, in_words=f"{words}.", data={"rows": rows})


def dot_panel(by_name: Mapping[str, Measurement], *, id: str, caption: str) -> Figure:
    """Return one dot with an error bar for every name, below one another, on a scale of their own."""
    import altair as alt

    rows = [
        {**_marks(name, measured, [f"{name}: {measured.in_words()}", *_seed_lines(measured)]), "name": name}
        for name, measured in by_name.items()
    ]
    chart = _dots("name", list(by_name), "NDCG@10", color=alt.value(SERIES[0].light), shape=alt.value("circle"))
    words = "; ".join(f"{name}: {measured.in_words()}" for name, measured in by_name.items())
    return chart_figure(id, caption, chart, in_words=f"{words}.", data={"rows": rows})


def curve_panel(
    question: Question,
    points: Sequence[CurvePoint],
    levels: Sequence[Level],
    palette: Palette,
    *,
    id: str,
) -> Figure | None:
    """Return the curves of one task and one kind of users, with lines across for the arms that have no axis."""
    import altair as alt

    placed = [(point, point.exact if question.axis == "epsilon" else point.at) for point in points]
    kept = [(point, x) for point, x in placed if x is not None and (x > 0 or not question.logarithmic)]
    if not kept:
        return None
    rows = [{**_marks(point.curve, point.measured, _curve_lines(question, point)), "x": x} for point, x in kept]
    across = [_marks(level.name, level.measured, _level_lines(level)) for level in levels]
    nominal = _nominal_labels(kept)
    low, high = _domain([(row["low"], row["high"]) for row in [*rows, *across]])
    top = high + 0.12 * (high - low) if nominal else high  # room for the second scale

    def y(field: str) -> alt.Y:
        scale = alt.Scale(domain=[low, top], nice=False, zero=False)
        return alt.Y(field=field, type="quantitative", title="NDCG@10", scale=scale)

    x = _log_axis(rows, question.label) if question.logarithmic else _linear_axis(rows, question.label)
    lines = alt.Chart(alt.NamedData("across")).encode(color=palette.color())
    layers = [
        lines.mark_rect(opacity=0.12).encode(y=y("low"), y2=alt.Y2(field="high"), description=_part()),
        lines.mark_rule().encode(y=y("value"), strokeDash=palette.dash(), description=_tip()),
        *_lines(palette, x=x, y=y),
    ]
    if nominal:
        labels = alt.Chart(alt.NamedData("nominal")).encode(x=x, y=alt.value(7))
        look: dict[str, Any] = {"fontSize": 10, "color": MUTED.light}
        layers.append(labels.mark_text(**look).encode(text=alt.Text(field="label", type="nominal")))
        layers.append(labels.mark_text(align="left", dx=10, **look).encode(text=alt.Text(field="end", type="nominal")))
    task, stratum = points[0].task, points[0].stratum
    words = "; ".join(f"{point.curve}, {_place(question, point)}: {point.measured.in_words()}" for point, _ in placed)
    return chart_figure(
        id,
        f"{task}, {STRATA[stratum]}",
        _layered(layers, palette),
        in_words=f"{words}.",
        data={"rows": rows, "across": across, "nominal": nominal},
    )


def _dots(field: str, names: Sequence[str], title: str, *, color: Any, shape: Any) -> "alt.LayerChart":  # noqa: ANN401
    """Return dots with error bars, one row for each name; ``color`` and ``shape`` are channels of altair.

    Long names stand above their rows, not beside them: on a phone they would leave no room for the dots.
    """
    import altair as alt

    beside = all(len(name) <= _SHORT for name in names)
    axis = alt.Axis(grid=True, ticks=False, labels=beside, domain=beside)
    y = alt.Y(field=field, type="nominal", sort=list(names), title=None, axis=axis)
    x = alt.X(field="low", type="quantitative", title=title, scale=alt.Scale(zero=False, padding=8))
    base = alt.Chart(alt.NamedData("rows")).encode(y=y, color=color)
    layers = [
        base.mark_rule().encode(x=x, x2=alt.X2(field="high"), description=_part()),
        base.mark_point().encode(x=alt.X(field="value", type="quantitative"), shape=shape, description=_tip()),
    ]
    if not beside:
        above = base.mark_text(align="left", dy=-11, fontSize=11).encode(
            x=alt.value(0),
            text=alt.Text(field=field, type="nominal"),
            color=alt.value(MUTED.light),
            description=_part(),
        )
        layers.append(above)
    height = (24 if beside else 34) * len(names)
    return alt.LayerChart(layer=layers, width=WIDTH, height=height, padding=_padding(names if beside else ()))


def _tip() -> "alt.Description":
    import altair as alt

    return alt.Description(field="tip", type="nominal")


def _part() -> "alt.Description":
    import altair as alt

    return alt.Description(field="part", type="nominal")


def _padding(names: Iterable[str]) -> dict[str, float]:
    """Return room for names at the left: a reader's letters may be wider than those the chart was measured with."""
    return {"left": 5 + 1.2 * max(map(len, names), default=0), "right": 12, "top": 5, "bottom": 5}


def _nominal_labels(placed: Sequence[tuple[CurvePoint, float]]) -> list[dict[str, Any]]:
    """Return the second scale of an axis of ε: what the paper calls the places that its noise leads to."""
    by_place = {x: point.at for point, x in placed if point.nominal}
    last = max(by_place, default=None)
    return [
        {"x": x, "label": f"{at:g}", "end": "= nominal ε" if x == last else ""} for x, at in sorted(by_place.items())
    ]


def _layered(layers: Sequence["alt.Chart"], palette: Palette) -> "alt.LayerChart":
    """Return a chart of usual size, its legend with room: a reader's letters may be wider than those it knows.

    All at once, since altair copies a chart with everything that is added to it.
    """
    import altair as alt

    columns = 2 if all(len(name) <= _SHORT for name in palette.names) else 1
    config = alt.Config(legend=alt.LegendConfig(columns=columns, columnPadding=44))
    return alt.LayerChart(layer=list(layers), width=WIDTH, height=HEIGHT, config=config)


def _lines(palette: Palette, *, x: "alt.X", y: Callable[[str], "alt.Y"]) -> list["alt.Chart"]:
    """Return layers: error bars, and points on lines, one line for each series; ``y`` makes the axis of a field."""
    import altair as alt

    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=palette.color())
    return [
        base.mark_rule(clip=True).encode(y=y("low"), y2=alt.Y2(field="high"), description=_part()),
        base.mark_line(clip=True).encode(y=y("value"), strokeDash=palette.dash(), description=_part()),
        base.mark_point(clip=True).encode(y=y("value"), shape=palette.shape(), description=_tip()),
    ]


def _marks(series: str, measured: Measurement, tip: Sequence[str]) -> dict[str, Any]:
    """Return what a point and its error bar are drawn from; a single seed has no bar."""
    error = 0.0 if math.isnan(measured.error) else measured.error
    value = measured.value
    return {
        **{"series": series, "value": value, "low": value - error, "high": value + error},
        **{"tip": described(series, *tip), "part": described(series)},
    }


def _share_lines(point: Point) -> list[str]:
    return [
        f"{point.curve}, ε = {point.epsilon:g}: {point.share.percent()}",
        f"NDCG@10 {point.gain.in_words(signed=True)} over the baseline",
        *(f"seed {seed}: {number(100 * value, 1)} %" for seed, value in sorted(point.share.by_seed.items())),
    ]


def _with_error(point: SyntheticPoint) -> str:
    over = "seeds" if point.share.seeds > 1 else "users"
    return f"{100 * point.share.value:.1f} ± {100 * point.error:.1f} % (standard error over {over})"


def _place(question: Question, point: CurvePoint) -> str:
    letter = question.label.partition(",")[0]
    if not point.nominal:
        return f"{letter} = {point.at:g}"
    return f"nominal ε = {point.at:g}" + ("" if point.exact is None else f", exact ε = {point.exact:.3g}")


def _curve_lines(question: Question, point: CurvePoint) -> list[str]:
    refused = f"release refused in {point.refused} of {point.runs} runs" if point.runs else ""
    head = f"{point.curve}, {_place(question, point)}: {point.measured.in_words()}"
    return [line for line in (head, refused, *_seed_lines(point.measured)) if line]


def _level_lines(level: Level) -> list[str]:
    return [f"{level.name}: {level.measured.in_words()}", *_seed_lines(level.measured)]


def _seed_lines(measured: Measurement) -> list[str]:
    return [f"seed {seed}: {number(value, 5)}" for seed, value in sorted(measured.by_seed.items())]


def _log_axis(rows: Iterable[Mapping[str, Any]], title: str) -> "alt.X":
    import altair as alt

    values = sorted({float(row["x"]) for row in rows})
    low, high = math.floor(math.log2(values[0])), math.ceil(math.log2(values[-1]))
    step = max(1, math.ceil((high - low) / 7))
    ticks = [2.0**power for power in range(low, high + 1, step)]
    ends = [min(values[0], ticks[0]) / _ROOM, max(values[-1], ticks[-1]) * _ROOM]
    scale = alt.Scale(type="log", base=2, domain=ends, nice=False)
    axis = alt.Axis(values=ticks, grid=False, format=".2~g")
    return alt.X(field="x", type="quantitative", title=title, scale=scale, axis=axis)


def _linear_axis(rows: Iterable[Mapping[str, Any]], title: str) -> "alt.X":
    import altair as alt

    values = sorted({float(row["x"]) for row in rows})
    scale, axis = alt.Scale(zero=False, padding=12), alt.Axis(values=values, grid=False)
    return alt.X(field="x", type="quantitative", title=title, scale=scale, axis=axis)


def _share_axis(domain: tuple[float, float]) -> Callable[[str], "alt.Y"]:
    import altair as alt

    ticks = [tenth / 10 for tenth in range(-20, 21, 2) if domain[0] <= tenth / 10 <= domain[1]]

    def axis(field: str) -> alt.Y:
        return alt.Y(
            field=field,
            type="quantitative",
            title="share of the plaintext gain kept",
            scale=alt.Scale(domain=domain, nice=False),
            axis=alt.Axis(values=ticks, format="%"),
        )

    return axis


def _domain(
    spans: Iterable[tuple[float, float]], *, at_least: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Return an axis that holds every span, with a little room."""
    ends = [end for span in [*spans, *([at_least] if at_least else [])] for end in span]
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low) or 0.01
    return low - room, high + room
