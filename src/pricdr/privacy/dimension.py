"""``--dim auto``: the dimension that suits random rows, from one noisy average that is paid for.

The noise in a user-user inner product is smallest at k* = mean‖a_u‖²/σ² (``docs/mathematics.md``, section 7). That
mean is read off the ratings, so it is released through the same mechanism with 1 % of the budget in μ².
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.data.ratings import CSR
from pricdr.errors import ParameterError
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import GRID_STEPS
from pricdr.privacy.guarantee import Unit
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.randomness import Randomness

BUDGET_SHARE: Final = 0.01
"""Part of μ² spent on the average."""
SMALLEST: Final = 16
LARGEST: Final = 800


@dataclass(frozen=True)
class ChosenDim:
    """A dimension and what it was chosen by."""

    dim: int
    mu: float
    noisy_mean_square: float


def choose_dim(
    entries: CSR, *, bounds: Bounds, unit: Unit, mu: float, sigma: float, randomness: Randomness
) -> ChosenDim:
    """k* for these entries, from a mean of squared norms released with ``mu``.

    A user's square counts up to a cap: one rating changes the sum by at most b² (its own square); replacing a user
    changes it by at most c², where the squares are capped.
    """
    squares = np.asarray(entries.astype(np.int64).power(2).sum(axis=1)).ravel()
    if unit is Unit.USER:
        assert bounds.clip is not None
        cap = math.ceil((bounds.clip / bounds.rating_step) ** 2)
        squares, sensitivity = np.minimum(squares, cap), cap
    else:
        sensitivity = bounds.levels**2
    # The sum is rounded down to whole grid steps; 2 of the μ·GRID_STEPS it may move by pay for that rounding.
    room = GRID_STEPS * mu - 2
    if room <= 0:
        raise ParameterError("epsilon is too small to choose a dimension from; give --dim a number")
    scale = room / sensitivity
    drawn = int(DiscreteGaussian(randomness, "dimension").draw(0, 1)[0])
    noisy = (math.floor(int(squares.sum()) * scale) + drawn) / scale
    mean = max(0.0, noisy * bounds.rating_step**2 / entries.shape[0])
    return ChosenDim(round(min(max(mean / sigma**2, SMALLEST), LARGEST)), mu, mean)
