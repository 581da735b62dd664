"""Ratings that do not fit into memory: sorted by DuckDB, kept in files, and read block by block while published.

Memory grows with users and items, not with ratings. The result has the same bytes as in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import Convert, LocalMatrix, RatingsSource
from pricdr.data.csr import CSR, sp
from pricdr.data.ids import Ids
from pricdr.data.periods import Window
from pricdr.data.ratings import position_of
from pricdr.data.reading.formats import ReadOptions
from pricdr.data.reading.inputs import Query, find_inputs
from pricdr.data.reading.read import (
    Reading,
    Repeats,
    connected,
    create_ids,
    explained,
    last_of_each,
    number_ids,
    opened_table,
    sorted_pairs,
)
from pricdr.data.reading.text_files import named
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError, MemoryLimitError
from pricdr.memory import VARIABLE, format_bytes, memory_limit, require_memory
from pricdr.parallel import cores
from pricdr.privacy.plan import Estimate
from pricdr.privacy.strategies.base import MAX_LEARNT
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BLOCK_ENTRIES: Final = 1 << 20
"""The most entries of a block with more than one user."""
BYTES_PER_ENTRY: Final = 64
"""Memory for each entry of a block while a work runs on it: index, value, units, and copies of them."""
LARGE: Final = 256 * 10**6
"""An array of rows with more bytes than this is kept in a file."""
_PROGRAM: Final = 200 * 10**6
_BYTES_PER_ID: Final = 250
"""For an id as text, its position and its count, besides two copies of its letters."""
_ROWS_AT_A_TIME: Final = 1 << 19
_SORTED_BYTES: Final = 32
"""Disk space for each row while it is sorted: its key, value and time, and its entry."""


def sort_memory() -> int:
    """Return the bytes that DuckDB may take: a quarter of the memory limit, from 64 MB to 256 MB."""
    return min(max(64 * 10**6, memory_limit() // 4), 256 * 10**6)


@dataclass(frozen=True, eq=False, repr=False)
class DiskMatrix(LocalMatrix):
    """A sparse matrix in files, row by row, read block by block; each block is converted whenever it is read."""

    workspace: Workspace
    starts: npt.NDArray[np.int64]
    """Of every row, and the end of the last; in memory."""
    columns: Path
    values: Path | None
    """None where every entry counts as 1."""
    n_rows: int
    """The rows of selected users and items."""
    n_pairs: int
    """The distinct pairs among them."""
    n_untimed: int
    shape: tuple[int, int]
    convert: Convert | None = None

    def __len__(self) -> int:
        return int(self.starts[-1])

    def array(self, columns: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an empty array with one row per user: in memory, or in a file if it is large."""
        if self.shape[0] * columns * np.dtype(dtype).itemsize <= LARGE:
            return super().array(columns, dtype)
        return self.workspace.array((self.shape[0], columns), dtype)

    def cut(self, block_rows: int, *, for_sums: bool = False) -> list[slice]:
        """Return slices of at most so many users, and as many entries as fit into memory, or of a single user."""
        # With fewer entries than items most of a sum would be zeros.
        entries = max(BLOCK_ENTRIES, self.shape[1]) if for_sums else BLOCK_ENTRIES
        starts, users = self.starts, self.shape[0]
        slices, at = [], 0
        while at < users:
            fits = int(np.searchsorted(starts, starts[at] + entries, side="right")) - 1
            stop = min(max(fits, at + 1), at + block_rows, users)
            slices.append(slice(at, stop))
            at = stop
        return slices

    def block(self, part: slice) -> CSR:
        """Return the converted rows of some users."""
        starts = self.starts[part.start : part.stop + 1]
        first, count = int(starts[0]), int(starts[-1] - starts[0])
        with self.workspace.explained():
            columns = np.fromfile(self.columns, np.int32, count, offset=4 * first)
            given = self.values
            values = np.ones(count) if given is None else np.fromfile(given, np.float64, count, offset=8 * first)
        shape = len(starts) - 1, self.shape[1]
        block = sp.csr_array((values, columns, (starts - first).astype(np.int32)), shape=shape)
        return block if self.convert is None else self.convert(block)


@dataclass(frozen=True, eq=False, repr=False)
class DiskRatings(RatingsSource):
    """Rows in a database on disk, and which of them count; sorted when entries are needed for the first time."""

    name: Path | str
    workspace: Workspace
    raters: Ids
    users: Ids
    items: Ids
    rows: int
    filtered_by: str | None
    has_values: bool
    has_times: bool
    keep_values: bool
    """Whether values are needed after repeated pairs are merged and the threshold is applied."""
    threshold: float | None
    window: Window | None = None
    _sorted: dict[tuple[Ids, Ids], DiskMatrix] = field(default_factory=dict)
    """The matrices so far, by users and items; all selections share them."""

    def __len__(self) -> int:
        """Return the number of pairs; before they are sorted, the number of rows, which is never smaller."""
        matrix = self._sorted.get((self.users, self.items))
        return self.rows if matrix is None else len(matrix)

    def over(self, users: Ids, items: Ids) -> Self:
        """Return the ratings over exactly these users and items."""
        for ids in (users, items):
            position_of(ids)  # refuses a repeated one
        return replace(self, users=users, items=items)

    def units(self, convert: Convert) -> DiskMatrix:
        """Return the values as whole units, as ``convert`` computes them block by block."""
        return replace(self.sorted(), convert=convert)

    def require_space(self, dim: int | None) -> None:
        """Refuse result rows of ``dim`` numbers (None: the widest learnt release) for whose file there is no room."""
        need = len(self.users) * (dim or MAX_LEARNT) * np.dtype(np.float32).itemsize
        if need > LARGE:  # twice: the release may be on the same disk
            self.workspace.require_space(2 * need, "computing the rows")

    def sorted(self, progress: Progress = silent) -> DiskMatrix:
        """Return the values as they are; rows are sorted once, some of them in memory at a time."""
        if (matrix := self._sorted.get((self.users, self.items))) is not None:
            return matrix
        workspace, n_items, memory = self.workspace, max(len(self.items), 1), sort_memory()
        workspace.require_space(self.rows * _SORTED_BYTES, f"sorting {self.rows:,} rows")
        number = len(self._sorted)
        columns_path, values_path = (workspace.folder / f"{name}-{number}" for name in ("columns", "values"))
        # If values do not matter, times do not either: all rows of a pair are the same.
        used = self.has_values and (self.keep_values or self.threshold is not None)
        per_row, pairs, untimed = np.zeros(len(self.users), dtype=np.int64), 0, 0
        opened = connected(workspace, [], memory, on_disk=True)
        with explained(self.name, workspace, memory), opened as connection:
            create_ids(connection, "chosen_users", self.users)
            create_ids(connection, "chosen_items", self.items)
            wanted = ["value"] * used + ["seconds"] * (used and self.has_times)
            progress("sorting", 0, max(self.rows, 1))
            pairs_sql = sorted_pairs("chosen_users", "chosen_items", n_items, wanted)
            connection.execute(f"CREATE TEMP TABLE sorted AS {pairs_sql}")
            (rows,) = connection.execute("SELECT count(*) FROM sorted").fetchone() or (0,)
            with workspace.explained(), columns_path.open("wb") as columns_file, values_path.open("wb") as values_file:
                for keys, values, seconds in _merge_chunks(connection, rows):
                    progress("sorting", min(rows, pairs), max(rows, 1))
                    keep, without_time = last_of_each(keys, seconds)
                    pairs, untimed = pairs + int(keep.sum()), untimed + without_time
                    if self.threshold is not None:
                        keep &= values >= self.threshold
                    users, items = np.divmod(keys[keep], n_items)
                    per_row += np.bincount(users, minlength=len(self.users))
                    items.astype(np.int32).tofile(columns_file)
                    if used and self.keep_values:
                        values[keep].tofile(values_file)
            connection.execute("DROP TABLE sorted")
        starts = np.concatenate(([0], np.cumsum(per_row)))
        shape, kept = (len(self.users), len(self.items)), values_path if used and self.keep_values else None
        matrix = DiskMatrix(workspace, starts, columns_path, kept, rows, pairs, untimed, shape)
        return self._sorted.setdefault((self.users, self.items), matrix)


def _merge_chunks(connection: "DuckDBPyConnection", rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield sorted rows, some at a time: keys, values and times; rows of one pair come together."""
    held: dict[str, npt.NDArray[Any]] = {}
    for start in range(0, rows, _ROWS_AT_A_TIME):
        stop = start + _ROWS_AT_A_TIME
        part = connection.execute(f"SELECT * FROM sorted WHERE rowid >= {start} AND rowid < {stop} ORDER BY rowid")
        whole = {name: np.append(held.get(name, column[:0]), column) for name, column in part.fetchnumpy().items()}
        keys = whole["key"]
        # The rows of the last pair may go on in the next part.
        end = len(keys) if stop >= rows else int(np.searchsorted(keys, keys[-1]))
        held = {name: column[end:] for name, column in whole.items()}
        if end:
            yield keys[:end], *(whole[name][:end] if name in whole else None for name in ("value", "seconds"))


def read_on_disk(
    path: Path | Query,
    workspace: Workspace,
    *,
    keep_values: bool = True,
    threshold: float | None = None,
    progress: Progress = silent,
    **options: Any,  # noqa: ANN401 - of read_ratings
) -> Reading[DiskRatings]:
    """Read rows into the workspace, and return the ratings that they make; repeated pairs are merged when sorted."""
    parsed = ReadOptions.of(need_rating=threshold is not None, **options)
    if parsed.window is not None and parsed.window.days is not None:
        rule = f"must fit into memory: raise its limit ({VARIABLE})"
        raise MemoryLimitError(f"{named(str(path))}: ratings in unit user-period {rule}")
    given = path if isinstance(path, Query) else find_inputs(path)
    with opened_table(given, parsed, workspace, memory=sort_memory(), on_disk=True, progress=progress) as table:
        report = table.finished()
        users, items = number_ids(table.connection)
    if threshold is not None and not table.has_values:
        raise InputError("a threshold needs ratings, and there is no rating column")
    ratings = DiskRatings(
        name=report.name,
        workspace=workspace,
        raters=users,
        users=users,
        items=items,
        rows=report.rows - report.bad,
        window=parsed.window,
        filtered_by=table.filtered_by,
        has_values=table.has_values,
        has_times=table.has_times,
        keep_values=keep_values,
        threshold=threshold,
    )
    repeats = Repeats(0, table.has_times, 0)
    return Reading(ratings=ratings, raters=users, n_raters=len(users), n_ratings=None, repeats=repeats, **vars(report))


def require_room(ratings: DiskRatings, work: Estimate) -> tuple[int, str]:
    """Return the bytes of memory that a release takes, and a sentence about its parts; refuse more than the limit."""
    every = (*ratings.raters, *ratings.items)
    ids = _BYTES_PER_ID * len(every) + 2 * sum(map(len, every))
    parts = {
        "item vectors": work.item_rows,
        # Rows that nothing is learnt from are kept in a file if they are large.
        "users' rows": work.user_rows if work.learns else min(work.user_rows, LARGE),
        "blocks of users": cores() * BLOCK_ENTRIES * BYTES_PER_ENTRY,
    }
    sorting, computing = sort_memory(), sum(parts.values())
    # Sorting ends before the first block is read, so only the larger of the two counts.
    need = _PROGRAM + ids + max(sorting, computing)
    require_memory(need, "publishing out of core")
    return need, (
        f"needs about {format_bytes(need)} of memory, however many ratings there are: the program "
        f"{format_bytes(_PROGRAM)}, ids {format_bytes(ids)}, and the larger of {format_bytes(sorting)} to sort and "
        f"{format_bytes(computing)} to compute ({', '.join(f'{what} {format_bytes(n)}' for what, n in parts.items())})"
    )


def sort_reading(
    reading: Reading[DiskRatings], users: Ids | None, items: Ids | None, dim: int | None, progress: Progress = silent
) -> Reading[DiskRatings]:
    """Sort the ratings of these users and items, so that a disk that fails does so before anything is spent."""
    selected = reading.ratings.select(users, items)
    matrix = selected.sorted(progress)
    selected.require_space(dim)
    below = matrix.n_pairs - len(matrix)
    return replace(
        reading,
        n_ratings=len(matrix),
        of_listed=selected is not reading.ratings,
        all_below=0 < matrix.n_pairs == below,
        repeats=Repeats(matrix.n_rows - matrix.n_pairs, reading.repeats.by_time, matrix.n_untimed),
        dropped={**reading.dropped, f"rated below {selected.threshold:g}": below} if below else reading.dropped,
    )
