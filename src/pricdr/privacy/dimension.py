"""``--dim auto``: the dimension that suits random rows, from one noisy average that is paid for.

The noise in a user-user inner product is smallest at k* = mean‖a_u‖²/σ² (``docs/mathematics.md``, section 7). That
mean is read off the ratings, so it is released through the same mechanism with 1 % of the budget in μ².
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.data.blocks import Matrix, Whole
from pricdr.data.csr import CSR, exact_row_sums, with_values
from pricdr.errors import ParameterError
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import MAX_REFINEMENT, grid_steps
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
    entries: Matrix, *, bounds: Bounds, unit: Unit, mu: float, sigma: float, randomness: Randomness
) -> ChosenDim:
    """Return k* for these entries, from a mean of squared norms released with ``mu``.

    A user's square counts up to a cap: one rating changes the sum by at most b² (its own square); replacing a user
    changes it by at most c², where the squares are capped.
    """
    sensitivity = mean_sensitivity(bounds, unit)
    squares = int(entries.total(_Squares(cap=sensitivity if unit is Unit.USER else None))[0])
    scale = _room(mu) / sensitivity
    drawn = int(DiscreteGaussian(randomness, "dimension", refinement=MAX_REFINEMENT).draw(0, 1)[0])
    # Noise is added to a whole number of steps: in floating point its last bits would give the sum away.
    noisy = (math.floor(squares * scale) + drawn) / scale
    mean = max(0.0, noisy * bounds.rating_step**2 / entries.shape[0])
    return ChosenDim(dim_for(mean, sigma), mu, mean)


@dataclass(frozen=True)
class _Squares:
    """Adds up users' squared norms, each up to a cap."""

    cap: int | None

    def __call__(self, block: CSR, start: int) -> Whole:
        """Return their sum over a block."""
        squares = exact_row_sums(with_values(block, block.data.astype(np.int64) ** 2))
        return np.array([squares.sum() if self.cap is None else np.minimum(squares, self.cap).sum()], dtype=np.int64)


def mean_sensitivity(bounds: Bounds, unit: Unit) -> int:
    """Return how far a neighbouring change moves the sum of squared ratings, in squared rating steps."""
    if unit is Unit.RATING:
        return bounds.levels**2
    assert bounds.clip is not None
    return math.ceil(min((bounds.clip / bounds.rating_step) ** 2, 2.0**52))


def dim_for(mean_square: float, sigma: float) -> int:
    """Return k* = mean‖a_u‖²/σ², kept between 16 and 800.

    >>> dim_for(100.0, 1.0), dim_for(1.0, 9.0), dim_for(1e9, 1.0)
    (100, 16, 800)
    """
    return round(min(max(mean_square / sigma**2, SMALLEST), LARGEST))


def require_room(mu: float) -> None:
    """Refuse a μ too small to release a mean with, before anything is spent."""
    _room(mu)


def _room(mu: float) -> float:
    """Return how many grid steps the sum may move by; two more are paid for rounding it down to whole steps."""
    room = grid_steps(MAX_REFINEMENT) * mu - 2
    if room <= 0:
        raise ParameterError("epsilon is too small to choose a dimension from; give --dim a number")
    return room
