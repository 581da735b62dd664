"""HR, NDCG and MRR of one held-out item, from its rank.

The rank counts the better candidates plus half of the ties, so that a model which scores everything alike gets what
guessing would: 49.5 among 99 negatives, not 0 and not 99.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
Metrics: TypeAlias = dict[str, FloatArray]

CUTOFFS: Final = (5, 10)
NAMES: Final = tuple(f"{name}@{k}" for k in CUTOFFS for name in ("HR", "NDCG", "MRR"))


def rank_of(positive: FloatArray, others: FloatArray) -> FloatArray:
    """Rank, from 0, of each positive among its row of other candidates; −inf marks one that does not compete.

    >>> rank_of(np.array([2.0]), np.array([[3.0, 2.0, 1.0, -np.inf]])).tolist()
    [1.5]
    """
    column = positive[:, None]
    return np.asarray((others > column).sum(axis=1) + 0.5 * (others == column).sum(axis=1), dtype=np.float64)


def per_user(ranks: FloatArray) -> Metrics:
    """Every metric for every held-out item: with one relevant item HR >= NDCG >= MRR always.

    >>> {name: round(float(values[0]), 4) for name, values in per_user(np.array([2.0])).items()}
    {'HR@5': 1.0, 'NDCG@5': 0.5, 'MRR@5': 0.3333, 'HR@10': 1.0, 'NDCG@10': 0.5, 'MRR@10': 0.3333}
    """
    found: Metrics = {}
    for k in CUTOFFS:
        hit = (ranks < k).astype(np.float64)
        found[f"HR@{k}"] = hit
        found[f"NDCG@{k}"] = hit / np.log2(ranks + 2)
        found[f"MRR@{k}"] = hit / (ranks + 1)
    return found
