"""The best items of each user, without sorting all the others."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

_WIDTH: Final = 32
"""Items in a group: the best of each group say how good one of the best items is at least."""


def top_items(scores: npt.NDArray[np.float32], k: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the positions of the ``k`` best scores of each row, best first, ties by position.

    >>> [row.tolist() for row in top_items(np.array([[1, 3, 3, 2], [0, 0, 0, 5]], dtype=np.float32), 2)]
    [[1, 2], [3, 0]]
    """
    for row, least in zip(scores, _at_least(scores, k), strict=True):
        candidates = np.flatnonzero(row >= least)
        yield candidates[np.lexsort((candidates, -row[candidates]))[:k]]


def _at_least(scores: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.float32]:
    """Return for each row a score that ``k`` items reach, and few others: the k-th best of the groups' best."""
    rows, items = scores.shape
    groups = items // _WIDTH
    if groups < k:
        return np.full(rows, -np.inf, dtype=np.float32)
    # Every groups-th item, not neighbours: numpy compares whole rows at a time then.
    best = scores[:, : groups * _WIDTH].reshape(rows, _WIDTH, groups).max(axis=1)
    return np.partition(best, groups - k, axis=1)[:, groups - k]
