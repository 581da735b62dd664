"""What is promised, and what noise it takes: (ε, δ), the exact profile of Gaussian noise, and its trade-off curve.

Nothing here sees ratings. A Gaussian mechanism is described by one number, μ = sensitivity / σ. Derivations:
``docs/mathematics.md``, sections 2 (profile, trade-off), 3 (why integer noise costs a factor of 1.0000019 in μ) and 4.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, ndtr, ndtri

from pricdr.data.periods import Window
from pricdr.errors import ParameterError, require_count, require_positive, require_probability

RECOMMENDED_DELTA: Final = 1e-6
LARGE_DELTA: Final = 1e-5
WEAK_EPSILON: Final = 8.0  # above it, whoever publishes is warned
HARDLY_ANY_EPSILON: Final = 16.0  # above it, a release is not private: so little is promised

GRID_STEPS: Final = 1024  # parameter s of the discrete Gaussian in the table: the fewest grid steps in one σ
MAX_REFINEMENT: Final = 256
"""The largest r in noise of the form r·Z₁ + Z₂; up to here the sum is a discrete Gaussian within 1 ± 10^-130."""
ROUNDING_WIDTH: Final = 2.0
"""t of section 3: the integer noise is a rounding, of width t, of a continuous Gaussian of variance s² − t²."""
LATTICE_FACTOR: Final = 1 / math.sqrt(1 - (ROUNDING_WIDTH / GRID_STEPS) ** 2)
"""How much larger μ is counted because the noise is a discrete Gaussian: 1 + 1.9e-6."""
SAMPLER_DISTANCE: Final = 2.0**-689
"""Total variation distance of one number's noise (two table draws, 2^-690 each) from its exact law: a tested bound."""
_NODES, _WEIGHTS = (1 + leggauss(20)[0]) / 2, leggauss(20)[1] / 2
"""Nodes and weights of Gauss-Legendre quadrature on [0, 1]: exact to double precision for a ratio this smooth."""
_ROOT_TWO, _MILLS = math.sqrt(2), math.sqrt(math.pi / 2)  # the Mills ratio is r(x) = Φ(−x)/φ(x) = √(π/2) erfcx(x/√2)
_FARTHEST: Final = 40.0  # standard deviations beyond which Φ is 0 or 1 to double precision


class Unit(Enum):
    """What may change between two inputs that the release must not tell apart."""

    RATING = "rating"
    """One (user, item) entry changes to any value within the rating bound."""
    USER = "user"
    """All ratings of one listed user are added or removed."""
    USER_PERIOD = "user-period"
    """All ratings of one listed user within one declared period are added or removed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """(ε, δ)-differential privacy for one rating, for one user, or for one user in one period."""

    epsilon: float
    delta: float
    unit: Unit = Unit.RATING
    window: Window | None = None
    """The days whose ratings it is about, where that is not all of them; for unit user-period with their periods."""

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):  # whatever number type the caller has
            object.__setattr__(self, name, float(getattr(self, name)))
        try:
            object.__setattr__(self, "unit", Unit(self.unit))
        except ValueError as error:
            raise ParameterError(f"unit must be {', '.join(one.value for one in Unit)}, got {self.unit!r}") from error
        require_positive(epsilon=self.epsilon)
        require_probability(delta=self.delta)
        if self.unit is Unit.USER and self.window is not None:
            raise ParameterError(
                "unit user has no period: the same person is in every period, and all of them add up; take unit "
                "user-period, or rating"
            )
        in_periods = self.window is not None and self.window.days is not None
        if in_periods != (self.unit is Unit.USER_PERIOD):
            raise ParameterError("unit user-period needs the length of a period, such as 7d, and no other unit has one")

    def __str__(self) -> str:
        within = "" if self.window is None else f" ({self.window})"
        return f"({self.epsilon:g}, {self.delta:g})-differential privacy for one {self.unit.value}{within}"


def epsilon_warnings(epsilon: float, unit: Unit = Unit.RATING) -> tuple[str, ...]:
    """Return a warning about an ε that is too large to promise much.

    >>> epsilon_warnings(8.0)
    ()
    >>> epsilon_warnings(10.0)
    ('epsilon = 10 is above 8, which is weak: the odds about one rating may change by a factor of 22,100',)
    """
    if epsilon <= WEAK_EPSILON:
        return ()
    weak, hardly_any = (WEAK_EPSILON, "is weak"), (HARDLY_ANY_EPSILON, "promises hardly anything")
    limit, means = weak if is_private(epsilon) else hardly_any
    return (
        f"epsilon = {epsilon:.6g} is above {limit:g}, which {means}: the odds about one {unit.value} may change by a "
        f"factor of {odds_factor(epsilon)}",
    )


def is_private(epsilon: float) -> bool:
    """Return whether a release that keeps this exact ε counts as private: the one rule for certificates and screens."""
    return epsilon <= HARDLY_ANY_EPSILON


def odds_factor(epsilon: float) -> str:
    """Return e^ε as text, the most by which a release multiplies an observer's odds: three digits, rounded up."""
    if not 0 < epsilon <= 30:
        return f"e^{epsilon:.6g}"
    # Few digits, since certificates hold this text: another machine may compute the last bits of e^ε differently.
    unit = 10 ** max(0, math.floor(epsilon / math.log(10)) - 2)
    return f"{math.ceil(math.exp(epsilon) / unit) * unit:,}"


def delta_warnings(delta: float, users: int) -> tuple[str, ...]:
    """Return warnings about a δ that is too large to mean much: it is the chance of an unbounded failure."""
    texts = {
        f"delta = {delta:g} is large: {RECOMMENDED_DELTA:g} or less is recommended": delta >= LARGE_DELTA,
        f"delta = {delta:g} is at least 1/{users}, one over the number of listed users: "
        "such a delta allows publishing one user's ratings outright": delta >= 1 / users,
    }
    return tuple(text for text, holds in texts.items() if holds)


class Calibration(Enum):
    """How σ follows from (ε, δ)."""

    EXACT = "exact"
    PAPER = "paper"
    """Algorithm 1's w, for reproduction: far more noise than its ε needs. The accounting stays exact."""


def delta_of(mu: float, epsilon: float) -> float:
    """Return the smallest δ at which a Gaussian mechanism with this μ is (ε, δ)-private: φ(a) (r(−a) − r(−b)), exactly.

    For small μ the two Mills ratios nearly cancel; their difference is then the integral of −r′(x) = 1 − x r(x).
    """
    mu, epsilon = float(mu), float(epsilon)  # numbers of numpy would warn where these overflow to infinity
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    density = math.exp(-upper * upper / 2) / math.sqrt(2 * math.pi)
    if mu <= 1 and abs(upper) < 40:  # beyond that δ is 0 or 1 for every purpose, and 1 − x r(x) would cancel
        x = mu * _NODES - upper
        return density * mu * math.fsum(_WEIGHTS * (1 - x * (_MILLS * erfcx(x / _ROOT_TWO))))
    far = _MILLS * erfcx(-lower / _ROOT_TWO)
    if upper > 0:
        return float(ndtr(upper) - density * far)
    return float(density * (_MILLS * erfcx(-upper / _ROOT_TWO) - far))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest ε at which such a mechanism is (ε, δ)-private: inverse of :func:`delta_of`."""
    if mu == 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    return _smallest(lambda epsilon: delta_of(mu, epsilon) <= delta)


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ that is (ε, δ)-private: the other inverse of :func:`delta_of`."""
    require_positive(epsilon=epsilon)
    require_probability(delta=delta)
    # 1e-12 below the root: more than the profile's own rounding error for every ε above 0.001
    return _smallest(lambda mu: delta_of(mu, epsilon) > delta) * (1 - 1e-12)


def sigma_for(epsilon: float, delta: float, *, sensitivity: float, dim: int) -> float:
    """Return the σ per coordinate that buys (ε, δ) for rows of ``dim`` coordinates."""
    require_positive(sensitivity=sensitivity)
    require_count(dim=dim)
    # The noise table is not exactly a discrete Gaussian: its error is taken out of δ before σ is computed.
    available = delta - _sampler_delta(epsilon, dim)
    if available < delta / 2:
        raise ParameterError(
            f"epsilon = {epsilon:g} is too large to certify at delta = {delta:g}: the noise table's own error, "
            f"below 2^-689 a number, times e^epsilon would reach delta"
        )
    return sensitivity * LATTICE_FACTOR / mu_of(epsilon, available)


def composed_epsilon(releases: Iterable[tuple[float, int]], delta: float) -> float:
    """Return ε at ``delta`` of several releases together, each given as (μ, coordinates per user row).

    Infinite where the error of the noise table, which adds up over all coordinates, would reach δ alone.
    """
    releases = list(releases)
    mu = composed_mu(mu for mu, _ in releases) * LATTICE_FACTOR
    if mu == 0:
        return 0.0
    if not math.isfinite(mu):
        return math.inf
    dim = sum(dim for _, dim in releases)
    epsilon = epsilon_of(mu, delta)
    for _ in range(2):  # the table's share of δ depends on ε; it is so small that one correction settles it
        available = delta - _sampler_delta(epsilon, dim)
        if available < delta / 2:
            return math.inf
        epsilon = epsilon_of(mu, available)
    settled = delta_of(mu, epsilon) + _sampler_delta(epsilon, dim) <= delta * (1 + 1e-12)
    return epsilon if settled else math.inf


def composed_mu(mus: Iterable[float]) -> float:
    """Return μ of several Gaussian releases together, adaptive or not: squares add."""
    return math.hypot(*mus)


def grid_steps(refinement: int) -> float:
    """Return the grid steps in one σ: the parameter of the discrete Gaussian r·Z₁ + Z₂, or of Z₁ alone for r = 1."""
    return float(GRID_STEPS) if refinement == 1 else GRID_STEPS * math.hypot(1, refinement)


def paper_sigma(epsilon: float, delta: float, *, dim: int) -> float:
    """Return σ = w/√k with the w of the paper's Algorithm 1, w = √(32 k ln(2/δ))/ε · ln(4k/δ)."""
    require_positive(epsilon=epsilon)
    require_probability(delta=delta)
    require_count(dim=dim)
    return math.sqrt(32 * math.log(2 / delta)) / epsilon * math.log(4 * dim / delta)


def _sampler_delta(epsilon: float, dim: int) -> float:
    """Return what the table's distance from the exact law adds to δ: once on each side, over one user's coordinates."""
    if epsilon > 700:  # e^ε would overflow, and is far beyond what the table can certify
        return math.inf
    return (1 + math.exp(epsilon)) * dim * SAMPLER_DISTANCE


def _smallest(holds: Callable[[float], bool]) -> float:
    """Return the smallest double above 0 for which something holds that also holds for all larger ones, or infinity."""

    def double(bits: int) -> float:  # doubles are in the order of their bits: a search among whole numbers is exact
        return float(np.int64(bits).view(np.float64))

    infinity = int(np.float64(math.inf).view(np.int64))
    return double(bisect_left(range(infinity), True, lo=1, key=lambda bits: holds(double(bits))))


@dataclass(frozen=True)
class TradeOff:
    """The exact curve of a release, and the bound that its (ε, δ) alone would give."""

    mu: float  # of the whole release, as its certificate states it
    epsilon: float
    delta: float

    @property
    def separation(self) -> float:
        """The distance of the two normal laws that bound every test: μ, and the factor that integer noise costs."""
        return self.mu * LATTICE_FACTOR

    @property
    def right_guesses(self) -> float:
        """The largest share of guesses between two equally likely neighbours that are right: Φ(μ′/2)."""
        return float(ndtr(self.separation / 2))

    def detections(self, false_alarms: float) -> float:
        """Return the largest rate of detections at this rate of false alarms: Φ(Φ⁻¹(α) + μ′)."""
        return float(ndtr(ndtri(false_alarms) + self.separation))

    def detections_by_guarantee(self, false_alarms: float) -> float:
        """Return the detections that (ε, δ) alone would still allow: min(e^ε α + δ, 1 − e^−ε (1 − δ − α), 1)."""
        factor = math.exp(min(self.epsilon, 700.0))  # beyond it the product is above 1 for every α that is not 0
        return min(factor * false_alarms + self.delta, 1 - (1 - self.delta - false_alarms) / factor, 1.0)

    def curve(self) -> list[tuple[float, float]]:
        """Return points of the exact curve, from (0, 0) to (1, 1), close together where it bends."""
        reach = min(self.separation, _FARTHEST)
        # Both rates are values of Φ, a fixed distance apart: stepping evenly along that scale follows the bend.
        points = [(float(ndtr(at)), float(ndtr(at + self.separation))) for at in np.linspace(-8.0 - reach, 8.0, 161)]
        return [(0.0, 0.0), *points, (1.0, 1.0)]

    def guarantee_corners(self) -> list[tuple[float, float]]:
        """Return the corners of the bound by (ε, δ), which is made of straight lines."""
        corner = (1 - self.delta) / (1 + math.exp(min(self.epsilon, 700.0)))
        return [(0.0, self.delta), (corner, 1 - corner), (1 - self.delta, 1.0), (1.0, 1.0)]
