"""Closed forms between noise and (ε, δ), in inverse pairs. Pure functions of numbers; nothing here sees ratings.

A Gaussian mechanism is described by one number, μ = sensitivity / σ. Derivations: ``docs/mathematics.md``, sections
2 (the exact profile), 3 (why the integer noise costs a factor of 1.0000019 in μ) and 4 (the paper's formula).
"""

import math
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, ndtr

from pricdr.errors import ParameterError, require_count, require_positive, require_probability

GRID_STEPS: Final = 1024
"""Parameter s of the discrete Gaussian in the table: the fewest grid steps in one standard deviation of the noise."""

MAX_REFINEMENT: Final = 256
"""The largest r in noise of the form r·Z₁ + Z₂; up to here the sum is a discrete Gaussian within 1 ± 10^-130."""

ROUNDING_WIDTH: Final = 2.0
"""t of section 3: the integer noise is a rounding, of width t, of a continuous Gaussian of variance s² − t²."""

LATTICE_FACTOR: Final = 1 / math.sqrt(1 - (ROUNDING_WIDTH / GRID_STEPS) ** 2)
"""How much larger μ is counted because the noise is a discrete Gaussian: 1 + 1.9e-6."""

SAMPLER_DISTANCE: Final = 2.0**-689
"""Total variation distance of one number's noise (two table draws, 2^-690 each) from its exact law: a tested bound."""


_LEGENDRE: Final = [((1 + x) / 2, w / 2) for x, w in zip(*(part.tolist() for part in leggauss(20)), strict=True)]
"""Nodes and weights of Gauss-Legendre quadrature on [0, 1]: exact to double precision for a ratio this smooth."""


class Calibration(Enum):
    """How σ follows from (ε, δ)."""

    EXACT = "exact"
    PAPER = "paper"
    """Algorithm 1's w, for reproduction: far more noise than its ε needs. The accounting stays exact."""


def delta_of(mu: float, epsilon: float) -> float:
    """Return the smallest δ at which a Gaussian mechanism with this μ is (ε, δ)-private, exactly.

    δ = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ). With a, b the two arguments, e^ε φ(b) = φ(a), so δ = φ(a) (r(−a) − r(−b))
    for the Mills ratio r, in which nothing overflows. For small μ the two ratios nearly cancel; their difference is
    then the integral of −r′(x) = 1 − x r(x) over a stretch of length μ.

    >>> f"{delta_of(1.0, 1.0):.4f}"
    '0.1269'
    """
    upper, lower = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    density = math.exp(-upper * upper / 2) / math.sqrt(2 * math.pi)
    if mu <= 1 and abs(upper) < 40:  # beyond that δ is 0 or 1 for every purpose, and 1 − x r(x) would cancel
        return (
            density
            * mu
            * math.fsum(weight * (1 - x * _mills(x)) for weight, x in ((w, mu * node - upper) for node, w in _LEGENDRE))
        )
    if upper > 0:
        return float(ndtr(upper)) - density * _mills(-lower)
    return density * (_mills(-upper) - _mills(-lower))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the smallest ε at which a Gaussian mechanism with this μ is (ε, δ)-private: inverse of :func:`delta_of`.

    >>> f"{epsilon_of(1.0, delta_of(1.0, 3.0)):.9f}"
    '3.000000000'
    """
    if mu == 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    above = _first_above(lambda epsilon: delta_of(mu, epsilon) <= delta, start=mu * mu / 2 + mu)
    return _smallest(lambda epsilon: delta_of(mu, epsilon) <= delta, 0.0, above)


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ that is (ε, δ)-private: the other inverse of :func:`delta_of`.

    >>> f"{mu_of(4.0, 1 / 16367):.4f}"
    '1.0143'
    """
    require_positive(epsilon=epsilon)
    require_probability(delta=delta)
    above = _first_above(lambda mu: delta_of(mu, epsilon) > delta, start=math.sqrt(2 * epsilon))
    # 1e-12 below the root: more than the profile's own rounding error for every ε above 0.001
    return _smallest(lambda mu: delta_of(mu, epsilon) > delta, 0.0, above) * (1 - 1e-12)


def sigma_for(epsilon: float, delta: float, *, sensitivity: float, dim: int) -> float:
    """Return the σ per coordinate that buys (ε, δ) for rows of ``dim`` coordinates: inverse of :func:`epsilon_for`."""
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


def epsilon_for(sigma: float, delta: float, *, sensitivity: float, dim: int) -> float:
    """Return the ε that this σ really gives at ``delta``: inverse of :func:`sigma_for`."""
    return composed_epsilon([(sensitivity / sigma, dim)], delta)


def composed_epsilon(releases: Iterable[tuple[float, int]], delta: float) -> float:
    """Return ε at ``delta`` of several releases together, each given as (μ, coordinates per user row).

    μ² adds exactly; the error of the noise table adds up over all coordinates. Infinite where the table's error
    alone would reach δ.
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
    """Return μ of several Gaussian releases together, adaptive or not: squares add.

    >>> composed_mu([3.0, 4.0])
    5.0
    """
    return math.hypot(*mus)


def grid_steps(refinement: int) -> float:
    """Return the grid steps in one σ: the parameter of the discrete Gaussian r·Z₁ + Z₂, or of Z₁ alone for r = 1.

    >>> grid_steps(1), round(grid_steps(4) / 1024, 3)
    (1024.0, 4.123)
    """
    return float(GRID_STEPS) if refinement == 1 else GRID_STEPS * math.hypot(1, refinement)


def paper_sigma(epsilon: float, delta: float, *, dim: int) -> float:
    """Return σ = w/√k with the w of the paper's Algorithm 1, w = √(32 k ln(2/δ))/ε · ln(4k/δ).

    >>> round(paper_sigma(4, 1 / 16367, dim=400) * 400**0.5)
    1558
    """
    require_positive(epsilon=epsilon)
    require_probability(delta=delta)
    require_count(dim=dim)
    return math.sqrt(32 * math.log(2 / delta)) / epsilon * math.log(4 * dim / delta)


def _sampler_delta(epsilon: float, dim: int) -> float:
    """Return what the table's distance from the exact law adds to δ: once on each side, over one user's coordinates."""
    if epsilon > 700:  # e^ε would overflow, and is far beyond what the table can certify
        return math.inf
    return (1 + math.exp(epsilon)) * dim * SAMPLER_DISTANCE


def _mills(x: float) -> float:
    """Return Φ(−x)/φ(x), the Mills ratio."""
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _first_above(holds: Callable[[float], bool], *, start: float) -> float:
    """Return a number at which the monotone condition holds."""
    while not holds(start):
        start *= 2
        if start > 1e300:
            raise ParameterError("no finite solution for these privacy parameters")
    return start


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest double at which the monotone condition holds, by bisection down to neighbouring doubles."""
    for _ in range(2200):  # enough to reach neighbouring doubles from any bracket
        middle = (low + high) / 2 if low > 0 else high / 2**16 if high > 1e-200 else high / 2
        if not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
