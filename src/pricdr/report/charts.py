"""The charts of the report: shares kept against ε, and curves along an axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pricdr.experiments.measured import STRATA, Access, Experiment, Measurement
from pricdr.pages import Figure
from pricdr.pages.charts import WIDTH, chart_figure

if TYPE_CHECKING:
    import altair as alt

CONTROLS: Final = "controls"
SHOWN: Final = ("guided", "spectral", "guide in the clear", "jlt", CONTROLS)
"""The strategies of the first chart, in the order of its legend; tables have all of them."""
_LOWEST, _HIGHEST = -0.5, 1.5
"""What of an axis of shares is drawn at most: where plaintext gains next to nothing, shares of it are anything."""

_ROOM: Final = 1.1
"""What a logarithmic axis goes beyond its ends by, so that no point is cut in half."""


@dataclass(frozen=True)
class ChartPoint:
    """One strategy at one place on an axis."""

    curve: str
    at: float
    measured: Measurement

    @property
    def row(self) -> dict[str, Any]:
        """What vega draws: the point, and a standard error to either side where there is one."""
        value, error = self.measured.value, self.measured.mean.error
        error = 0.0 if math.isnan(error) else error
        return {"series": self.curve, "x": self.at, "y": value, "low": value - error, "high": value + error}


def share_points(pair: Experiment) -> list[ChartPoint]:
    """Return what cold users keep of the plaintext gain at every ε; a control is under one name for all of them."""
    points = []
    for arm in pair.outline.arms:
        share, control = pair.share(arm), Access.of(arm) is Access.CONTROL
        if not share or arm.release is None or not (control or (arm.curve and arm.axis == "epsilon")):
            continue
        at = float(arm.release.epsilon if control else arm.at or 0.0)
        if at > 0:  # on a logarithmic axis there is no place for 0, and a spec may well come from elsewhere
            points.append(ChartPoint(CONTROLS if control else arm.curve, at, share))
    return points


def share_charts(pairs: Sequence[Experiment]) -> list[tuple[Experiment, "alt.TopLevelMixin", str]]:
    """Return a chart for each pair that has points, and its figures in words; all on one scale."""
    points = [share_points(pair) for pair in pairs]
    every = list(dict.fromkeys(point.curve for found in points for point in found))
    curves = [curve for curve in SHOWN if curve in every] if set(every) & {*SHOWN[:-1]} else every[: len(SHOWN)]
    points = [[point for point in found if point.curve in curves] for found in points]
    # A pair on which plaintext gains nothing has shares of next to nothing: they must not squeeze the others.
    telling = [point for pair, found in zip(pairs, points, strict=True) if pair.has_ceiling for point in found]
    rows = [point.row for point in telling or [point for found in points for point in found]]
    low, high = min((row["low"] for row in rows), default=0.0), max((row["high"] for row in rows), default=1.0)
    domain = (max(min(low, 0.0) - 0.05, _LOWEST), min(max(high, 1.0) + 0.05, _HIGHEST))
    return [
        (
            pair,
            _curves(found, curves, "ε", "share of the plaintext gain kept", log=True, domain=domain, percent=True),
            "; ".join(f"{one.curve}, ε = {one.at:g}: {one.measured.percent()}" for one in found) + ".",
        )
        for pair, found in zip(pairs, points, strict=True)
        if found
    ]


def curve_figures(experiment: Experiment, id: str) -> list[Figure]:
    """Return a figure for cold and for warm users where arms lie along an axis other than that of shares."""
    figures = []
    for stratum in ("cold", "warm"):
        arms = [arm for arm in experiment.outline.arms if arm.curve and arm.at is not None and arm.at > 0]
        points = [
            ChartPoint(arm.curve, float(arm.at or 0.0), measured)
            for arm in arms
            if (measured := experiment.measured(arm, stratum))
        ]
        if points:
            curves, axis = list(dict.fromkeys(point.curve for point in points)), arms[0].axis
            title, log = AXES.get(axis, (axis, False))
            chart = _curves(points, curves, title, "NDCG@10", log=log)
            words = "; ".join(f"{one.curve} at {one.at:g}: {one.measured.value:.4f}" for one in points) + "."
            figures.append(chart_figure(f"{id}-{stratum}", STRATA[stratum].capitalize(), chart, in_words=words))
    return figures


AXES: Final = {
    "epsilon": ("ε (with the paper's noise: nominal)", True),
    "dim": ("n, numbers per user", False),
    "density": ("sp, density of the projection", False),
    "source_share": ("sd, share of the source's ratings", True),
}
"""What an axis is called, and whether it is logarithmic."""


def _curves(
    points: Sequence[ChartPoint],
    curves: Sequence[str],
    x_title: str,
    y_title: str,
    *,
    log: bool,
    domain: tuple[float, float] | None = None,
    percent: bool = False,
) -> "alt.TopLevelMixin":
    """Return points on lines with error bars, one line for each curve; the same curves have the same looks."""
    import altair as alt

    places = sorted({point.at for point in points})
    ends = [places[0] / _ROOM, places[-1] * _ROOM]
    scale = alt.Scale(type="log", base=2, domain=ends, nice=False) if log else alt.Scale(zero=False, padding=12)
    ticks = places if len(places) <= 8 else alt.Undefined
    x = alt.X("x:Q", title=x_title, scale=scale, axis=alt.Axis(values=ticks, grid=False, format=".2~g"))
    y_scale = alt.Scale(zero=False) if domain is None else alt.Scale(domain=domain, nice=False)
    axis = alt.Axis(format="%" if percent else ".3f")

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title=y_title, scale=y_scale, axis=axis)

    names = alt.Scale(domain=list(curves))
    legend = alt.Legend(title=None, columns=2 if all(len(name) <= 18 for name in curves) else 1)
    color = alt.Color("series:N", scale=names, legend=legend)
    base = alt.Chart(alt.InlineData(values=[point.row for point in points])).encode(x=x, color=color)
    layers = [
        base.mark_rule(clip=True).encode(y=y("low"), y2="high:Q"),
        base.mark_line(clip=True).encode(y=y("y"), strokeDash=alt.StrokeDash("series:N", scale=names, legend=legend)),
        base.mark_point(clip=True).encode(y=y("y"), shape=alt.Shape("series:N", scale=names, legend=legend)),
    ]
    if percent:
        zero = alt.Chart(alt.InlineData(values=[{}])).mark_rule(strokeDash=[3, 3], opacity=0.5)
        layers.insert(0, zero.encode(y=alt.datum(0)))
    return alt.layer(*layers).properties(width=WIDTH, height=230)
