"""How many numbers per user are worth their noise, by what is promised."""

from typing import Final

from pricdr.errors import ParameterError, require_count
from pricdr.privacy.guarantee import Guarantee

FEW: Final = 4
MANY: Final = 8
ENOUGH_FOR_MANY: Final = 4.0
"""The ε from which on eight numbers per user are the default."""
MOST_LEARNT: Final = 256
"""Columns of a learnt release: beyond a handful they carry noise alone."""
MOST: Final = 1 << 20
"""Columns of any release."""


def require_dim(dim: int | None) -> int | None:
    """Return the number of columns of a release, refused where it cannot be one; None leaves the choice open."""
    return _at_most(MOST, dim, "a release")


def require_learnt_dim(dim: int | None) -> int | None:
    """Return the number of columns of a learnt release, refused where it cannot be one."""
    return _at_most(MOST_LEARNT, dim, "a learnt release")


def default_dim(guarantee: Guarantee) -> int:
    """Return eight, or four below ε = 4, where noise leaves room for fewer and stronger directions.

    >>> default_dim(Guarantee(epsilon=2, delta=1e-6)), default_dim(Guarantee(epsilon=4, delta=1e-6))
    (4, 8)
    """
    return MANY if guarantee.epsilon >= ENOUGH_FOR_MANY else FEW


def _at_most(most: int, dim: int | None, what: str) -> int | None:
    if dim is None:
        return None
    require_count(dim=dim)
    if dim > most:
        raise ParameterError(f"{what} can have at most {most:,} numbers per user, got {dim:,}")
    return int(dim)
