"""EASE in closed form: from the side of the columns or of the users, or on the leading directions of the ratings.

With X = [target | weight · source], P = (XᵀX + λI)⁻¹ and j an item of the target, EASE (Steck, WWW 2019) scores

    X B = X − X P / diag(P),    so    score(u, j) = X_uj − (X P)_uj / P_jj.

Primal: P is inverted, columns x columns. Dual, where there are fewer users than columns, with C = (X Xᵀ + λI)⁻¹:

    X P = C X    and    P_jj = (1 − x_jᵀ C x_j) / λ.

Vectors hold the second part only. The first, a user's own row, adds 1 to what the user has already rated, and that is
neither recommended nor ranked: it is the one part the dual has no room for. Memory is one square float64 matrix of the
smaller side and a float32 copy; products are made in blocks.

Low rank, where both sides are too many to invert a matrix: let V hold the leading right singular vectors of X and s
their singular values. With X's Gram matrix replaced by its best approximation in these directions, and
shrink = s² / (s² + λ),

    P = (V diag(s²) Vᵀ + λI)⁻¹ = (I − V diag(shrink) Vᵀ) / λ,

so EASE's score of an item j that the user has not rated is

    −(X P)_uj / P_jj = (X V diag(shrink) Vᵀ)_uj / (1 − Σ_r shrink_r V_jr²).

With all directions this is EASE itself. A direction counts by its shrink, which is small where s² is far below λ: what
is left out is what EASE would have shrunk away. Time and memory grow with the ratings times the rank.
"""

from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from pricdr.data.csr import CSR
from pricdr.errors import ParameterError
from pricdr.memory import require_memory
from pricdr.models.fitted import FittedModel, Float32Array, Vectors
from pricdr.models.training_data import TrainingData
from pricdr.randomness import Simulation

Square: TypeAlias = npt.NDArray[np.float64]
"""In Fortran order, so that a block of columns is one piece of memory."""
Matrix: TypeAlias = Any
"""Sparse (the target, a plaintext source) or dense (a release): both multiply and slice alike."""

BLOCK: Final = 1024
"""Rows or columns per block: a block of the square matrix fits the processor's caches."""
LARGEST_INVERTED: Final = 20_000
"""Rows of the largest matrix that is inverted: 3.2 GB, and some minutes on two cores. Above it EASE is of low rank."""
RANK: Final = 1000
"""Directions of EASE of low rank: on Amazon Music its NDCG@10 was that of EASE itself to three digits."""
SMALLEST_REGULARISATION: Final = 1e-9
"""The least λ, relative to the most rated column or the longest row: below it rounding errors decide the result."""


class Side(Enum):
    """From which side to solve; the first two give the same scores, the third nearly so."""

    COLUMNS = "primal"
    USERS = "dual"
    LOW_RANK = "leading directions"


def solve_ease(
    method: str,
    data: TrainingData,
    *,
    regularisation: float,
    weight: float = 1.0,
    side: Side | None = None,
    block: int = BLOCK,
) -> FittedModel:
    """Return EASE on [target | weight · source], scoring the target's items; every rating counts as 1.

    A user with a row of the source is scored by it too, history or not; a user without any data gets what is popular.
    """
    n_users, n_items = data.ratings.shape
    columns = n_items + (0 if data.source is None else data.source.shape[1])
    side = side or _cheapest(n_users, columns)
    _require_memory(side, n_users, n_items, columns, data.source)
    target = ones(data.ratings)
    source = _weighted(data.source, weight)
    user_vectors, item_vectors = (
        low_rank(target, source, regularisation, RANK)
        if side is Side.LOW_RANK
        else (_dual if side is Side.USERS else _primal)(target, source, regularisation, block)
    )
    bias = popularity_tie_break(data.ratings, 1e-4 / (1 + regularisation))
    return data.model(method, user_vectors, item_vectors, bias)


def _cheapest(n_users: int, columns: int) -> Side:
    """Return the smaller side, since both cost its cube; neither where that would take hours and tens of gigabytes."""
    if min(n_users, columns) > LARGEST_INVERTED:
        return Side.LOW_RANK
    return Side.USERS if n_users < columns else Side.COLUMNS


def ones(ratings: CSR) -> CSR:
    """Return the same entries, each a 1."""
    return sp.csr_array((np.ones(ratings.nnz), ratings.indices, ratings.indptr), shape=ratings.shape)


def item_counts(ratings: CSR) -> npt.NDArray[np.int64]:
    """Return how often each item was rated."""
    return np.bincount(ratings.indices, minlength=ratings.shape[1])


def popularity_tie_break(ratings: CSR, most: float) -> Float32Array:
    """Return a bias that orders items by popularity where nothing else does: ``most`` for the most rated one."""
    counts = item_counts(ratings)
    return (most * counts / max(int(counts.max(initial=0)), 1)).astype(np.float32)


def _require_memory(side: Side, n_users: int, n_items: int, columns: int, source: Matrix | None) -> None:
    """Refuse what is too large before any of it is there: square matrix, vectors, and copies of a dense source."""
    if side is Side.LOW_RANK:
        require_low_rank_memory(n_users, columns, RANK)
        return
    square, vectors = (n_users, n_users) if side is Side.USERS else (columns, n_items)
    copies = 0 if source is None or isinstance(source, sp.csr_array) else 32 * n_users * (columns - n_items)
    need = 8 * square * square + 4 * square * vectors + copies
    require_memory(need, f"EASE on {n_users:,} users and {columns:,} columns")


def _weighted(source: Matrix | None, weight: float) -> Matrix | None:
    if source is None:
        return None
    return weight * (ones(source) if isinstance(source, sp.csr_array) else source.astype(np.float64))


def _primal(target: CSR, source: Matrix | None, regularisation: float, block: int) -> tuple[Vectors, Vectors]:
    """Return user vectors X (sparse) and item vectors −P_·j / P_jj."""
    n_items = target.shape[1]
    parts = [target] if source is None else [target, sp.csr_array(source)]
    rows = sp.hstack(parts, format="csr", dtype=np.float32)
    gram = np.zeros((rows.shape[1], rows.shape[1]), order="F")
    items = target.T.tocsr()
    _add_product(gram[:n_items, :n_items], items, items, block)
    if source is not None:
        others = source.T.tocsr() if isinstance(source, sp.csr_array) else source.T
        _add_product(gram[n_items:, :n_items], others, items, block)
        _add_product(gram[n_items:, n_items:], others, others, block)
    inverse = invert(gram, regularisation, block)
    scale = -1 / np.diagonal(inverse)[:n_items]
    # Kept by columns: that is how a sparse row times these vectors reads them.
    weights = np.empty((len(inverse), n_items), dtype=np.float32)
    for part in _blocks(len(inverse), block):
        weights[part] = inverse[:n_items, part].T * scale
    return rows, weights.T


def _dual(target: CSR, source: Matrix | None, regularisation: float, block: int) -> tuple[Vectors, Vectors]:
    """Return user vectors C and item vectors −x_j / P_jj (sparse), both over the users with a history."""
    n_users = target.shape[0]
    gram = np.zeros((n_users, n_users), order="F")
    _add_product(gram, target, target, block)
    if source is not None:
        _add_product(gram, source, source, block)
    inverse = invert(gram, regularisation, block).T  # symmetric: the same, with contiguous rows
    warm = np.flatnonzero(np.diff(target.indptr))
    items = target.T.tocsr()
    explained = np.concatenate(
        [items[part].multiply(items[part] @ inverse).sum(axis=1) for part in _blocks(items.shape[0], block)]
    )
    diagonal = (1 - explained) / regularisation
    items = items[:, warm]
    items.data /= -np.repeat(diagonal, np.diff(items.indptr))
    users = np.empty((n_users, len(warm)), dtype=np.float32)
    for part in _blocks(n_users, block):
        users[part] = inverse[part, warm]
    return users, items.astype(np.float32)


def _add_product(out: Square, left: Matrix, right: Matrix, block: int) -> None:
    """Add ``left · rightᵀ`` to ``out``, a block of columns at a time: no sparse product is ever held whole."""
    for part in _blocks(right.shape[0], block):
        product = left @ right[part].T
        out[:, part] += product if isinstance(product, np.ndarray) else product.toarray()


def invert(gram: Square, regularisation: float, block: int = BLOCK) -> Square:
    """Return (gram + λI)⁻¹ from the lower triangle, in gram's own memory."""
    diagonal = np.einsum("ii->i", gram)
    enough = regularisation >= SMALLEST_REGULARISATION * diagonal.max(initial=0.0)
    diagonal += regularisation
    blocks = _blocks(len(gram), block)
    if not enough or not _factor(gram, blocks):
        raise ParameterError(f"regularisation {regularisation!r} is too small for these ratings: use a larger one")
    _invert(gram, blocks)
    for rows in blocks:  # (L⁻¹)ᵀ L⁻¹, a row of blocks at a time: what is below is still L⁻¹
        gram[rows, : rows.stop] = gram[rows.start :, rows].T @ gram[rows.start :, : rows.stop]
    for rows in blocks:
        gram[rows, rows.stop :] = gram[rows.stop :, rows].T
    return gram


def _factor(lower: Square, blocks: list[slice]) -> bool:
    """Replace the lower triangle by the L of L Lᵀ; return false where rounding left none.

    LAPACK alone would do, but the one that comes with scipy (OpenBLAS 0.3.30) crashes on large matrices with several
    threads: n = 16,000 with two. Here it never sees more than a block, and the work is in matrix products all the same.
    torch.cholesky_inverse does not crash, but took 1.9 times as long at n = 6,000 and twice the memory.
    """
    for at, block in enumerate(blocks):
        corner, failed = dpotrf(lower[block, block], lower=1)
        if failed:
            return False
        lower[block, block] = corner
        lower[block.stop :, block] = solve_triangular(corner, lower[block.stop :, block].T, lower=True).T
        for part in blocks[at + 1 :]:
            lower[part.start :, part] -= lower[part.start :, block] @ lower[part, block].T
    return True


def _invert(lower: Square, blocks: list[slice]) -> None:
    """Replace L by L⁻¹: block columns from the right, and in each from the bottom, so nothing is read too late."""
    for at, block in reversed(list(enumerate(blocks))):
        corner = solve_triangular(lower[block, block], np.eye(block.stop - block.start), lower=True)
        for row in reversed(blocks[at + 1 :]):
            between = slice(block.stop, row.stop)
            lower[row, block] = -(lower[row, between] @ lower[between, block]) @ corner
        lower[block, block] = corner


def _blocks(total: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


Array: TypeAlias = npt.NDArray[np.float32]

_ROUNDS: Final = 4
"""Multiplications by X and back: after so many the leading directions stand still to three digits."""
_MORE: Final = 1.1
"""Directions carried along, relative to those wanted: the last ones converge slowly."""


def require_low_rank_memory(n_users: int, columns: int, rank: int) -> None:
    """Refuse what is too large before any of it is there: the directions on both sides, and copies while they turn."""
    carried = _carried(n_users, columns, rank)
    require_memory(
        4 * carried * (3 * columns + 3 * n_users),
        f"EASE of rank {rank:,} on {n_users:,} users and {columns:,} columns",
    )


def low_rank(target: CSR, source: Matrix | None, regularisation: float, rank: int) -> tuple[Array, Array]:
    """Return the vectors of users and of the target's items."""
    rows = target.astype(np.float32)
    other = None if source is None else source.astype(np.float32)
    directions, squares = _leading_directions(rows, other, rank)
    shrink = (squares / (squares + regularisation)).astype(np.float32)
    items = directions[: target.shape[1]]
    diagonal = 1 - (items**2 @ shrink)
    return _times(rows, other, directions) * shrink, items / diagonal[:, None]


def _leading_directions(rows: CSR, other: Matrix | None, rank: int) -> tuple[Array, npt.NDArray[np.float64]]:
    """Return the leading right singular vectors, one a column, and the squares of their singular values.

    By powers of the matrix on random directions (Halko, Martinsson and Tropp, SIAM Review 2011), always the same ones.
    """
    columns = rows.shape[1] + (0 if other is None else other.shape[1])
    carried = _carried(rows.shape[0], columns, rank)
    directions = Simulation(0).generator("EASE directions").standard_normal((columns, carried), dtype=np.float32)
    for _ in range(_ROUNDS):
        # Made orthogonal on both sides: else all of them turn into the first one.
        turned = np.linalg.qr(_times(rows, other, directions))[0]
        back = [rows.T @ turned] if other is None else [rows.T @ turned, other.T @ turned]
        directions = np.linalg.qr(np.concatenate(back))[0]
    image = _times(rows, other, directions)
    squares, turn = np.linalg.eigh((image.T @ image).astype(np.float64))
    leading = slice(None, -rank - 1, -1)
    return directions @ turn[:, leading].astype(np.float32), np.maximum(squares[leading], 0.0)


def _times(rows: CSR, other: Matrix | None, directions: Array) -> Array:
    """Return X times the directions."""
    n_items = rows.shape[1]
    product: Array = rows @ directions[:n_items]
    if other is not None:
        product += other @ directions[n_items:]
    return product


def _carried(n_users: int, columns: int, rank: int) -> int:
    return min(int(_MORE * rank) + 1, n_users, columns)
