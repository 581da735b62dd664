"""EASE on the leading directions of the ratings, for where users and columns are both too many to invert a matrix.

Let V hold the leading right singular vectors of X = [target | weight · source] and s their singular values. With X's
Gram matrix replaced by its best approximation in these directions, and shrink = s² / (s² + λ),

    P = (V diag(s²) Vᵀ + λI)⁻¹ = (I − V diag(shrink) Vᵀ) / λ,

so EASE's score of an item j that the user has not rated (see ``closed_form``) is

    −(X P)_uj / P_jj = (X V diag(shrink) Vᵀ)_uj / (1 − Σ_r shrink_r V_jr²).

With all directions this is EASE itself. A direction counts by its shrink, which is small where s² is far below λ: what
is left out is what EASE would have shrunk away. Time and memory grow with the ratings times the rank.
"""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import CSR
from pricdr.memory import require_memory
from pricdr.randomness import Simulation

Array: TypeAlias = npt.NDArray[np.float32]
Matrix: TypeAlias = Any
"""Sparse (the target, a plaintext source) or dense (a release): both multiply and slice alike."""

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
