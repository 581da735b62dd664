"""Sort rows by user and merge repeated pairs on disk, in ranges of users that fit into a buffer.

The number of rows of every user is known beforehand, so ranges are cut to fill the buffer and need not be cut again. A
user with more rows than the buffer holds gets its own range, which is merged piece by piece: at most one row per item
is left of it.
"""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from pricdr.data.reading.repeats import merge
from pricdr.engines.local.id_codes import Positions
from pricdr.engines.local.records import Floats, RecordFile, Records
from pricdr.engines.local.workspace import ColumnFile, Workspace
from pricdr.parallel import cores
from pricdr.progress import Progress, silent

Int64Array = npt.NDArray[np.int64]
Result = TypeVar("Result")

BYTES_PER_ROW: Final = 100
"""Bytes of the sort buffer for each row: the row, its key, the order, and a sorted copy; measured and rounded up."""
SORTED_BYTES: Final = 12
"""The most bytes of a sorted entry on disk: its item and, if it is kept, its value."""


@dataclass(frozen=True)
class Selection:
    """The users and items that count, and their positions in the matrix."""

    rows: Positions
    """The matrix row of every user code, or -1."""
    columns: Positions
    """The matrix column of every item code, or -1."""
    shape: tuple[int, int]


class Counts(NamedTuple):
    """How rows were merged and left out."""

    rows: int
    """The rows of selected users and items."""
    pairs: int
    """The distinct pairs among them."""
    untimed: int
    """The rows of repeated pairs whose time cannot be read."""
    below: int
    """The pairs below the threshold."""


@dataclass(frozen=True)
class SortedEntries:
    """A sparse matrix on disk, row by row; the start of every row is in memory."""

    shape: tuple[int, int]
    starts: Int64Array
    columns: ColumnFile
    values: ColumnFile | None
    """None where every entry counts as 1."""
    counts: Counts

    def __len__(self) -> int:
        return int(self.starts[-1])


@dataclass
class Sorter:
    """Sorts rows in a workspace, with bounded memory, and merges repeated pairs."""

    workspace: Workspace
    buffer_bytes: int
    threshold: float | None
    keep_values: bool
    _number: int = 0

    @property
    def buffer_rows(self) -> int:
        """The number of rows that one thread sorts at a time."""
        return max(1, self.buffer_bytes // (BYTES_PER_ROW * cores()))

    def sort(
        self, log: RecordFile, rows_per_user: Int64Array, selection: Selection, progress: Progress = silent
    ) -> SortedEntries:
        """Return the selected rows of ``log`` as a matrix: sorted, merged, without pairs below the threshold."""
        self._number += 1
        is_selected = selection.rows >= 0
        per_row = np.zeros(selection.shape[0], dtype=np.int64)
        per_row[selection.rows[is_selected]] = rows_per_user[is_selected]
        starts = np.concatenate(([0], np.cumsum(per_row)))
        total = int(starts[-1])
        self.workspace.require_space(total * (log.layout.width + SORTED_BYTES), f"sorting {total:,} rows")
        ranges = _ranges(starts, self.buffer_rows)
        spread = RecordFile(self.workspace, f"ranges-{self._number}", log.layout)
        try:
            firsts = starts[ranges[:-1]]
            ends = self._spread(log, spread, selection, ranges, firsts, progress)
            return self._merged(spread, selection.shape, ranges, firsts, ends, progress)
        finally:
            spread.delete()

    def _spread(
        self,
        log: RecordFile,
        spread: RecordFile,
        selection: Selection,
        ranges: Int64Array,
        firsts: Int64Array,
        progress: Progress,
    ) -> Int64Array:
        """Write every selected row into the section of its range; return the end of each section."""
        cursors, lock = firsts.copy(), Lock()

        def place(start: int) -> None:
            records = log.read(start, min(start + self.buffer_rows, len(log)))
            rows, columns = selection.rows[records.users], selection.columns[records.items]
            keep = (rows >= 0) & (columns >= 0)
            if not keep.all():
                records, rows, columns = records.take(keep), rows[keep], columns[keep]
            range_of = np.searchsorted(ranges, rows, side="right") - 1
            order = np.argsort(range_of.astype(np.uint16 if len(ranges) < 1 << 16 else np.int64), kind="stable")
            sizes = np.bincount(range_of, minlength=len(firsts))
            ordered = replace(records, users=rows, items=columns).take(order)
            with lock:  # rows of a range may be in any order: which row of a pair counts does not depend on it
                positions = cursors.copy()
                cursors[:] += sizes
            ends = np.cumsum(sizes)
            for at in np.flatnonzero(sizes).tolist():
                spread.write(int(positions[at]), ordered.take(slice(int(ends[at] - sizes[at]), int(ends[at]))))

        starts = range(0, len(log), self.buffer_rows)
        with closing(_in_order(starts, place)) as placed:
            for done, _ in enumerate(placed, 1):
                progress("distributing rows", done, len(starts))
        return cursors

    def _merged(
        self,
        spread: RecordFile,
        shape: tuple[int, int],
        ranges: Int64Array,
        firsts: Int64Array,
        ends: Int64Array,
        progress: Progress,
    ) -> SortedEntries:
        """Sort and merge range after range, and append the entries to the files of the matrix."""
        columns = self.workspace.column(f"columns-{self._number}", np.int32)
        stored = self.keep_values and spread.layout.values
        values = self.workspace.column(f"values-{self._number}", np.float64) if stored else None
        per_row = np.zeros(shape[0], dtype=np.int64)
        pairs = untimed = below = 0

        def merge_range(at: int) -> tuple[int, _Range]:
            return at, self._range(spread, int(firsts[at]), int(ends[at]), int(ranges[at]), shape[1])

        with closing(_in_order(range(len(firsts)), merge_range)) as parts:
            for done, (at, part) in enumerate(parts, 1):
                per_row[ranges[at] : ranges[at + 1]] = np.bincount(
                    part.rows, minlength=int(ranges[at + 1] - ranges[at])
                )
                columns.append(part.columns)
                if values is not None and part.values is not None:
                    values.append(part.values)
                pairs, untimed, below = pairs + part.pairs, untimed + part.untimed, below + part.pairs - len(part.rows)
                progress("sorting", done, len(firsts))
        starts = np.concatenate(([0], np.cumsum(per_row)))
        counts = Counts(int((ends - firsts).sum()), pairs, untimed, below)
        return SortedEntries(shape, starts, columns, values, counts)

    def _range(self, spread: RecordFile, start: int, stop: int, first_row: int, n_items: int) -> "_Range":
        """Return one range of users sorted and merged; a range longer than the buffer is merged piece by piece."""
        pieces = spread.chunks(start, stop, self.buffer_rows)
        if not spread.layout.values:  # all rows of a pair are the same
            keys = np.empty(0, dtype=np.int64)
            for piece in pieces:
                keys = _distinct(np.concatenate((keys, _keys(piece, first_row, n_items))))
            return _Range(*divmod(keys, n_items), None, len(keys), 0)
        kept, untimed = spread.read(start, start), 0
        for piece in pieces:
            kept, more = _latest(kept.followed_by(piece) if len(kept) else piece, n_items)
            untimed += more
        keys, values = _keys(kept, first_row, n_items), kept.values
        assert values is not None, "the layout has values"
        if self.threshold is not None:
            # After merging, so that the same row of a pair decides, whatever the threshold is.
            high = values >= self.threshold
            keys, values = keys[high], values[high]
        order = np.argsort(keys)
        return _Range(*divmod(keys[order], n_items), values[order], len(kept), untimed)


def _keys(records: Records, first_row: int, n_items: int) -> Int64Array:
    """Return one number per row, which orders rows by user and then by item."""
    keys: Int64Array = (records.users.astype(np.int64) - first_row) * n_items + records.items
    return keys


def _distinct(keys: Int64Array) -> Int64Array:
    """Return the distinct keys, sorted."""
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


class _Range(NamedTuple):
    """The entries of a range of users: sorted by user, then by item."""

    rows: Int64Array
    columns: Int64Array
    values: Floats | None
    pairs: int
    untimed: int


def _latest(records: Records, n_items: int) -> tuple[Records, int]:
    """Return one row for every pair, by the same rule as in memory, and the number of repeated rows without a time."""
    times = None if records.seconds is None else pl.Series(records.seconds)
    codes = (records.users.astype(np.int32, copy=False), records.items.astype(np.int32, copy=False))
    merged = merge(*codes, records.values, times, n_items)
    return (records if merged.kept.all() else records.take(merged.kept)), merged.repeats.untimed


def _ranges(starts: Int64Array, most: int) -> Int64Array:
    """Return the first users of consecutive ranges, and the end; a range has at most ``most`` rows, or one user.

    >>> _ranges(np.array([0, 2, 4, 4, 9, 10]), 4).tolist()
    [0, 3, 4, 5]
    """
    cuts, users = [0], len(starts) - 1
    while cuts[-1] < users:
        fits = int(np.searchsorted(starts, starts[cuts[-1]] + most, side="right")) - 1
        cuts.append(min(max(fits, cuts[-1] + 1), users))
    return np.array(cuts, dtype=np.int64)


def _in_order(arguments: range, work: Callable[[int], Result]) -> Generator[Result, None, None]:
    """Yield the results of ``work`` in order, computed on all cores; at most one result per core waits.

    Close it: no thread may still read a file when a caller that gives up deletes it.
    """
    with ThreadPoolExecutor(cores()) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for argument in arguments:
                waiting.append(pool.submit(work, argument))
                if len(waiting) >= cores():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
