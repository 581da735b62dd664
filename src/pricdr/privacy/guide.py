"""Makes a guide of noisy rows: whitened, clipped, in whole steps. It only post-processes what was released already.

The guarantee of the party that uses a guide must not depend on it. So whatever arrives here, every row that leaves has
norm at most 1; what cannot be a guide is refused.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids
from pricdr.errors import InputError
from pricdr.privacy.sums import Float64Array, IntegerArray, whole_guide

BoolArray: TypeAlias = npt.NDArray[np.bool_]

MOST_COLUMNS: Final = 4096
_LARGEST: Final = 1e100
"""Numbers beyond this would overflow in a sum of squares."""
_FLOOR: Final = 1e-3
"""The least share of a direction's variance that is taken for signal."""
_TINY: Final = 1e-6
"""A share of the largest variance: directions with a smaller one are amplified no further."""


def guide(
    rows: Float64Array, dim: int, *, sigma: float, percentile: float = 50.0, present: BoolArray | None = None
) -> IntegerArray:
    """Return guide rows of ``dim`` columns from noisy rows: centred, whitened, clipped to norm 1, in whole steps.

    Each leading principal direction is scaled to the root of the share of its variance that is not noise. Where there
    are fewer columns than ``dim``, the rest are zeros; rows that say nothing, most of them the same, give zeros alone.

    Args:
        rows: one noisy row per user.
        dim: columns of the guide.
        sigma: standard deviation of the noise in the rows, as far as is known.
        percentile: rows longer than this percentile of their norms are clipped to it.
        present: users who have a row; the others get a row of zeros and count for nothing.
    """
    there = np.ones(len(rows), dtype=bool) if present is None else present
    largest = max(float(rows.max(initial=0.0)), -float(rows.min(initial=0.0)))  # nan where there is one
    if not largest <= _LARGEST or not 0 <= sigma < _LARGEST:
        raise InputError("a guide must hold finite numbers below 1e100")
    if not there.any():
        raise InputError("the guide has no row for any listed user")
    known = rows[there].astype(np.float64, copy=False)  # the selection is a copy already
    known -= known.mean(axis=0)
    values, vectors = np.linalg.eigh(known.T @ known / len(known))
    values, vectors = values[::-1][:dim], vectors[:, ::-1][:, :dim]
    out = np.zeros((len(rows), dim))
    if values[0] > 0:
        white = known @ (vectors * np.sqrt(_signal(values, sigma) / np.maximum(values, _TINY * values[0])))
        scale = float(np.percentile(np.sqrt(np.einsum("ij,ij->i", white, white)), percentile))
        if scale > 0:
            white /= scale
            out[there, : white.shape[1]] = white
    return whole_guide(out)


def _signal(values: Float64Array, sigma: float) -> Float64Array:
    """Return which share of each variance is more than noise; where none is, all count alike."""
    if not values[0] > sigma**2:
        return np.ones_like(values)
    share: Float64Array = np.maximum((values - sigma**2) / np.maximum(values, _TINY * values[0]), _FLOOR)
    return share


def matched(rows: Float64Array, owners: Ids, users: Ids) -> tuple[Float64Array, BoolArray]:
    """Return the rows of ``users``, in their order, and which of them have one; rows of other users are left out."""
    if rows.ndim != 2 or rows.shape[1] > MOST_COLUMNS:  # before anything of their size is made
        raise InputError(f"a guide has a row per user and at most {MOST_COLUMNS:,} columns, got shape {rows.shape}")
    position_of = {user: position for position, user in enumerate(owners)}
    if len(position_of) != len(owners) or len(owners) != len(rows):
        raise InputError("a guide must have one row per user")
    positions = np.array([position_of.get(user, -1) for user in users], dtype=np.int64)
    present = positions >= 0
    out = np.zeros((len(users), rows.shape[1]))
    out[present] = rows[positions[present]]
    return out, present
