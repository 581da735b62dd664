"""Merge repeated (user, item) pairs: one row counts, and which one depends on the rows of that pair alone."""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.data.reading.times import to_seconds

Codes: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float64]


class Repeats(NamedTuple):
    """How rows that repeat a pair were merged."""

    rows: int
    """Rows beyond the first of each pair."""
    by_time: bool
    """Whether there was a time column, so that the latest row of a pair counts."""
    untimed: int
    """Rows of repeated pairs whose time cannot be read: they count as the earliest."""


class Merged(NamedTuple):
    """Distinct pairs, each with the value that counts."""

    rows: Codes
    columns: Codes
    values: Floats | None
    kept: npt.NDArray[np.bool_]
    """A mask of the given rows that were kept."""
    repeats: Repeats


def merge(rows: Codes, columns: Codes, values: Floats | None, times: pl.Series | None, n_items: int) -> Merged:
    """Keep one row of every repeated pair: the latest where there are times, and among equal times the largest value.

    A row whose time cannot be read counts as the earliest of its pair. It must not affect other pairs: the guarantee of
    a release relies on one person's row changing one entry of the matrix.

    >>> codes = np.zeros(3, dtype=np.int32)
    >>> merge(codes, codes, np.array([5.0, 2.0, 4.0]), pl.Series([10, 30, 20]), n_items=1).values.tolist()
    [2.0]
    >>> merge(codes, codes, np.array([5.0, 2.0, 4.0]), None, n_items=1).values.tolist()
    [5.0]
    """
    by_time = times is not None
    keys = rows.astype(np.int64) * n_items + columns
    # A sort is the cheapest way to see that nothing repeats, as in most files.
    ordered = np.sort(keys)
    is_repeat = ordered[1:] == ordered[:-1]
    if not is_repeat.any():
        return Merged(rows, columns, values, ~np.zeros(len(keys), dtype=bool), Repeats(0, by_time, 0))
    by_key = np.argsort(keys)  # several times faster than np.isin, which would sort too
    at = np.sort(by_key[np.append(is_repeat, False) | np.append(False, is_repeat)])
    seconds = np.zeros(len(at)) if times is None else to_seconds(times.gather(at)).fill_null(-np.inf).to_numpy()
    tied = np.zeros(len(at)) if values is None else values[at]
    order = np.lexsort((tied, seconds, keys[at]))
    sorted_keys = keys[at][order]
    last = np.append(sorted_keys[1:] != sorted_keys[:-1], True)
    keep = np.ones(len(keys), dtype=bool)
    keep[at[order[~last]]] = False
    repeats = Repeats(int((~keep).sum()), by_time, int(np.isneginf(seconds).sum()))
    return Merged(rows[keep], columns[keep], None if values is None else values[keep], keep, repeats)
