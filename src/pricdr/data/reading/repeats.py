"""Repeated (user, item) pairs: one of their rows counts, and which one depends on the rows of that pair alone."""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.data.reading.times import to_seconds

Codes: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]


class Repeats(NamedTuple):
    """What became of the rows that repeat a pair."""

    rows: int
    """Rows beyond the first of each pair."""
    by_time: bool
    """Whether there was a time column, so that the latest row of a pair counts."""
    untimed: int
    """Rows of repeated pairs whose time cannot be read: they count as the earliest."""


class Merged(NamedTuple):
    """Distinct pairs, and the value that counts for each."""

    rows: Codes
    columns: Codes
    values: Floats | None
    kept: npt.NDArray[np.bool_]
    """Which of the given rows these are."""
    repeats: Repeats


def merge(rows: Codes, columns: Codes, values: Floats | None, times: pl.Series | None, n_items: int) -> Merged:
    """Keep one row of every repeated pair: the latest where there are times, and of those the largest value.

    A row whose time cannot be read counts as the earliest of its pair. It must not decide for other pairs: what one
    person's row changes is one entry of the matrix, which the promise of a release rests on.

    >>> codes = np.zeros(3, dtype=np.int32)
    >>> merge(codes, codes, np.array([5.0, 2.0, 4.0]), pl.Series([10, 30, 20]), n_items=1).values.tolist()
    [2.0]
    >>> merge(codes, codes, np.array([5.0, 2.0, 4.0]), None, n_items=1).values.tolist()
    [5.0]
    """
    by_time = times is not None
    keys = rows.astype(np.int64) * n_items + columns
    # A sort is the cheapest way to learn that nothing repeats, as in most files.
    ordered = np.sort(keys)
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return Merged(rows, columns, values, ~np.zeros(len(keys), dtype=bool), Repeats(0, by_time, 0))
    at = np.flatnonzero(np.isin(keys, ordered[1:][again]))
    seconds = np.zeros(len(at)) if times is None else to_seconds(times.gather(at)).fill_null(-np.inf).to_numpy()
    tied = np.zeros(len(at)) if values is None else values[at]
    order = np.lexsort((tied, seconds, keys[at]))
    sorted_keys = keys[at][order]
    last = np.append(sorted_keys[1:] != sorted_keys[:-1], True)
    keep = np.ones(len(keys), dtype=bool)
    keep[at[order[~last]]] = False
    repeats = Repeats(int((~keep).sum()), by_time, int(np.isneginf(seconds).sum()))
    return Merged(rows[keep], columns[keep], None if values is None else values[keep], keep, repeats)
