"""Read ratings of every format into a table of checked rows, and that table into memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from pricdr.data.ids import Ids
from pricdr.data.ratings import Ratings
from pricdr.data.reading.formats import Schema, parquet_source, text_source
from pricdr.data.reading.inputs import InputFile, Inputs, naming_in_logs, without_rows
from pricdr.data.reading.options import Format, ReadOptions
from pricdr.data.reading.queries import add_query
from pricdr.data.reading.query import Query
from pricdr.data.reading.repeats import Floats, Repeats, deduplicate
from pricdr.data.reading.report import BadRows
from pricdr.data.reading.table import RatingsTable, Source, connected, explained, has_utf8_name
from pricdr.data.reading.text_files import (
    copy_bytes,
    copy_text,
    file_refusal,
    named,
    refusal,
    shorten,
)
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError
from pricdr.memory import memory_limit, require_memory
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_RULE = "files that are read together need one schema"
_BYTES_PER_ROW = 60
"""Memory for a row while repeated pairs are merged and the matrix is made."""
Codes = npt.NDArray[np.int64]


@contextmanager
def opened_table(
    given: Inputs | Query,
    options: ReadOptions,
    workspace: Workspace,
    *,
    memory: int | None = None,
    on_disk: bool = False,
    progress: Progress = silent,
) -> Iterator[RatingsTable]:
    """Yield all rows of files or of a query, each checked.

    Args:
        given: What to read.
        options: How to read it.
        workspace: The private folder for what does not fit into memory.
        memory: How many bytes DuckDB may use; the memory limit by default.
        on_disk: Whether rows are kept in a database in that folder.
        progress: Called with the bytes that have been read.
    """
    memory = memory_limit() if memory is None else memory
    bad_rows = BadRows(options.most_bad_rows) if options.skip_bad_rows else None
    if isinstance(given, Query):
        options.require_no_file_options(given)
    files = [file.path for file in given.files] if isinstance(given, Inputs) else []
    name = given.path if isinstance(given, Inputs) else str(given)
    with explained(name, workspace, memory), connected(workspace, files, memory, on_disk=on_disk) as connection:
        table = RatingsTable(connection, name, time_asked=options.time_asked, bad_rows=bad_rows)
        if isinstance(given, Query):
            add_query(table, given, options)
        else:
            _FilesReader(table, given, options, workspace, progress).read()
        table.require_few_bad()
        yield table


@dataclass
class _FilesReader:
    """Adds files of one schema to a table."""

    table: RatingsTable
    inputs: Inputs
    options: ReadOptions
    workspace: Workspace
    progress: Progress
    schema: tuple[Path, Schema] | None = None
    filter: tuple[Path, str] | None = None

    def read(self) -> None:
        """Add all files."""
        table, inputs, done = self.table, self.inputs, 0
        table.size, table.files = inputs.size, len(inputs.files)
        with naming_in_logs(inputs.path, several=inputs.several):
            self._require_one_kind()
            for file in inputs.files:
                with file.unchanged():
                    self._add(file)
                done += file.size or 0
                self.progress(f"reading {named(inputs.path)}", done, inputs.size or 0, f"{table.rows:,} rows")
        if table.empty_files == table.files:
            raise without_rows(inputs)

    def _add(self, file: InputFile) -> None:
        kind, options = self.options.kind(file.path), self.options
        columns = options.columns
        wanted = () if columns is None else (columns.user, columns.item, columns.rating, columns.time)
        partitions = {name: value for name, value in file.partitions.items() if name in wanted}
        if kind is Format.PARQUET:
            copy = file.path
            if file.state is None or not has_utf8_name(file.path):  # a pipe: reading Parquet starts at its end
                copy = self.workspace.folder / "copy.parquet"
                with self.workspace.explained():
                    copy_bytes(file.path, copy)
            source, schema, filtered_by = parquet_source(file.path, copy, options, partitions, self.table.connection)
            self._require_schema(file.path, schema)
            self._require_filter(file.path, filtered_by)
            if source is None:
                self.table.empty_files += 1
            else:
                self._insert(source)
            return
        # A copy has one kind of line end, is UTF-8 and unpacked; making it says what is wrong with a file and where.
        plain = file.state is not None and options.encoding == "utf-8" and file.path.suffix.lower() != ".gz"
        if plain and has_utf8_name(file.path) and self._add_directly(file.path, kind, partitions):
            return
        copy = self.workspace.folder / "copy"
        with self.workspace.explained(), copy.open("wb") as content:
            copy_text(file.path, content, encoding=options.encoding, substitute=options.skip_bad_rows)
        try:
            self._add_text(file.path, copy, kind, partitions)
        finally:
            copy.unlink()

    def _add_directly(self, file: Path, kind: Format, partitions: dict[str, str | None]) -> bool:
        """Add a text file as it is; return False if it must be copied first."""
        import duckdb

        try:
            self._add_text(file, file, kind, partitions)
        except duckdb.InvalidInputException:  # not UTF-8, a NUL, a line that is too long, or line ends that differ
            return False
        except InputError:
            if self.options.skip_bad_rows:  # a bare carriage return in the first line
                return False
            raise
        return True

    def _add_text(self, name: Path, file: Path, kind: Format, partitions: dict[str, str | None]) -> None:
        source, schema = text_source(name, file, kind, self.options, partitions, self.table.connection)
        self._require_schema(name, schema)
        if not self._insert(source):
            raise file_refusal(name, f"the file {'has a header and no rows' if source.lines_before else 'is empty'}")

    def _insert(self, source: Source) -> int:
        return self.table.add(source, several=len(self.inputs.files) > 1)

    def _require_one_kind(self) -> None:
        first, *others = self.inputs.files
        kind = self.options.kind(first.path)
        for file in others:
            other = self.options.kind(file.path)
            if other is not kind:
                logged = f"it is {other}, and the first file is {kind}; {_RULE}"
                raise file_refusal(
                    file.path, f"it is {other}, and {named(first.path)} is {kind}; {_RULE}", logged=logged
                )

    def _require_schema(self, file: Path, schema: Schema) -> None:
        """Refuse a file with other columns than the first, and name the column; their order does not matter."""
        if self.schema is None:
            self.schema = file, schema
        first, expected, actual = named(self.schema[0]), dict(self.schema[1]), dict(schema)
        for name in [*expected, *actual]:
            if name not in actual:
                fault = f"it has no column {shorten(name)}, and {first} has one"
            elif name not in expected:
                fault = f"it has a column {shorten(name)}, and {first} has none"
            elif expected[name] != actual[name]:
                fault = f"column {shorten(name)} holds {actual[name]}, in {first} {expected[name]}"
            else:
                continue
            # Without the names: where a header is missing they are a row.
            raise file_refusal(
                file, f"{fault}; {_RULE}", logged=f"its columns are not those of the first file; {_RULE}"
            )

    def _require_filter(self, file: Path, text: str | None) -> None:
        """Remember the filter on counts that a file discloses; all that disclose one must disclose the same."""
        if text is None:
            return
        if self.filter is not None and self.filter[1] != text:
            other, said = self.filter
            both = f"it says that it was filtered by {shorten(text, 60)}, {named(other)} by {shorten(said, 60)}"
            rule = "they cannot be read together"
            raise file_refusal(
                file, f"{both}; {rule}", logged=f"it was filtered in another way than the first file; {rule}"
            )
        self.filter, self.table.filtered_by = (file, text), text


class Figures(NamedTuple):
    """Sizes and values of all good rows."""

    rows: int
    range: tuple[float, float] | None
    half_steps: bool
    """Whether all values are whole or half numbers, as stars are."""


def figures_of(connection: "DuckDBPyConnection") -> Figures:
    """Return figures about the good rows of the table."""
    halves = "bool_and(value * 2 = round(value * 2))"
    found = connection.execute(f"SELECT count(*), min(value), max(value), {halves} FROM rows WHERE kind = 0").fetchone()
    rows, low, high, half_steps = found or (0, None, None, None)
    return Figures(rows, None if low is None else (low, high), bool(half_steps))


def number_ids(connection: "DuckDBPyConnection") -> tuple[Ids, Ids]:
    """Number all users and all items in tables of their own, sorted by their UTF-8 bytes, and return them."""
    for table, column in (("users", '"user"'), ("items", "item")):
        distinct = f"SELECT DISTINCT {column} AS id FROM rows WHERE kind = 0"
        numbered = f"SELECT id, (row_number() OVER (ORDER BY id) - 1)::INTEGER AS code FROM ({distinct})"
        connection.execute(f"CREATE TABLE {table} AS {numbered} ORDER BY code")
    users, items = (
        tuple(connection.execute(f"SELECT id FROM {table} ORDER BY code").fetchnumpy()["id"].tolist())
        for table in ("users", "items")
    )
    return users, items


def sorted_pairs(users: str, items: str, n_items: int, columns: Sequence[str]) -> str:
    """Return SQL for the good rows of these users and items, in the order of the matrix: pairs as keys, and columns.

    ``users`` and ``items`` are tables of ids and codes.
    """
    key = f"{users}.code::BIGINT * {n_items} + {items}.code"
    joined = f'rows JOIN {users} ON {users}.id = rows."user" JOIN {items} ON {items}.id = rows.item'
    return f"SELECT {', '.join([f'{key} AS key', *columns])} FROM {joined} ORDER BY key"


class Encoded(NamedTuple):
    """Distinct pairs as ratings."""

    ratings: Ratings
    repeats: Repeats
    figures: Figures
    times: Floats | None
    """The time of each rating, in the order of the matrix, NaN where it cannot be read."""


def encode(table: RatingsTable, *, need_times: bool = False) -> Encoded:
    """Return the rows of a table as ratings, with repeated pairs merged."""
    connection = table.connection
    figures = figures_of(connection)
    require_memory(_BYTES_PER_ROW * figures.rows, f"{named(table.name)}: {figures.rows:,} rows in memory")
    users, items = number_ids(connection)
    columns = ["value"] * table.has_values + ["seconds"] * table.has_times
    found = connection.execute(sorted_pairs("users", "items", len(items), columns)).fetchnumpy()
    keys = np.asarray(found["key"])
    values, seconds = (np.asarray(found[name]) if name in found else None for name in ("value", "seconds"))
    keep, untimed = deduplicate(keys, values, seconds)
    repeats = Repeats(int(len(keys) - keep.sum()), table.has_times, untimed)
    rows, columns_at = np.divmod(keys[keep], len(items))
    data = np.ones(len(rows)) if values is None else values[keep]
    ratings = Ratings.from_codes(rows, columns_at, data, users, items, has_values=values is not None)
    if table.filtered_by is not None:
        try:
            ratings = ratings.disclosing(table.filtered_by)
        except InputError as error:
            raise refusal(table.name, str(error)) from error
    times = None
    if need_times and seconds is not None:
        times = seconds[keep]
        times[np.isneginf(times)] = np.nan
    return Encoded(ratings, repeats, figures, times)
