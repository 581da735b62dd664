"""Sums of learnt vectors under a sensitivity of exactly b: the theorem behind ``spectral`` and ``guided``.

For a matrix with non-negative entries a_vi and a guide U with rows of norm at most 1 that does not depend on it,

    Q_i = Σ_v a_vi U_v      direction_i = Q_i / √(‖Q_i‖² + Σ_v a_vi² + prior)      Y_v = Σ_i a_vi direction_i

moves by at most |change| (Frobenius norm, over all rows) when one entry changes: as much as with fixed unit rows. The
proof is in ``docs/mathematics.md``, section 9. Q and the directions are secrets: with them the release would tell more
than was paid for.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import CSR
from pricdr.errors import ParameterError
from pricdr.parallel import each_block
from pricdr.privacy.mechanism import Grid
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.run import Secrets
from pricdr.privacy.steps import Step
from pricdr.progress import Progress, silent

Float64Array: TypeAlias = npt.NDArray[np.float64]
IntegerArray: TypeAlias = npt.NDArray[Any]

GUIDE_STEPS: Final = 1 << 14
"""A guide's numbers are whole multiples of 1/2^14, so that sums of its rows are exact."""
_SHRINK: Final = 1 - 1e-12
"""Covers the rounding of double arithmetic wherever a norm must not exceed its bound."""
_CELLS_PER_BLOCK: Final = 1 << 19


def whole_guide(rows: Float64Array) -> IntegerArray:
    """Return rows of norm at most 1 in whole steps of 1/2^14: longer ones are shortened, all are rounded towards zero.

    >>> whole_guide(np.array([[3.0, 4.0], [0.0, -0.5]])).tolist()
    [[9830, 13107], [0, -8191]]
    """
    whole = np.empty(rows.shape, dtype=np.int64)

    def shorten(part: slice) -> None:
        norms = np.sqrt(np.einsum("ij,ij->i", rows[part], rows[part]))
        if not np.isfinite(norms).all():
            raise ParameterError("a guide must consist of finite numbers whose squares are finite too")
        short = rows[part] * (_SHRINK / np.maximum(norms, 1.0))[:, None]
        short *= GUIDE_STEPS
        whole[part] = np.trunc(short, out=short)

    each_block(len(rows), max(1, _CELLS_PER_BLOCK // rows.shape[1]), shorten)
    return whole


def directions(matrix: CSR, guide: IntegerArray, *, value: float, prior: float, secrets: Secrets) -> Float64Array:
    """Return one vector of norm below 1 per column of ``matrix``: its raters' guide rows, added up and normalised.

    The sums are exact whole numbers, so a direction is a function of them alone, whatever order they were added in.

    Args:
        matrix: users x items in whole units of ``value``, int64.
        guide: one row per user, from :func:`whole_guide`.
        value: what one unit counts.
        prior: added under the root, in squared ratings: columns with few raters get short vectors.
        secrets: where what is computed here is kept for erasing.
    """
    if not prior >= 0:  # the theorem needs it, whoever calls
        raise ParameterError(f"the prior under the root must be zero or more, got {prior!r}")
    sums = secrets.keep(matrix.T @ guide)
    # In doubles: squares of finely divided ratings could overflow whole numbers.
    squares = secrets.keep(np.asarray(matrix.astype(np.float64).power(2).sum(axis=0)))
    vectors = secrets.keep(sums * (value / GUIDE_STEPS))
    below = secrets.keep(np.einsum("ij,ij->i", vectors, vectors) + squares * value**2 + prior)
    # An item that nobody rated has 0 under the root, where there is no prior: its vector stays 0.
    np.divide(vectors, np.sqrt(np.where(below > 0, below, 1.0))[:, None], out=vectors)
    return vectors


def noisy_sums(
    matrix: CSR,
    vectors: Float64Array,
    *,
    step: Step,
    grid: Grid,
    value: float,
    noise: DiscreteGaussian | None,
    secrets: Secrets,
    progress: Progress = silent,
) -> Float64Array:
    """Return ``matrix · vectors`` on the grid plus noise, one row per row of ``matrix``.

    Products are exact whole numbers of 2^-bits grid steps; the sum is rounded down to a grid step, and
    :meth:`Step.rounding` counts what that can add to the sensitivity. The noise of cell (r, j) is the draw at position
    r·numbers + j.
    """
    bits = step.fine_bits(grid)
    scale = value / grid.step * _SHRINK * 2.0**bits
    whole = secrets.keep(np.floor(vectors * scale).astype(np.int64))
    n_rows, numbers = matrix.shape[0], whole.shape[1]
    out = np.empty((n_rows, numbers))

    def fill(part: slice, sums: IntegerArray) -> None:
        sums >>= bits
        if noise is not None:
            sums += noise.draw(part.start * numbers, sums.size).reshape(sums.shape)
        np.multiply(sums, grid.step, out=out[part])

    if matrix.format == "csr":

        def block(part: slice) -> None:
            fill(part, matrix[part] @ whole)

        each_block(n_rows, max(1, _CELLS_PER_BLOCK // numbers), block, what=step.name, progress=progress)
    else:  # by columns: one pass over the ratings, then the noise in blocks
        sums = secrets.keep(matrix @ whole)
        each_block(n_rows, max(1, _CELLS_PER_BLOCK // numbers), lambda part: fill(part, sums[part]), what=step.name)
    return out
