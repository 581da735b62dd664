"""HR, NDCG and MRR of one held-out item, from its rank.

The rank counts the better candidates plus half of the ties, so that a model which scores everything alike gets what
guessing would: 49.5 among 99 negatives, not 0 and not 99.
"""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Float64Array: TypeAlias = npt.NDArray[np.float64]
Metrics: TypeAlias = dict[str, Float64Array]
"""Metric → one value per held-out item."""
FloatArray: TypeAlias = Float64Array
"""The former name, which ``models`` imports."""

CUTOFFS: Final = (5, 10)
NAMES: Final = tuple(f"{name}@{k}" for k in CUTOFFS for name in ("HR", "NDCG", "MRR"))


def rank_of(positive: Float64Array, others: Float64Array) -> Float64Array:
    """Return the rank, from 0, of each positive among its row of other candidates; −inf does not compete.

    >>> rank_of(np.array([2.0]), np.array([[3.0, 2.0, 1.0, -np.inf]])).tolist()
    [1.5]
    """
    column = positive[:, None]
    return np.asarray((others > column).sum(axis=1) + 0.5 * (others == column).sum(axis=1), dtype=np.float64)


def per_user(ranks: Float64Array) -> Metrics:
    """Return every metric for every held-out item; with one relevant item HR >= NDCG >= MRR always.

    >>> {name: round(float(values[0]), 4) for name, values in per_user(np.array([2.0])).items()}
    {'HR@5': 1.0, 'NDCG@5': 0.5, 'MRR@5': 0.3333, 'HR@10': 1.0, 'NDCG@10': 0.5, 'MRR@10': 0.3333}
    """
    metrics: Metrics = {}
    for k in CUTOFFS:
        # A tie across the cutoff has a rank between two places: it is a hit where its mean place is one.
        hit = (ranks < k).astype(np.float64)
        metrics[f"HR@{k}"] = hit
        metrics[f"NDCG@{k}"] = hit / np.log2(ranks + 2)
        metrics[f"MRR@{k}"] = hit / (ranks + 1)
    return metrics
