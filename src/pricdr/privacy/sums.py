"""Sums of learnt vectors under a sensitivity of exactly b: the theorem behind ``spectral`` and ``guided``.

For a matrix with non-negative entries a_vi and a guide U with rows of norm at most 1 that does not depend on it,

    Q_i = Σ_v a_vi U_v      direction_i = Q_i / √(‖Q_i‖² + Σ_v a_vi² + prior)      Y_v = Σ_i a_vi direction_i

moves by at most |change| (Frobenius norm, over all rows) when one entry changes: as much as with fixed unit rows. The
proof is in ``docs/mathematics.md``, section 8. Q and the directions are secrets: with them the release would tell more
than was paid for.
"""

from typing import Final

import numpy as np

from pricdr.arrays import Float64Array, IntegerArray
from pricdr.data.blocks import Matrix, Whole, as_matrix
from pricdr.data.csr import CSR, exact_product, exact_row_sums, with_values
from pricdr.errors import ParameterError
from pricdr.parallel import each_block
from pricdr.privacy.mechanism import CELLS_PER_BLOCK, SHRINK, Run, Secrets

GUIDE_STEPS: Final = 1 << 14  # a guide's numbers are whole multiples of 1/2^14, so that sums of its rows are exact
_SPLIT_BITS: Final = 31  # where squares are cut in two; 2^27 users leave room for the sums of either part


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
        short = rows[part] * (SHRINK / np.maximum(norms, 1.0))[:, None]
        short *= GUIDE_STEPS
        whole[part] = np.trunc(short, out=short)

    each_block(len(rows), max(1, CELLS_PER_BLOCK // rows.shape[1]), shorten)
    return whole


def directions(
    matrix: Matrix | CSR, guide: IntegerArray, *, value: float, prior: float, secrets: Secrets
) -> Float64Array:
    """Return one vector of norm below 1 per column of ``matrix``: its raters' guide rows, added up and normalised.

    ``matrix`` is in units of ``value``; ``guide`` is from :func:`whole_guide`; ``prior`` is in squared ratings.
    """
    if not prior >= 0:  # the theorem needs it, whoever calls
        raise ParameterError(f"the prior under the root must be zero or more, got {prior!r}")
    matrix, width = as_matrix(matrix), guide.shape[1]

    def sums_and_squares(block: CSR, start: int) -> Whole:
        # Squares are in two columns, upper · 2^31 + lower: those of finely divided ratings need up to 62 bits each, and
        # whole numbers hold sums of either part, not of both. Added up as doubles they would depend on the order.
        squares = block.data.astype(np.int64) ** 2
        parts = squares >> _SPLIT_BITS, squares & ((1 << _SPLIT_BITS) - 1)
        upper_lower = (exact_row_sums(with_values(block, part).T) for part in parts)
        return np.column_stack([exact_product(block.T, guide[start : start + block.shape[0]]), *upper_lower])

    sums = secrets.keep(matrix.total(sums_and_squares))
    squares = secrets.keep(sums[:, width] * 2.0**_SPLIT_BITS + sums[:, width + 1])
    vectors = secrets.keep(sums[:, :width] * (value / GUIDE_STEPS))
    below = secrets.keep(np.einsum("ij,ij->i", vectors, vectors) + squares * value**2 + prior)
    # An item that nobody rated has 0 under the root, where there is no prior: its vector stays 0.
    np.divide(vectors, np.sqrt(np.where(below > 0, below, 1.0))[:, None], out=vectors)
    return vectors


def noisy_sums(
    matrix: Matrix | CSR, vectors: Float64Array, run: Run, name: str, *, value: float, secrets: Secrets
) -> Float64Array:
    """Run the step of this name: return ``matrix · vectors`` on its grid plus its noise, a row per row of ``matrix``.

    Products are exact whole numbers of 2^-bits grid steps; the sum is rounded down to a grid step, for which
    :meth:`Step.rounding` accounts. The noise of cell (r, j) is the draw at position r·numbers + j.
    """
    grid = run.step(name).grid
    bits = run.step(name).step.fine_bits(grid)
    scale = value / grid.step * SHRINK * 2.0**bits
    whole = secrets.keep(np.floor(vectors * scale).astype(np.int64))
    matrix, numbers = as_matrix(matrix), whole.shape[1]
    out = np.empty((matrix.shape[0], numbers))
    step, noise = grid.step, run.noise(name)

    def work(block: CSR, start: int) -> Float64Array:
        sums = exact_product(block, whole)
        sums >>= bits
        if noise is not None:
            sums += noise.draw(start * sums.shape[1], sums.size).reshape(sums.shape)
        noisy: Float64Array = np.multiply(sums, step)
        return noisy

    matrix.rows(work, out, block_rows=max(1, CELLS_PER_BLOCK // numbers), what=name, progress=run.progress)
    return out


def user_totals(matrix: Matrix) -> Whole:
    """Return how many units each user's ratings have in all."""
    totals = np.empty((matrix.shape[0], 1), dtype=np.int64)
    matrix.rows(lambda block, start: exact_row_sums(block).reshape(-1, 1), totals, block_rows=CELLS_PER_BLOCK)
    return totals
