"""Sorts rows by user and merges repeated pairs, on disk: ranges of users that fit into a buffer, one after another.

How many rows every user has is known before, so ranges are cut where they fill the buffer and no range has to be cut
again. A user with more rows than the buffer holds has a range alone: it is merged piece by piece, and what is left of
it has at most one row per item.
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
Item = TypeVar("Item")
Result = TypeVar("Result")

BYTES_PER_ROW: Final = 100
"""Of the sort buffer: the row itself, its key, the order of the keys, and a sorted copy; measured, and rounded up."""
SORTED_BYTES: Final = 12
"""Bytes of a sorted entry on disk: its item and, where it is kept, its value."""


@dataclass(frozen=True)
class Wanted:
    """Which rows count, and where they go."""

    rows: Positions
    """For every user code its row, or -1."""
    columns: Positions
    """For every item code its column, or -1."""
    shape: tuple[int, int]


class Counts(NamedTuple):
    """What became of the rows."""

    rows: int
    """Rows of the users and items that count."""
    pairs: int
    """Distinct pairs among them."""
    untimed: int
    """Rows of repeated pairs whose time cannot be read."""
    below: int
    """Pairs below the threshold."""


@dataclass(frozen=True)
class SortedEntries:
    """A matrix on disk, row by row; where rows begin is in memory."""

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
    """How rows are sorted: in which folder, with how much memory, by which rules."""

    workspace: Workspace
    buffer_bytes: int
    threshold: float | None
    keep_values: bool
    _number: int = 0

    @property
    def buffer_rows(self) -> int:
        """Rows that one thread sorts at a time."""
        return max(1, self.buffer_bytes // (BYTES_PER_ROW * cores()))

    def sort(
        self, log: RecordFile, rows_per_user: Int64Array, wanted: Wanted, progress: Progress = silent
    ) -> SortedEntries:
        """Return the wanted rows of ``log`` as a matrix: sorted, merged, and those below the threshold left out."""
        self._number += 1
        counted = wanted.rows >= 0
        per_row = np.zeros(wanted.shape[0], dtype=np.int64)
        per_row[wanted.rows[counted]] = rows_per_user[counted]
        starts = np.concatenate(([0], np.cumsum(per_row)))
        total = int(starts[-1])
        self.workspace.require_space(total * (log.layout.width + SORTED_BYTES), f"sorting {total:,} rows")
        ranges = _ranges(starts, self.buffer_rows)
        spread = RecordFile(self.workspace, f"ranges-{self._number}", log.layout)
        try:
            firsts = starts[ranges[:-1]]
            ends = self._spread(log, spread, wanted, ranges, firsts, progress)
            return self._merged(spread, wanted.shape, ranges, firsts, ends, progress)
        finally:
            spread.delete()

    def _spread(
        self,
        log: RecordFile,
        spread: RecordFile,
        wanted: Wanted,
        ranges: Int64Array,
        firsts: Int64Array,
        progress: Progress,
    ) -> Int64Array:
        """Write every wanted row into the stretch of its range; return where each stretch ends."""
        cursors, lock = firsts.copy(), Lock()

        def place(start: int) -> None:
            given = log.read(start, min(start + self.buffer_rows, len(log)))
            rows, columns = wanted.rows[given.users], wanted.columns[given.items]
            keep = (rows >= 0) & (columns >= 0)
            if not keep.all():
                given, rows, columns = given.take(keep), rows[keep], columns[keep]
            range_of = np.searchsorted(ranges, rows, side="right") - 1
            order = np.argsort(range_of.astype(np.uint16 if len(ranges) < 1 << 16 else np.int64), kind="stable")
            sizes = np.bincount(range_of, minlength=len(firsts))
            ordered = replace(given, users=rows, items=columns).take(order)
            with lock:  # rows of a range may come in any order: which of a pair counts does not depend on it
                places = cursors.copy()
                cursors[:] += sizes
            ends = np.cumsum(sizes)
            for at in np.flatnonzero(sizes).tolist():
                spread.write(int(places[at]), ordered.take(slice(int(ends[at] - sizes[at]), int(ends[at]))))

        starts = range(0, len(log), self.buffer_rows)
        with closing(_in_order(starts, place)) as places:
            for done, _ in enumerate(places, 1):
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
        """Sort and merge range after range, and append what is left to the files of the matrix."""
        columns = self.workspace.column(f"columns-{self._number}", np.int32)
        stored = self.keep_values and spread.layout.values
        values = self.workspace.column(f"values-{self._number}", np.float64) if stored else None
        per_row = np.zeros(shape[0], dtype=np.int64)
        pairs = untimed = below = 0

        def one(at: int) -> tuple[int, _Range]:
            return at, self._range(spread, int(firsts[at]), int(ends[at]), int(ranges[at]), shape[1])

        with closing(_in_order(range(len(firsts)), one)) as parts:
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
        if not spread.layout.values:  # all rows of a pair are alike
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
            # After merging, so that of a pair one row decides, whatever the threshold is.
            high = values >= self.threshold
            keys, values = keys[high], values[high]
        order = np.argsort(keys)
        return _Range(*divmod(keys[order], n_items), values[order], len(kept), untimed)


def _keys(given: Records, first_row: int, n_items: int) -> Int64Array:
    """Return one number per row, in the order of users and then of items."""
    keys: Int64Array = (given.users.astype(np.int64) - first_row) * n_items + given.items
    return keys


def _distinct(keys: Int64Array) -> Int64Array:
    """Return the keys sorted, each of them once."""
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


class _Range(NamedTuple):
    """The entries of a range of users: sorted by user, then by item."""

    rows: Int64Array
    columns: Int64Array
    values: Floats | None
    pairs: int
    untimed: int


def _latest(given: Records, n_items: int) -> tuple[Records, int]:
    """Return one row for every pair, by the rule for files in memory, and how many repeated rows have no time."""
    times = None if given.seconds is None else pl.Series(given.seconds)
    codes = (given.users.astype(np.int32, copy=False), given.items.astype(np.int32, copy=False))
    merged = merge(*codes, given.values, times, n_items)
    return (given if merged.kept.all() else given.take(merged.kept)), merged.repeats.untimed


def _ranges(starts: Int64Array, most: int) -> Int64Array:
    """Return where ranges of consecutive users begin, and the end: each has at most so many rows, or one user.

    >>> _ranges(np.array([0, 2, 4, 4, 9, 10]), 4).tolist()
    [0, 3, 4, 5]
    """
    cuts, users = [0], len(starts) - 1
    while cuts[-1] < users:
        fits = int(np.searchsorted(starts, starts[cuts[-1]] + most, side="right")) - 1
        cuts.append(min(max(fits, cuts[-1] + 1), users))
    return np.array(cuts, dtype=np.int64)


def _in_order(given: range, work: Callable[[int], Result]) -> Generator[Result, None, None]:
    """Yield the results of ``work`` in order, computed on all cores; only as many wait as there are cores.

    To be closed: no thread may still read a file when whoever asked for the results gives up and deletes it.
    """
    with ThreadPoolExecutor(cores()) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for one in given:
                waiting.append(pool.submit(work, one))
                if len(waiting) >= cores():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
