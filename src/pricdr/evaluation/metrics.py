"""HR, NDCG, MRR, Recall and MAP of a user's held-out items, from their ranks.

The rank of a held-out item counts the better candidates plus half of the ties, so that a model which scores everything
alike gets what guessing would: 49.5 among 99 negatives, not 0 and not 99. Several held-out items of a user are ranked
among the other candidates alone; the place of each in the list is its rank plus the held-out items before it.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float64Array, IntArray
from pricdr.errors import ParameterError, require_count

Metrics: TypeAlias = dict[str, Float64Array]  # metric → one value per user

CUTOFFS: Final = (5, 10)
MEASURES: Final = ("HR", "NDCG", "MRR", "Recall", "MAP")
OF_ONE_ITEM: Final = ("HR", "NDCG", "MRR")  # where one item is held out per user, Recall is HR and MAP is MRR
NAMES: Final = tuple(f"{measure}@{k}" for k in CUTOFFS for measure in OF_ONE_ITEM)

MAX_CUTOFF: Final = 1_000_000


def rank_of(positive: npt.NDArray[np.floating], others: npt.NDArray[np.floating]) -> Float64Array:
    """Return the rank, from 0, of each positive among its row of other candidates; −inf does not compete.

    >>> rank_of(np.array([2.0]), np.array([[3.0, 2.0, 1.0, -np.inf]])).tolist()
    [1.5]
    """
    column = positive[:, None]
    better, tied = (np.count_nonzero(found, axis=1) for found in (others > column, others == column))
    return np.asarray(better + 0.5 * tied, dtype=np.float64)


def per_user(ranks: Float64Array) -> Metrics:
    """Return HR, NDCG and MRR at 5 and 10 where each rank is that of a user's only held-out item.

    With one relevant item HR >= NDCG >= MRR always.

    >>> {name: round(float(values[0]), 4) for name, values in per_user(np.array([2.0])).items()}
    {'HR@5': 1.0, 'NDCG@5': 0.5, 'MRR@5': 0.3333, 'HR@10': 1.0, 'NDCG@10': 0.5, 'MRR@10': 0.3333}
    """
    metrics = of_lists(ranks, np.arange(len(ranks)))
    return {name: metrics[name] for name in NAMES}


def of_lists(ranks: Float64Array, starts: IntArray, cutoffs: Sequence[int] = CUTOFFS) -> Metrics:
    """Return every metric of each user's list, in which all of the user's held-out items are relevant.

    HR@k is 1 where the first k places hold any of them. Recall@k is the share of them in the first k places. NDCG@k
    adds up 1 / log2(place + 1) over those in the first k places, places counted from 1, and divides by the most that so
    many could get. MRR@k is 1 / place of the first of them. MAP@k adds up, over those in the first k places, the share
    of relevant items up to that place, and divides by how many are relevant, k or not.

    The ``ranks`` are among candidates that are not held out; a user's rows are adjacent, and begin at ``starts``.

    >>> of_lists(np.array([3.0, 0.0]), np.array([0]), [5])["Recall@5"].tolist()
    [1.0]
    """
    counts = np.diff(starts, append=len(ranks))
    before = np.arange(len(ranks)) - np.repeat(starts, counts)
    if len(starts) < len(ranks):
        ranks = ranks[np.lexsort((ranks, np.repeat(np.arange(len(starts)), counts)))]
    places = ranks + before
    ideal = np.cumsum(1 / np.log2(np.arange(max(cutoffs)) + 2))
    metrics: Metrics = {}
    for k in cutoffs:
        # A tie across the cutoff has a rank between two places: it is a hit where its mean place is one.
        hit = (places < k).astype(np.float64)
        metrics[f"HR@{k}"] = hit[starts]
        metrics[f"NDCG@{k}"] = _summed(hit / np.log2(places + 2), starts) / ideal[np.minimum(counts, k) - 1]
        metrics[f"MRR@{k}"] = hit[starts] / (places[starts] + 1)
        metrics[f"Recall@{k}"] = _summed(hit, starts) / counts
        metrics[f"MAP@{k}"] = _summed(hit * (before + 1) / (places + 1), starts) / counts
    return metrics


def averaged(ranks: Float64Array, starts: IntArray, cutoffs: Sequence[int] = CUTOFFS) -> Metrics:
    """Return every metric of each user where each held-out item has a list of its own: the mean over the user's lists.

    >>> averaged(np.array([0.0, 1.0, 2.0]), np.array([0, 2]), [5])["MRR@5"].tolist()
    [0.75, 0.3333333333333333]
    """
    counts = np.diff(starts, append=len(ranks))
    lists = of_lists(ranks, np.arange(len(ranks)), cutoffs)
    return {name: _summed(values, starts) / counts for name, values in lists.items()}


def require_cutoffs(cutoffs: Sequence[int]) -> tuple[int, ...]:
    """Return the cutoffs in ascending order; refuse none at all, the same one twice, and what is no length of a list.

    >>> require_cutoffs([20, 5])
    (5, 20)
    """
    if not cutoffs:
        raise ParameterError("there must be at least one k to measure at")
    for k in cutoffs:
        require_count(k=k)
        if k > MAX_CUTOFF:
            raise ParameterError(f"k must be at most {MAX_CUTOFF:,}, got {k:,}")
    if len(set(cutoffs)) < len(cutoffs):
        raise ParameterError(f"each k counts once, got {', '.join(map(str, cutoffs))}")
    return tuple(sorted(cutoffs))


def _summed(values: Float64Array, starts: IntArray) -> Float64Array:
    return np.asarray(np.add.reduceat(values, starts), dtype=np.float64) if len(starts) else np.zeros(0)
