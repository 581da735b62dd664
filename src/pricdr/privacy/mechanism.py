"""The mechanism, Y = A E + σN, computed in whole numbers: exact products, exact noise, one rounding at the end.

Nothing here decides how much noise is enough (``accounting``) or what E looks like (``strategies``). What this
module promises is what the accounting relies on: one neighbouring change moves the integer row of a user by at most
sensitivity / grid, whatever the inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float32Array, Int32Array, IntegerArray
from pricdr.data.blocks import Matrix, RatingsSource, as_matrix
from pricdr.data.csr import CSR, exact_product, exact_product_by_pieces, with_values
from pricdr.data.ids import Ids
from pricdr.errors import ParameterError
from pricdr.parallel import each_block
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.steps import MAX_SUM, UNITS_PER_STEP, Bounds, CalibratedStep, Grid
from pricdr.progress import Progress, silent
from pricdr.randomness import Hidden, Randomness

FloatT = TypeVar("FloatT", np.float32, np.float64)

CELLS_PER_BLOCK: Final = 1 << 19
SHRINK: Final = 1 - 1e-12  # covers the rounding of double arithmetic wherever a norm must not exceed its bound
_ADDED_AT_ONCE: Final = 1 << 13
_SHORT: Final = (1 << 15) - 1
_MIN_ENTRIES: Final = 4  # entries of a row from which on it pays to add them up in 16 bits first


def on_grid(rows: Float32Array, *, radius: float) -> Int32Array:
    """Return unit rows as whole numbers of norm at most ``radius``, as close to radius times the row as that allows."""
    dim = rows.shape[1]
    # Rounding to the nearest may lengthen a row, by 1/12 a coordinate in its squared norm on average. So rows are aimed
    # one step inside the ball; the few that still leave it are rounded towards zero instead, which never lengthens.
    aim = max(0.0, radius - 1 - dim / (24 * radius))
    out = np.empty(rows.shape, dtype=np.int32)

    def quantise(part: slice) -> None:
        exact = rows[part].astype(np.float64)
        norms = np.sqrt(squared_norms(exact))
        if not np.isfinite(norms).all():
            raise ParameterError("a strategy gave an item row that is not finite")
        exact /= np.maximum(norms, 1.0)[:, None]
        nearest = np.rint(exact * aim)
        outside = squared_norms(nearest) > (radius * SHRINK) ** 2
        nearest[outside] = np.trunc(exact[outside] * (radius * SHRINK))
        out[part] = nearest

    each_block(len(rows), max(1, CELLS_PER_BLOCK // dim), quantise)
    return out


def release_rows(
    entries: Matrix | CSR,
    item_rows: Int32Array,
    *,
    grid: Grid,
    bounds: Bounds,
    noise: DiscreteGaussian | None,
    progress: Progress = silent,
) -> Float32Array:
    """Return ``grid.step`` times (entries · item_rows, clipped where declared, plus noise): one row per user.

    The noise of cell (u, j) is the draw at position u·dim + j, so the result does not depend on blocks or threads.
    """
    matrix = as_matrix(entries)
    dim = item_rows.shape[1]
    most = bounds.levels * max(int(item_rows.max(initial=0)), -int(item_rows.min(initial=0)))
    limit = matrix.shape[1] * most + (0 if noise is None else noise.largest)
    assert limit < 2 * MAX_SUM, "Grid.radius and MAX_ITEMS bound every sum beforehand"
    total: type[np.signedinteger[Any]] = np.int32 if limit < 2**31 else np.int64
    # How many entries of a row add up within 16 bits, whatever they are; 0 where that is too few.
    within = _SHORT // max(1, most)
    pieces = within if within >= _MIN_ENTRIES else 0
    # Of a type that holds every sum, or the sum of every piece.
    item_rows = item_rows.astype(np.int16 if pieces else total, copy=False)

    def work(block: CSR, start: int) -> Float32Array:
        if pieces:
            rows = exact_product_by_pieces(block, item_rows, pieces, total)
        else:
            rows = exact_product(with_values(block, block.data.astype(total)), item_rows)
        if bounds.clip is not None:
            rows = clip_rows(rows, bounds.clip / grid.step)
        if noise is not None:
            rows += noise.draw(start * rows.shape[1], rows.size).reshape(rows.shape)
        # Whole numbers until the noise is in: what floating point does afterwards cannot give low bits away.
        exact: Float32Array = np.multiply(rows, grid.step, out=np.empty(rows.shape, dtype=np.float32), casting="unsafe")
        return exact

    published = matrix.array(dim, np.float32)
    matrix.rows(work, published, block_rows=max(1, CELLS_PER_BLOCK // dim), what="user rows", progress=progress)
    return published


def clip_rows(rows: IntegerArray, radius: float) -> IntegerArray:
    """Return integer rows no longer than ``radius``: long ones are scaled back and rounded towards zero.

    >>> clip_rows(np.array([[30, 40], [3, 3]]), radius=5.0).tolist()
    [[2, 3], [3, 3]]
    """
    exact = rows.astype(np.float64)
    norms = np.sqrt(squared_norms(exact))
    long = norms > radius * SHRINK
    exact[long] *= (radius * SHRINK / norms[long])[:, None]
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


@dataclass(frozen=True, eq=False)
class Entries:
    """The ratings as a strategy sees them: whole units, already forced into what was declared."""

    listed: Matrix
    users: Ids
    items: Ids
    bounds: Bounds
    value: float = 1.0  # what one unit counts

    @classmethod
    def of(cls, ratings: RatingsSource, bounds: Bounds, *, summed: bool = False) -> "Entries":
        """Return the ratings as entries; where they are ``summed``, a clip bounds the sum of a user's ratings."""
        forced = bounds.units if summed else bounds.steps
        limited = summed and bounds.clip is not None
        in_periods = ratings.window is not None and ratings.window.days is not None
        assert limited or not in_periods, "each period's ratings are scaled to the clip before periods are added up"
        return cls(
            ratings.units(forced),
            ratings.users,
            ratings.items,
            bounds,
            value=bounds.rating_step / (UNITS_PER_STEP if limited else 1),
        )

    def __repr__(self) -> str:  # sizes only: ratings are private
        return f"Entries({self.listed.shape[0]} listed users x {len(self.items)} items)"


@dataclass(eq=False)
class Run:
    """The calibrated steps of one release. Each step's noise is drawn once; asking twice is an error."""

    calibrated: Sequence[CalibratedStep]
    randomness: Randomness
    noisy: bool = True
    progress: Progress = silent
    _used: set[str] = field(default_factory=set)

    def step(self, name: str) -> CalibratedStep:
        """Return the step of this name, and its lattice."""
        return next(one for one in self.calibrated if one.step.name == name)

    def noise(self, name: str) -> DiscreteGaussian | None:
        """Return the noise of a step, which can be asked for once; None in a release without noise."""
        if name in self._used:
            raise RuntimeError(f"the noise of step {name!r} was drawn already: a second draw would be a second release")
        # Marked before it is handed out, so that a failure later on cannot lead to a second draw.
        self._used.add(name)
        if not self.noisy:
            return None
        # Every strategy's last step is called "rows", and its stream "noise", as it was when there was no other.
        stream = "noise" if name == "rows" else f"{name} noise"
        return DiscreteGaussian(self.randomness, stream, refinement=self.step(name).grid.refinement)


class Secrets(Hidden):
    """Arrays computed from the ratings that must not outlive a block: overwritten at its end, however it ends."""

    def __init__(self) -> None:
        self._arrays: list[npt.NDArray[Any]] = []

    def keep(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the same array, to be overwritten at the end."""
        self._arrays.append(array)
        return array

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:  # best effort: numpy may have made short-lived copies
        for array in self._arrays:
            array.fill(0)
        self._arrays.clear()
