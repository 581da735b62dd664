"""``Guarantee``: ε and δ, and whether they protect one rating or one user."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pricdr.errors import ParameterError, require_positive, require_probability

RECOMMENDED_DELTA: Final = 1e-6
LARGE_DELTA: Final = 1e-5
WEAK_EPSILON: Final = 8.0
"""Above it, whoever publishes is warned."""
HARDLY_ANY_EPSILON: Final = 16.0
"""Above it, a release is not private: so little is promised."""


class Unit(Enum):
    """What may change between two neighbouring inputs that the release must not tell apart."""

    RATING = "rating"
    """One (user, item) entry changes to any value within the rating bound."""
    USER = "user"
    """All ratings of one listed user are replaced by any others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """(ε, δ)-differential privacy for one rating or for one user.

    >>> print(Guarantee(epsilon=4, delta=1e-6))
    (4, 1e-06)-differential privacy for one rating
    """

    epsilon: float
    delta: float
    unit: Unit = Unit.RATING

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):  # whatever number type the caller has
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "unit", _unit(self.unit))
        require_positive(epsilon=self.epsilon)
        require_probability(delta=self.delta)

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})-differential privacy for one {self.unit.value}"


def _unit(unit: Unit | str) -> Unit:
    try:
        return Unit(unit)
    except ValueError as error:
        raise ParameterError(f"unit must be rating or user, got {unit!r}") from error


def epsilon_warnings(epsilon: float, unit: Unit = Unit.RATING) -> tuple[str, ...]:
    """Return a warning about an ε that is too large to promise much.

    >>> epsilon_warnings(8.0)
    ()
    >>> epsilon_warnings(10.0)
    ('epsilon = 10 is above 8, which is weak: the odds about one rating may change by a factor of 22,100',)
    """
    if epsilon <= WEAK_EPSILON:
        return ()
    limit, means = WEAK_EPSILON, "is weak"
    if not is_private(epsilon):
        limit, means = HARDLY_ANY_EPSILON, "promises hardly anything"
    return (
        f"epsilon = {epsilon:.6g} is above {limit:g}, which {means}: the odds about one {unit.value} may change by a "
        f"factor of {odds_factor(epsilon)}",
    )


def is_private(epsilon: float) -> bool:
    """Return whether a release that keeps this exact ε counts as private: the one rule for certificates and screens.

    >>> is_private(16.0), is_private(16.01)
    (True, False)
    """
    return epsilon <= HARDLY_ANY_EPSILON


def odds_factor(epsilon: float) -> str:
    """Return e^ε as text, the most by which a release multiplies an observer's odds: three digits, rounded up.

    >>> odds_factor(16.0), odds_factor(100.0)
    ('8,890,000', 'e^100')
    """
    if not 0 < epsilon <= 30:
        return f"e^{epsilon:.6g}"
    # Few digits, since certificates hold this text: another machine may compute the last bits of e^ε differently.
    unit = 10 ** max(0, math.floor(epsilon / math.log(10)) - 2)
    return f"{math.ceil(math.exp(epsilon) / unit) * unit:,}"


def delta_warnings(delta: float, users: int) -> tuple[str, ...]:
    """Return warnings about a δ that is too large to mean much: it is the chance of an unbounded failure.

    >>> delta_warnings(1e-6, 1000)
    ()
    >>> len(delta_warnings(1e-3, 1000))
    2
    """
    warnings = []
    if delta >= LARGE_DELTA:
        warnings.append(f"delta = {delta:g} is large: {RECOMMENDED_DELTA:g} or less is recommended")
    if delta >= 1 / users:
        warnings.append(
            f"delta = {delta:g} is at least 1/{users}, one over the number of listed users: "
            "such a delta allows publishing one user's ratings outright"
        )
    return tuple(warnings)
