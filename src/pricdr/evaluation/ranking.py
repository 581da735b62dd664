"""Ranks of held-out items under a scorer: among their stored negatives, and among all items.

Scores are asked for in blocks of users, so memory is bounded by the block, never by users x items.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float64Array, IntArray
from pricdr.data.csr import RatingMatrix, sp
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.evaluation.metrics import rank_of
from pricdr.progress import Progress, silent

ScoreArray: TypeAlias = npt.NDArray[np.floating]
ScoreAllItems: TypeAlias = Callable[[IntArray], ScoreArray]  # positions of users → finite scores, one row each

ScoreCandidates: TypeAlias = Callable[[IntArray, IntArray], ScoreArray]
"""Positions of users and a row of items for each, to the scores of those items."""

_CELLS_PER_BLOCK: Final = 1 << 23
_USERS_PER_BLOCK: Final = 512


def ranks(
    scorer: ScoreAllItems, held_out: HeldOut, train: RatingMatrix, *, progress: Progress = silent
) -> tuple[Float64Array, Float64Array]:
    """Return every held-out item's rank among the stored negatives and in full, from one pass over the users.

    The full one leaves out what the user rated or has in ``held_out``; items held out elsewhere are like any other.
    """
    n_items = train.shape[1]
    block = max(1, _CELLS_PER_BLOCK // n_items)
    sampled, full = np.empty(len(held_out)), np.empty(len(held_out))
    # Whole, since the rows of a user may lie in two blocks.
    relevant = sp.csr_array((np.ones(len(held_out)), (held_out.users, held_out.items)), shape=train.shape)
    for start in range(0, len(held_out), block):
        part = held_out.only(np.s_[start : start + block])
        users, row = part.evaluated, part.user_of_row
        scores = np.asarray(scorer(users))
        if scores.shape != (len(users), n_items) or not np.isfinite(scores).all():
            raise InputError("a model must give every user a finite score for every item")
        positive = scores[row, part.items]
        sampled[start : start + block] = rank_of(positive, scores[row[:, None], part.negatives])
        everything = rank_of(positive, scores if len(users) == len(row) else scores[row])
        # What does not compete is counted off again: to mark it in the scores would take a copy of them.
        rated = train[users]
        rated.data[:] = 1  # a rating of −1 and a held-out pair must not cancel out
        hidden = (rated + relevant[users])[row]
        of_row = np.repeat(np.arange(len(row)), np.diff(hidden.indptr))
        found = scores[row[of_row], hidden.indices]
        before = (found > positive[of_row]) + 0.5 * (found == positive[of_row])
        full[start : start + block] = everything - np.bincount(of_row, before, minlength=len(row))
        progress("ranking", min(start + block, len(held_out)), len(held_out))
    return sampled, full


def sampled_ranks(
    scorer: ScoreCandidates, held_out: HeldOut, *, at_once: int = _USERS_PER_BLOCK, progress: Progress = silent
) -> Float64Array:
    """Return the ranks of the held-out items among their stored negatives, asking for no other score."""
    sampled = np.empty(len(held_out))
    for start in range(0, len(held_out), at_once):
        part = held_out.only(np.s_[start : start + at_once])
        scores = scorer(part.users, np.column_stack([part.items, part.negatives])).astype(np.float64)
        if not np.isfinite(scores).all():
            raise InputError("a model must give every user a finite score for every item")
        sampled[start : start + at_once] = rank_of(scores[:, 0], scores[:, 1:])
        progress("ranking", min(start + at_once, len(held_out)), len(held_out))
    return sampled
