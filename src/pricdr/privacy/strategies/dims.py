"""How many numbers per user are worth their noise, by what is promised."""

from typing import Final

from pricdr.privacy.guarantee import Guarantee

FEW: Final = 4
MANY: Final = 8
ENOUGH_FOR_MANY: Final = 4.0
"""The ε from which on eight numbers per user carry more than four."""


def dim_for(guarantee: Guarantee) -> int:
    """Eight, or four below ε = 4: with more noise, fewer and stronger directions carry more.

    >>> dim_for(Guarantee(epsilon=2, delta=1e-6)), dim_for(Guarantee(epsilon=4, delta=1e-6))
    (4, 8)
    """
    return MANY if guarantee.epsilon >= ENOUGH_FOR_MANY else FEW
