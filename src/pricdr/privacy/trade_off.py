"""The trade-off between false alarms and detections: everything a test can achieve against a Gaussian mechanism.

A test is given one of two neighbouring inputs' releases and says whether the change is there. Its false alarms are the
cases where it wrongly says so, its detections those where it rightly does. Derivation: ``docs/mathematics.md``,
section 2.
"""

import math
from dataclasses import dataclass

from scipy.special import ndtr, ndtri

from pricdr.privacy.calibration import LATTICE_FACTOR

_FARTHEST = 40.0
"""Standard deviations beyond which the normal distribution function is 0 or 1 to double precision."""


@dataclass(frozen=True)
class TradeOff:
    """The exact curve of a release, and the bound that its (ε, δ) alone would give."""

    mu: float
    """Of the whole release, as its certificate states it."""
    epsilon: float
    delta: float

    @property
    def separation(self) -> float:
        """The distance of the two normal laws that bound every test: μ, and the factor that integer noise costs."""
        return self.mu * LATTICE_FACTOR

    def detections(self, false_alarms: float) -> float:
        """Return the largest rate of detections at this rate of false alarms: Φ(Φ⁻¹(α) + μ′).

        >>> round(TradeOff(mu=1.0, epsilon=4.0, delta=1e-6).detections(0.05), 4)
        0.2595
        """
        return float(ndtr(ndtri(false_alarms) + self.separation))

    def detections_by_guarantee(self, false_alarms: float) -> float:
        """Return the rate of detections that (ε, δ) alone would still allow: min(e^ε α + δ, 1 − e^−ε (1 − δ − α), 1).

        >>> round(TradeOff(mu=1.0, epsilon=1.0, delta=0.0).detections_by_guarantee(0.05), 4)
        0.1359
        """
        factor = math.exp(min(self.epsilon, 700.0))  # beyond it the product is above 1 for every α that is not 0
        return min(factor * false_alarms + self.delta, 1 - (1 - self.delta - false_alarms) / factor, 1.0)

    def curve(self, count: int = 161) -> list[tuple[float, float]]:
        """Return points of the exact curve, from (0, 0) to (1, 1), close together where it bends.

        Both rates are values of Φ, a fixed distance apart: stepping evenly along that scale follows the bend.
        """
        reach = min(self.separation, _FARTHEST)
        low, high = -8.0 - reach, 8.0
        inner = [low + (high - low) * at / (count - 1) for at in range(count)]
        points = [(float(ndtr(at)), float(ndtr(at + self.separation))) for at in inner]
        return [(0.0, 0.0), *points, (1.0, 1.0)]

    def guarantee_corners(self) -> list[tuple[float, float]]:
        """Return the corners of the bound by (ε, δ), which is made of straight lines."""
        corner = (1 - self.delta) / (1 + math.exp(min(self.epsilon, 700.0)))
        return [(0.0, self.delta), (corner, 1 - corner), (1 - self.delta, 1.0), (1.0, 1.0)]
