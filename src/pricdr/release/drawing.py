"""A release drawn for people: what an attacker could learn, noise against signal, and budget spent.

For the page of an inspection, and for any other page that shows a release. The markup is in ``templates/figures``; here
is its arithmetic.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from pricdr.pages import Figure, Section, Table, table
from pricdr.pages.bars import Bar, bar_chart
from pricdr.pages.blocks import Block, Columns
from pricdr.pages.figures import draw
from pricdr.privacy.accounting import TradeOff
from pricdr.release.certificate import Certificate, rounded_up
from pricdr.release.inspection import FALSE_ALARMS, Inspection, noise_length, percent_up, trade_off_of

_LEFT, _TOP, _SIDE = 52.0, 12.0, 320.0
"""The square that the curve is drawn in."""
_BELLS: Final = 372.0
_BELL_HEIGHT: Final = 110.0
_WIDEST: Final = 10.0
"""Standard deviations that the two bells may be apart and still be drawn to scale."""
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


@dataclass(frozen=True)
class Tick:
    """A value on an axis: where it is and what is written there."""

    at: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A point of the curve, and what it says."""

    x: float
    y: float
    text: str
    strong: bool


@dataclass(frozen=True)
class CurvePlot:
    """False alarms to the right, detections upwards: lines as lists of points in SVG's words."""

    exact: str
    by_guarantee: str
    ticks_x: tuple[Tick, ...]
    ticks_y: tuple[Tick, ...]
    marks: tuple[Mark, ...]

    left: float = _LEFT
    top: float = _TOP
    right: float = _LEFT + _SIDE
    bottom: float = _TOP + _SIDE
    width: float = _LEFT + _SIDE + 24
    height: float = _TOP + _SIDE + 44
    guessing_x: float = _LEFT + 0.62 * _SIDE + 9
    guessing_y: float = _TOP + 0.38 * _SIDE + 9


@dataclass(frozen=True)
class BellsPlot:
    """The noise of a release without and with one change, along the direction in which the change moves it."""

    without: str
    changed: str
    centre_without: float
    centre_changed: float
    distance: str

    width: float = _BELLS
    height: float = _BELL_HEIGHT + 56
    base: float = _BELL_HEIGHT + 14


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
    yield _rates_table(curve, f"{id}-rates")


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
    lengths = _length_bars(release, f"{id}-lengths")
    apart = release.trade_off
    if apart is not None and apart.mu <= _WIDEST:
        bells = bells_figure(apart, release.unit, f"{id}-bells")
        yield Columns([bells, lengths]) if lengths else bells
    elif lengths:
        yield lengths


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
    chart = bar_chart(
        f"{id}-spent", "Budget spent so far", [Bar("spent of the budget", spent, text, total, strong=True)]
    )
    if chart:
        yield chart


def curve_figure(curve: TradeOff, unit: str, id: str) -> Figure:
    """Draw the exact curve, the bound by (ε, δ) alone, and the points at a few rates of false alarms."""
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    marks = tuple(
        Mark(
            _x(alpha),
            _y(found),
            f"{percent_up(alpha)} false alarms: at most {percent_up(found)} detected",
            alpha == 0.05,
        )
        for alpha in FALSE_ALARMS
        for found in [curve.detections(alpha)]
    )
    plot = CurvePlot(
        exact=_points(curve.curve()),
        by_guarantee=_points(curve.guarantee_corners()),
        ticks_x=tuple(Tick(_x(share), percent_up(share)) for share in shares),
        ticks_y=tuple(Tick(_y(share), percent_up(share)) for share in shares),
        marks=marks,
    )
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
    return Figure(id, caption, in_words, draw("curve", id=id, caption=caption, plot=plot), note=note)


def bells_figure(curve: TradeOff, unit: str, id: str) -> Figure:
    """Draw two normal densities as far apart as one change moves the release, in units of its noise."""
    reach, apart = 3.6, curve.separation
    scale = (_BELLS - 12) / (2 * reach + apart)

    def bell(centre: float) -> str:
        steps = [-reach + 2 * reach * at / 80 for at in range(81)]
        return " ".join(
            f"{6 + (reach + centre + z) * scale:.1f},{14 + _BELL_HEIGHT * (1 - _bell_height(z)):.1f}" for z in steps
        )

    plot = BellsPlot(
        without=bell(0.0),
        changed=bell(apart),
        centre_without=6 + reach * scale,
        centre_changed=6 + (reach + apart) * scale,
        distance=f"{curve.mu:.3g}",
    )
    caption = f"The noise, without and with one {unit}"
    note = f"Dashed: without the {unit}. Solid: with it, at worst. The more they overlap, the less anybody can tell."
    in_words = (
        f"Two bell curves, the noise without and with one {unit}: their centres are {curve.mu:.3g} standard deviations "
        "of the noise apart, at most."
    )
    return Figure(id, caption, in_words, draw("bells", id=id, caption=caption, plot=plot, unit=unit), note=note)


def _length_bars(release: DrawnRelease, id: str) -> Figure | None:
    """Draw the lengths that add up to one user's row."""
    lengths = [
        (f"one {release.unit}, at most", release.sensitivity),
        ("the noise in one number: σ", release.sigma),
        ("the noise in a whole row, typically", release.noise_length),
    ]
    if release.row_length is not None:
        lengths.append(("a published row, noise included (root mean square)", release.row_length))
    bars = [Bar(label, value, f"{value:.4g}", strong=at == 0) for at, (label, value) in enumerate(lengths)]
    return bar_chart(id, "Lengths in one user's row", bars)


def _rates_table(curve: TradeOff, id: str) -> Table:
    header = ["false alarms", "detections, at most", "by (ε, δ) alone"]
    return table(id, "The same in figures", header, rates(curve), names=0, hide=False)


def rates(curve: TradeOff) -> list[tuple[str, str, str]]:
    """Return rates of false alarms, each with the most detections by the exact curve and by (ε, δ) alone."""
    return [
        (percent_up(alpha), percent_up(curve.detections(alpha)), percent_up(curve.detections_by_guarantee(alpha)))
        for alpha in FALSE_ALARMS
    ]


def _bell_height(z: float) -> float:
    """Return the normal density at ``z`` as a share of its largest value."""
    return math.exp(-z * z / 2)


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{_x(x):.2f},{_y(y):.2f}" for x, y in points)


def _x(share: float) -> float:
    return _LEFT + share * _SIDE


def _y(share: float) -> float:
    return _TOP + (1 - share) * _SIDE


def _figure(value: float) -> str:
    """Return ε or δ as text, rounded up: a promise must not look better than it is."""
    return f"{rounded_up(value, 4):g}"
