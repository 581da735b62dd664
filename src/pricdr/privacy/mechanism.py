"""The mechanism, Y = A E + σN, computed in whole numbers: exact products, exact noise, one rounding at the end.

Nothing here decides how much noise is enough (``accounting``) or what E looks like (``strategies``). What this
module promises is what the accounting relies on: one neighbouring change moves the integer row of a user by at most
sensitivity / grid, whatever the inputs.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import Matrix, Transposed, as_matrix
from pricdr.data.csr import CSC, CSR, exact_product, exact_product_by_pieces, with_values
from pricdr.errors import ParameterError
from pricdr.parallel import each_block
from pricdr.privacy.accounting import MAX_REFINEMENT, grid_steps
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.progress import Progress, silent

Float32Array: TypeAlias = npt.NDArray[np.float32]
Int32Array: TypeAlias = npt.NDArray[np.int32]
IntegerArray: TypeAlias = npt.NDArray[Any]
FloatT = TypeVar("FloatT", np.float32, np.float64)

CELLS_PER_BLOCK: Final = 1 << 19
_LARGEST: Final = 1e30
"""Published numbers are float32, which reach from 1e-38 to 3e38."""
_LARGEST_SUM: Final = 1 << 53
"""Sums below this are exact in int64 and as doubles, which clipping needs."""
MOST_ITEMS: Final = 1 << 24
"""Items a catalogue may have; with it the size of every sum is bounded before any rating is seen."""
_SHRINK: Final = 1 - 1e-12
"""Covers the rounding of double arithmetic wherever a norm must not exceed its bound."""
_ADDED_AT_ONCE: Final = 1 << 13
_SHORT: Final = (1 << 15) - 1
_FEWEST_ENTRIES: Final = 4
"""Entries of a row from which on it pays to add them up in 16 bits first."""
_ROOM: Final = 32.0
"""Grid steps in a typical coordinate of an item row; rounding then changes the row by 1/(32·√12) of its length."""
_NOISELESS_STEPS: Final = 1 << 16
"""Grid steps in one rating step of a release without noise, where no σ sets the scale."""


@dataclass(frozen=True)
class Grid:
    """The lattice on which a release is computed: σ is ``grid_steps(refinement)`` steps of size ``step``."""

    sigma: float
    step: float
    refinement: int = 1

    @classmethod
    def for_noise(cls, sigma: float, *, bounds: Bounds, dim: int) -> "Grid":
        """Return the grid for noise σ per coordinate, so fine that rounding costs the item rows under 1 %.

        It depends on declared figures alone. Where σ is so large that even the finest grid is coarse for a rating
        step, the finest is taken; :meth:`keeps_signal` says whether that is the case.
        """
        refinement = 1
        while refinement < MAX_REFINEMENT and not cls._at(sigma, refinement)._fine_enough(bounds, dim, _ROOM):
            refinement *= 2
        return cls._at(sigma, refinement)

    @classmethod
    def noiseless(cls, bounds: Bounds) -> "Grid":
        """Return a fine grid for a release that is not private."""
        return cls(0.0, bounds.rating_step / _NOISELESS_STEPS)

    @classmethod
    def _at(cls, sigma: float, refinement: int) -> "Grid":
        return cls(sigma, sigma / grid_steps(refinement), refinement)

    def radius(self, bounds: Bounds) -> float:
        """Return how long an item row may be in grid steps: ``levels`` rating steps then move a row by b at most."""
        radius = bounds.largest / bounds.levels / self.step
        scales = [size for size in (self.sigma, bounds.largest) if size]
        if not 1 / _LARGEST < min(scales) <= max(scales) < _LARGEST:
            raise ParameterError(f"sigma {self.sigma:.3g} or bound {bounds.largest:.3g} is beyond single precision")
        if radius * bounds.levels > _LARGEST_SUM // MOST_ITEMS:
            raise ParameterError(f"the noise is too small for exact arithmetic: {radius:.3g} grid steps in one rating")
        return radius

    def keeps_signal(self, bounds: Bounds, dim: int) -> bool:
        """Return whether rounding to the grid leaves item rows recognisable."""
        return self._fine_enough(bounds, dim, 2.0)

    def _fine_enough(self, bounds: Bounds, dim: int, room: float) -> bool:
        return self.radius(bounds) >= room * math.sqrt(dim)


def on_grid(rows: Float32Array, *, radius: float) -> Int32Array:
    """Return unit rows as whole numbers of norm at most ``radius``, as close to radius times the row as that allows.

    Rounding to the nearest integer may lengthen a row; rows are aimed one step inside the ball, and the few that
    still leave it are rounded towards zero instead, which never lengthens.
    """
    dim = rows.shape[1]
    # Rounding dim coordinates adds 1/12 each to the squared norm on average: dim / (24 radius) to the norm itself.
    aim = max(0.0, radius - 1 - dim / (24 * radius))
    out = np.empty(rows.shape, dtype=np.int32)

    def quantise(part: slice) -> None:
        exact = rows[part].astype(np.float64)
        norms = np.sqrt(squared_norms(exact))
        if not np.isfinite(norms).all():
            raise ParameterError("a strategy gave an item row that is not finite")
        exact /= np.maximum(norms, 1.0)[:, None]
        nearest = np.rint(exact * aim)
        outside = squared_norms(nearest) > (radius * _SHRINK) ** 2
        nearest[outside] = np.trunc(exact[outside] * (radius * _SHRINK))
        out[part] = nearest

    each_block(len(rows), max(1, CELLS_PER_BLOCK // dim), quantise)
    return out


def release_rows(
    entries: Matrix | CSR | CSC,
    item_rows: Int32Array,
    *,
    grid: Grid,
    bounds: Bounds,
    noise: DiscreteGaussian | None,
    progress: Progress = silent,
    cells_per_block: int = CELLS_PER_BLOCK,
) -> Float32Array:
    """Return ``grid.step`` times (entries · item_rows, clipped where declared, plus noise): one row per user.

    The noise of cell (u, j) is the draw at position u·dim + j, so the result does not depend on blocks or threads.
    """
    matrix = as_matrix(entries)
    assert not isinstance(matrix, Transposed), "rows are users'"
    n_items, dim = matrix.shape[1], item_rows.shape[1]
    wide = _accumulator(n_items, item_rows, bounds, largest_noise=0 if noise is None else noise.largest)
    pieces = _SHORT // max(1, bounds.levels * _largest(item_rows))
    if pieces < _FEWEST_ENTRIES:
        pieces = 0
    work = ReleasedRows(
        item_rows=item_rows.astype(np.int16 if pieces else wide, copy=False),
        pieces=pieces,
        total=np.dtype(wide).name,
        radius=None if bounds.clip is None else bounds.clip / grid.step,
        step=grid.step,
        noise=noise,
    )
    published = matrix.array(dim, np.float32)
    matrix.rows(work, published, block_rows=max(1, cells_per_block // dim), what="user rows", progress=progress)
    return published


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedRows:
    """Adds up the rows of each user's items, clips the sum and adds noise: Y = A E + σN for a block of users."""

    item_rows: IntegerArray
    """E in grid steps, of a type that holds every sum, or the sum of every piece."""
    pieces: int
    """How many entries of a row add up within 16 bits, whatever they are; 0 where that is too few."""
    total: str
    """The type that holds every sum and its noise."""
    radius: float | None
    """The longest a user's sum may be, in grid steps."""
    step: float
    noise: DiscreteGaussian | None

    def __call__(self, block: CSR, start: int) -> Float32Array:
        """Return the published rows of the users from ``start`` on."""
        total = np.dtype(self.total).type
        if self.pieces:
            rows = exact_product_by_pieces(block, self.item_rows, self.pieces, total)
        else:
            rows = exact_product(with_values(block, block.data.astype(total)), self.item_rows)
        if self.radius is not None:
            rows = clip_rows(rows, self.radius)
        if self.noise is not None:
            rows += self.noise.draw(start * rows.shape[1], rows.size).reshape(rows.shape)
        # Whole numbers until the noise is in: what floating point does afterwards cannot give low bits away.
        published: Float32Array = np.multiply(
            rows, self.step, out=np.empty(rows.shape, dtype=np.float32), casting="unsafe"
        )
        return published


def clip_rows(rows: IntegerArray, radius: float) -> IntegerArray:
    """Return integer rows no longer than ``radius``: long ones are scaled back and rounded towards zero.

    >>> clip_rows(np.array([[30, 40], [3, 3]]), radius=5.0).tolist()
    [[2, 3], [3, 3]]
    """
    exact = rows.astype(np.float64)
    norms = np.sqrt(squared_norms(exact))
    long = norms > radius * _SHRINK
    exact[long] *= (radius * _SHRINK / norms[long])[:, None]
    return np.trunc(exact).astype(rows.dtype)


def squared_norms(rows: npt.NDArray[FloatT]) -> npt.NDArray[FloatT]:
    """Return the squared norm of every row, in an order of additions that does not depend on the rows beside it.

    numpy adds up 8,192 numbers at a time, across rows: in wider ones the order would depend on where a block begins.
    """
    total = np.zeros(len(rows), dtype=rows.dtype)
    for at in range(0, rows.shape[1], _ADDED_AT_ONCE):
        part = rows[:, at : at + _ADDED_AT_ONCE]
        total += np.einsum("ij,ij->i", part, part)
    return total


def _accumulator(
    n_items: int, item_rows: Int32Array, bounds: Bounds, *, largest_noise: int
) -> type[np.int32] | type[np.int64]:
    """Return the narrowest integer that holds every possible row sum plus noise without overflow."""
    limit = n_items * bounds.levels * _largest(item_rows) + largest_noise
    if limit < 2**31:
        return np.int32
    assert limit < 2 * _LARGEST_SUM, "Grid.radius and MOST_ITEMS bound every sum beforehand"
    return np.int64


def _largest(rows: Int32Array) -> int:
    return max(int(rows.max(initial=0)), -int(rows.min(initial=0)))
