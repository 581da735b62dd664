"""The best items of each user without sorting all items, from one block of scores or from several in turn."""

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Float32Array: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]

_GROUP: Final = 32
"""Items in a group: the best scores of all groups give a lower bound on the k-th best score."""
_RUN: Final = 256
"""Neighbouring items that are compared together in a later block: most runs contain no new candidate."""
_MOST_CANDIDATES: Final = 8
"""Average number of candidates per row up to which a later block is not searched row by row."""


def top_items(scores: Float32Array, k: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the positions of the ``k`` best scores of each row, best first, ties by position.

    >>> [row.tolist() for row in top_items(np.array([[1, 3, 3, 2], [0, 0, 0, 5]], dtype=np.float32), 2)]
    [[1, 2], [3, 0]]
    """
    for row, least in zip(scores, _lower_bounds(scores, k), strict=True):
        candidates = np.flatnonzero(row >= least)
        yield candidates[np.lexsort((candidates, -row[candidates]))[:k]]


class BestItems:
    """The ``k`` best items of each row so far, while blocks of items are scored from left to right.

    The result is what :func:`top_items` finds in all blocks together, whatever their sizes. A score of −∞ marks an
    excluded item: a row with fewer than ``k`` other items ends in −∞.
    """

    def __init__(self, rows: int, k: int) -> None:
        self.items: IntArray = np.full((rows, k), -1, dtype=np.int64)
        self.scores: Float32Array = np.full((rows, k), -np.inf, dtype=np.float32)

    def add(self, scores: Float32Array, start: int) -> None:
        """Add the scores of another block of items, the first of which is at position ``start``."""
        rows, columns = self._candidates(scores)
        if len(rows):
            self._merge(rows, columns + start, scores[rows, columns])

    def _candidates(self, scores: Float32Array) -> tuple[IntArray, IntArray]:
        """Return the rows and columns of the scores that may be among the best."""
        # An equal score does not displace an earlier item: ties are broken by position.
        least = self.scores[:, -1]
        whole = scores.shape[1] // _RUN * _RUN
        runs = scores[:, :whole].reshape(len(scores), -1, _RUN)
        most = _MOST_CANDIDATES * len(scores)
        rows, run = np.nonzero(runs.max(axis=2, initial=-np.inf) > least[:, None])
        if len(rows) <= most:
            at, within = np.nonzero(runs[rows, run] > least[rows][:, None])
            last_rows, last_columns = np.nonzero(scores[:, whole:] > least[:, None])
            if len(at) + len(last_rows) <= most:
                columns = run[at] * _RUN + within
                return np.concatenate([rows[at], last_rows]), np.concatenate([columns, whole + last_columns])
        best = list(top_items(scores, self.items.shape[1]))
        rows = np.repeat(np.arange(len(best)), [len(row) for row in best])
        columns = np.concatenate(best)
        better = scores[rows, columns] > least[rows]
        return rows[better], columns[better]

    def _merge(self, rows: IntArray, items: IntArray, scores: Float32Array) -> None:
        k = self.items.shape[1]
        changed, row_of = np.unique(rows, return_inverse=True)
        all_rows = np.concatenate([np.repeat(np.arange(len(changed)), k), row_of])
        all_items = np.concatenate([self.items[changed].ravel(), items])
        all_scores = np.concatenate([self.scores[changed].ravel(), scores])
        order = np.lexsort((all_items, -all_scores, all_rows))
        starts = np.cumsum(k + np.bincount(row_of)) - (k + np.bincount(row_of))
        kept = order[starts[:, None] + np.arange(k)]
        self.items[changed], self.scores[changed] = all_items[kept], all_scores[kept]


def _lower_bounds(scores: Float32Array, k: int) -> Float32Array:
    """Return for each row a score that at least ``k`` items reach, and few others: the k-th best group maximum."""
    rows, items = scores.shape
    groups = items // _GROUP
    if groups < k:
        return np.full(rows, -np.inf, dtype=np.float32)
    # A group takes every groups-th item, not neighbours: numpy can then compare whole rows.
    best = scores[:, : groups * _GROUP].reshape(rows, _GROUP, groups).max(axis=1)
    return np.partition(best, groups - k, axis=1)[:, groups - k]
