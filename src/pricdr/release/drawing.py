"""A release drawn for people: what an attacker could learn, noise against signal, and budget spent.

For the page of an inspection, and for any other page that shows a release.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from pricdr.pages import Bar, Block, Figure, Section, bar_chart, table
from pricdr.pages.charts import WIDTH, chart_figure, undrawn
from pricdr.privacy.accounting import TradeOff
from pricdr.release.certificate import Certificate, rounded_up
from pricdr.release.inspection import FALSE_ALARMS, Inspection, noise_length, percent_up, trade_off_of

_NO_LEDGER: Final = (
    "No ledger is stated, so nobody can say what share of a budget this is: other releases of the same ratings add to "
    "the cost and are not counted here."
)


@dataclass(frozen=True)
class DrawnRelease:
    """What of a release can be drawn; what is not known is left out and said to be."""

    unit: str
    """What is protected: a rating, or a user."""
    trade_off: TradeOff | None
    """None where nothing is promised."""
    sigma: float
    sensitivity: float
    """How far one change moves what is published, at most, measured in the last step."""
    noise_length: float
    """The typical length of the noise in one user's row."""
    row_length: float | None = None
    """The root mean square length of the published rows, noise included."""
    spent: tuple[float, float] | None = None
    """ε spent by all releases so far, and the ε of the budget; None without a ledger."""

    @classmethod
    def of(cls, inspection: Inspection) -> "DrawnRelease":
        """Return what can be drawn of an inspected release."""
        c = inspection.certificate
        return replace(cls.of_certificate(c), row_length=math.sqrt(inspection.noise.mean_square * c.dim))

    @classmethod
    def of_certificate(cls, c: Certificate) -> "DrawnRelease":
        """Return what can be drawn of a release that is not at hand."""
        return cls(
            unit=c.unit,
            trade_off=trade_off_of(c),
            sigma=c.sigma,
            sensitivity=c.sensitivity,
            noise_length=noise_length(c),
            spent=None if c.ledger is None else (c.ledger.epsilon_total, c.ledger.budget_epsilon),
        )


def release_sections(release: DrawnRelease, id: str = "release") -> list[Section]:
    """Return the sections that draw a release; their ids begin with ``id``."""
    return [
        Section("What an attacker could learn", list(_learnt(release, f"{id}-attack")), f"{id}-attack"),
        Section("Noise against signal", list(_noise(release, f"{id}-noise")), f"{id}-noise"),
        Section("Budget spent", list(_budget(release, f"{id}-budget")), f"{id}-budget"),
    ]


def _learnt(release: DrawnRelease, id: str) -> Iterator[Block | str]:
    curve, unit = release.trade_off, release.unit
    if curve is None:
        yield "Everything: nothing is promised, and no curve can be drawn."
        return
    yield (
        f"Somebody who knows everything except one {unit} looks at this release and says whether it is there. Of 100 "
        f"releases without it, let 5 be called suspicious by mistake; then of 100 releases with it, at most "
        f"{percent_up(curve.detections(0.05)).removesuffix(' %')} are found. Blind guessing finds 5."
    )
    yield curve_figure(curve, unit, f"{id}-curve")
    header = ["false alarms", "detections, at most", "by (ε, δ) alone"]
    yield table(f"{id}-rates", "The same in figures", header, rates(curve), names=0)


def _noise(release: DrawnRelease, id: str) -> Iterator[Block | str]:
    if not release.sigma:
        yield "There is no noise: whatever the ratings say, this release says too."
        return
    times = release.sigma / release.sensitivity
    yield (
        f"The noise in every number has a standard deviation of σ = {release.sigma:.4g}; one {release.unit} moves what "
        f"is published by at most {release.sensitivity:.4g}. So the noise is "
        f"{times:.3g} times what one {release.unit} contributes."
    )
    lengths = [
        (f"one {release.unit}, at most", release.sensitivity),
        ("the noise in one number: σ", release.sigma),
        ("the noise in a whole row, typically", release.noise_length),
    ]
    if release.row_length is not None:
        lengths.append(("a published row, noise included", release.row_length))
    bars = [Bar(label, value, f"{value:.4g}") for label, value in lengths]
    note = "The length of a published row is a root mean square." if release.row_length is not None else ""
    if chart := bar_chart(f"{id}-lengths", "Lengths in one user's row", bars, note=note):
        yield chart


def _budget(release: DrawnRelease, id: str) -> Iterator[Block | str]:
    if release.spent is None:
        yield _NO_LEDGER
        return
    spent, total = release.spent
    yield (
        f"The source declared a budget of ε = {_figure(total)} for all its releases together. After this one, "
        f"ε = {_figure(spent)} of it is spent, had all of them been fixed in advance; the promise is the budget."
    )
    text = f"ε = {_figure(spent)} of {_figure(total)}"
    if chart := bar_chart(f"{id}-spent", "Budget spent so far", [Bar("spent of the budget", spent, text, total)]):
        yield chart


def curve_figure(curve: TradeOff, unit: str, id: str) -> Figure:
    """Draw the exact curve, the bound by (ε, δ) alone, and the points at a few rates of false alarms."""
    caption = "False alarms against detections"
    note = (
        "Solid: the exact limit, from the accounting of this release's noise. Dashed: what (ε, δ) alone would allow. "
        "Dotted: blind guessing."
    )
    in_words = (
        f"The best test for one {unit}. "
        + "; ".join(f"{alarms} false alarms, at most {found} detections" for alarms, found, _ in rates(curve))
        + ". Blind guessing detects as often as it raises false alarms."
    )
    if missing := undrawn(id, caption, in_words, note):
        return missing
    import altair as alt

    axis = alt.Axis(format="%", tickCount=5)
    x = alt.X("x:Q", title="false alarms", scale=alt.Scale(domain=[0, 1]), axis=axis)
    y = alt.Y("y:Q", title="detections, at most", scale=alt.Scale(domain=[0, 1]), axis=axis)

    def line(points: list[tuple[float, float]], dash: list[int], opacity: float) -> alt.Chart:
        values = [{"x": alarms, "y": found, "at": at} for at, (alarms, found) in enumerate(points)]
        drawn: alt.Chart = alt.Chart(alt.InlineData(values=values)).mark_line(strokeDash=dash, opacity=opacity)
        return drawn.encode(x=x, y=y, order="at:Q")

    marks = [{"x": alpha, "y": curve.detections(alpha)} for alpha in FALSE_ALARMS]
    layers = [
        line([(0.0, 0.0), (1.0, 1.0)], [2, 4], 0.5),
        line(curve.guarantee_corners(), [7, 4], 0.6),
        line(curve.curve(), [1, 0], 1.0),
        alt.Chart(alt.InlineData(values=marks)).mark_point().encode(x=x, y=y),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=WIDTH)
    return chart_figure(id, caption, chart, in_words=in_words, note=note)


def rates(curve: TradeOff) -> list[tuple[str, str, str]]:
    """Return rates of false alarms, each with the most detections by the exact curve and by (ε, δ) alone."""
    return [
        (percent_up(alpha), percent_up(curve.detections(alpha)), percent_up(curve.detections_by_guarantee(alpha)))
        for alpha in FALSE_ALARMS
    ]


def _figure(value: float) -> str:
    """Return ε or δ as text, rounded up: a promise must not look better than it is."""
    return f"{rounded_up(value, 4):g}"
