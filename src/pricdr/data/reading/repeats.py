"""Merge repeated (user, item) pairs: one row counts, and which one depends on the rows of that pair alone."""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Keys: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


class Repeats(NamedTuple):
    """How rows that repeat a pair were merged."""

    rows: int
    """Rows beyond the first of each pair."""
    by_time: bool
    """Whether there was a time column, so that the latest row of a pair counts."""
    untimed: int
    """Rows of repeated pairs whose time cannot be read: they count as the earliest."""


def deduplicate(keys: Keys, values: Floats | None, seconds: Floats | None) -> tuple[BoolArray, int]:
    """Return a mask that keeps one row of every key, and how many rows of repeated keys have no time.

    The latest row counts where there are times (minus infinity where one cannot be read), and among equal times the
    largest value. One person's row must not affect other pairs: the guarantee of a release relies on one row changing
    one entry of the matrix.

    Args:
        keys: A number for each row; rows of one (user, item) pair have the same.
        values: The ratings; without them all rows of a pair are the same.
        seconds: The times, if there is a time column.

    >>> values, times = np.array([5.0, 2.0, 4.0]), np.array([10.0, 30.0, 20.0])
    >>> deduplicate(np.zeros(3, dtype=np.int64), values, times)[0].tolist()
    [False, True, False]
    >>> deduplicate(np.zeros(3, dtype=np.int64), values, None)[0].tolist()
    [True, False, False]
    """
    keep = np.ones(len(keys), dtype=bool)
    # A sort is the cheapest way to see that nothing repeats, as in most files.
    ordered = np.sort(keys)
    is_repeat = ordered[1:] == ordered[:-1]
    if not is_repeat.any():
        return keep, 0
    by_key = np.argsort(keys)  # several times faster than np.isin, which would sort too
    at = np.sort(by_key[np.append(is_repeat, False) | np.append(False, is_repeat)])
    times = np.zeros(len(at)) if seconds is None else seconds[at]
    tied = np.zeros(len(at)) if values is None else values[at]
    order = np.lexsort((tied, times, keys[at]))
    sorted_keys = keys[at][order]
    last = np.append(sorted_keys[1:] != sorted_keys[:-1], True)
    keep[at[order[~last]]] = False
    return keep, int(np.isneginf(times).sum())
