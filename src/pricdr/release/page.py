"""An inspection as one page to file away. It loads nothing, and whatever a certificate holds is text in it.

The markup is in ``templates``; here is the arithmetic of its two figures.
"""

import math
from dataclasses import dataclass
from typing import Final

from pricdr import __version__
from pricdr.markup import template_environment
from pricdr.privacy.trade_off import TradeOff
from pricdr.release.certificate import rounded_up
from pricdr.release.inspection import FALSE_ALARMS, Inspection, percent_up

_LEFT, _TOP, _SIDE = 52.0, 12.0, 320.0
"""The square that the curve is drawn in."""
_BELLS: Final = 372.0
_BELL_HEIGHT: Final = 110.0
_WIDEST: Final = 10.0
"""Standard deviations that the two bells may be apart and still be drawn to scale."""


@dataclass(frozen=True)
class Tick:
    """A value on an axis: where it is and what is written there."""

    at: float
    label: str


@dataclass(frozen=True)
class CurveFigure:
    """False alarms to the right, detections upwards: lines as lists of points in SVG's words."""

    exact: str
    by_guarantee: str
    ticks_x: tuple[Tick, ...]
    ticks_y: tuple[Tick, ...]
    mark_x: float
    mark_y: float
    mark: str
    in_words: str

    left: float = _LEFT
    top: float = _TOP
    right: float = _LEFT + _SIDE
    bottom: float = _TOP + _SIDE
    width: float = _LEFT + _SIDE + 24
    height: float = _TOP + _SIDE + 44


@dataclass(frozen=True)
class BellsFigure:
    """The noise of a release without and with one change, along the direction in which the change moves it."""

    without: str
    changed: str
    centre_without: float
    centre_changed: float
    distance: str
    in_words: str

    width: float = _BELLS
    height: float = _BELL_HEIGHT + 56
    base: float = _BELL_HEIGHT + 14


def render_inspection(inspection: Inspection) -> str:
    """Return the whole page."""
    curve = inspection.trade_off
    environment = template_environment("pricdr.release")
    environment.filters["px"] = _pixels
    environment.filters["figure"] = _figure
    return environment.get_template("inspection.html.j2").render(
        title="A pricdr release, inspected",
        inspection=inspection,
        certificate=inspection.certificate,
        sections=inspection.sections(),
        software=f"pricdr {__version__}",
        curve=None if curve is None else curve_figure(curve, inspection.certificate.unit),
        bells=None if curve is None or curve.mu > _WIDEST else bells_figure(curve, inspection.certificate.unit),
        rates=[] if curve is None else rates(curve),
    )


def curve_figure(curve: TradeOff, unit: str) -> CurveFigure:
    """Lay out the exact curve, the bound by (ε, δ) alone, and the point at 5 % false alarms."""
    found = curve.detections(0.05)
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    return CurveFigure(
        exact=_points(curve.curve()),
        by_guarantee=_points(curve.guarantee_corners()),
        ticks_x=tuple(Tick(_x(share), percent_up(share)) for share in shares),
        ticks_y=tuple(Tick(_y(share), percent_up(share)) for share in shares),
        mark_x=_x(0.05),
        mark_y=_y(found),
        mark=f"5 % false alarms: at most {percent_up(found)} detected",
        in_words=f"The best test for one {unit}. "
        + "; ".join(f"{alarms} false alarms, at most {found} detections" for alarms, found, _ in rates(curve))
        + ". Blind guessing detects as often as it raises false alarms.",
    )


def bells_figure(curve: TradeOff, unit: str) -> BellsFigure:
    """Lay out two normal densities as far apart as one change moves the release, in units of its noise."""
    reach, apart = 3.6, curve.separation
    scale = (_BELLS - 12) / (2 * reach + apart)

    def bell(centre: float) -> str:
        steps = [-reach + 2 * reach * at / 80 for at in range(81)]
        return " ".join(
            f"{_pixels(6 + (reach + centre + z) * scale)},{_pixels(14 + _BELL_HEIGHT * (1 - _bell_height(z)))}"
            for z in steps
        )

    return BellsFigure(
        without=bell(0.0),
        changed=bell(apart),
        centre_without=6 + reach * scale,
        centre_changed=6 + (reach + apart) * scale,
        distance=f"{curve.mu:.3g}",
        in_words=f"Two bell curves, the noise without and with one {unit}: their centres are {curve.mu:.3g} standard "
        f"deviations of the noise apart, at most.",
    )


def _bell_height(z: float) -> float:
    """Return the normal density at ``z`` as a share of its largest value."""
    return math.exp(-z * z / 2)


def rates(curve: TradeOff) -> list[tuple[str, str, str]]:
    """Return rates of false alarms, each with the most detections by the exact curve and by (ε, δ) alone."""
    return [
        (percent_up(alpha), percent_up(curve.detections(alpha)), percent_up(curve.detections_by_guarantee(alpha)))
        for alpha in FALSE_ALARMS
    ]


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{_pixels(_x(x), 2)},{_pixels(_y(y), 2)}" for x, y in points)


def _x(share: float) -> float:
    return _LEFT + share * _SIDE


def _y(share: float) -> float:
    return _TOP + (1 - share) * _SIDE


def _figure(value: float) -> str:
    """Return ε or δ as text, rounded up: a promise must not look better than it is."""
    return f"{rounded_up(value, 4):g}"


def _pixels(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}"
