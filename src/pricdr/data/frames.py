"""Ratings that come from no file: from data frames (polars, pandas, whatever speaks Arrow) and from databases.

They are held to the rules of a file: the same column names, refusals and merging of repeated pairs. No library of data
frames is needed here. A column of SQLite has no type, and ADBC would guess one from the first rows (a single text among
the times rounds all others): so it is read through Python's own driver, value by value.
"""

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from pricdr.data.reading.columns import find_columns, find_named
from pricdr.data.reading.formats import ReadOptions, by_position, identifier, judged, typed_source
from pricdr.data.reading.inputs import Query
from pricdr.data.reading.read import MemoryReading, RatingsTable, RowReport, connected, encode, explained
from pricdr.data.reading.text_files import explaining_os_errors, file_refusal, refusal, shorten
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError
from pricdr.extras import SQL
from pricdr.memory import memory_limit

if TYPE_CHECKING:
    import pyarrow as pa

    from pricdr.data.periods import Window

Named: TypeAlias = Mapping[str, str]
"""The columns that the caller names, by role; the others are found by the names that files may use."""
_FRAME: Final = "the data frame"
_GIVEN: Final = "given"
_SQLITE_ROWS: Final = 1 << 16


def read_frame(
    frame: Any,  # noqa: ANN401
    named: Named,
    *,
    with_times: bool = False,
    window: "Window | None" = None,
) -> MemoryReading:
    """Return the ratings in a data frame of any kind: polars (lazy too), pandas, or a table that speaks Arrow."""
    if hasattr(frame, "collect_schema") and hasattr(frame, "lazy"):
        add = _add_polars
    elif hasattr(frame, "columns") and hasattr(frame, "iloc"):
        add = _add_pandas
    elif hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        add = _add_arrow
    else:
        hint = ": read a file with read_ratings" if isinstance(frame, str | os.PathLike) else ""
        given = shorten(f"{type(frame).__module__}.{type(frame).__qualname__}", 60)
        raise InputError(f"ratings must be Ratings or a data frame (polars, pandas, Arrow), got {given}{hint}")
    memory = memory_limit()
    with (
        Workspace.opened(Path(gettempdir())) as workspace,
        explained(_FRAME, workspace, memory),
        connected(workspace, [], memory) as connection,
    ):
        table = RatingsTable(connection, RowReport(name=_FRAME), ReadOptions(time_asked="time" in named, window=window))
        add(table, frame, named)
        if not table.report.rows:
            raise refusal(_FRAME, "it has columns and no rows")
        return encode(table, with_times=with_times)


@dataclass(frozen=True)
class _Stream:
    """Offers the Arrow PyCapsule interface of a table and nothing else: DuckDB then needs no other library."""

    table: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def _add_arrow(table: RatingsTable, frame: Any, named: Named) -> None:  # noqa: ANN401
    import duckdb

    connection = table.connection
    if hasattr(frame, "read_all"):  # a stream, which can be read only once
        frame = frame.read_all()
    try:
        connection.register(_GIVEN, _Stream(frame))
        described = connection.execute(f"DESCRIBE {_GIVEN}").fetchall()
    except (duckdb.Error, AttributeError, ValueError, TypeError) as error:
        raise refusal(_FRAME, f"cannot be read: {shorten(str(error), 100)}") from error
    found = find_columns(_FRAME, [name for name, *_ in described], named)
    typed = {role: (f"c{at}", described[at][1], None) for role, at in found.items()}
    table.add(typed_source(_FRAME, by_position(_GIVEN, len(described)), typed, table.options))


def _add_polars(table: RatingsTable, frame: Any, named: Named) -> None:  # noqa: ANN401
    """Add the rows of a polars frame; of a lazy one only the columns that are read are computed."""
    import polars as pl

    try:
        found = find_columns(_FRAME, frame.collect_schema().names(), named)
        # By position, not by name: polars would take ^user$ for a pattern.
        wanted = frame.lazy().select(pl.nth(at).alias(role) for role, at in found.items()).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refusal(_FRAME, f"cannot be computed: {shorten(str(error), 100)}") from error
    _add_arrow(table, wanted, {role: role for role in found})


def _add_pandas(table: RatingsTable, frame: Any, named: Named) -> None:  # noqa: ANN401
    """Add numbers as arrays and everything else as Python values, which pandas has many ways to store."""
    columns: dict[str, Any] = {}
    for role, at in find_columns(_FRAME, [str(name) for name in frame.columns], named).items():
        column = frame.iloc[:, at]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            columns[role] = column.to_numpy()
            continue
        values = zip(column.tolist(), column.isna().to_numpy(), strict=True)
        columns[role] = [None if absent else value for value, absent in values]
        if role == "time":
            columns[role] = [each.isoformat() if isinstance(each, datetime | date) else each for each in columns[role]]
    if len(columns["user"]):
        add_values(table, columns)


def add_query(table: RatingsTable, query: Query) -> None:
    """Add the rows of a query to a table, some at a time."""
    table.options.refuse_unused(f"is for files of ratings, not for {query}", "delimiter", "encoding", "format")
    if query.file is None:
        _add_postgresql(table, query)
    else:
        _add_sqlite(table, query, Path(query.file))
    if not table.report.rows:
        raise file_refusal(str(query), "it returns no rows")


def _positions(table: RatingsTable, header: list[str]) -> dict[str, int]:
    if len(header) < 2:
        raise file_refusal(table.report.name, f"it selects {len(header)} column; a user and an item column are needed")
    return find_named(table.report.name, header, table.options.columns, need_rating=table.options.need_rating)


def _add_postgresql(table: RatingsTable, query: Query) -> None:
    """Add the rows of a query that can change nothing in a PostgreSQL database."""
    SQL.require()
    import pyarrow as pa

    dbapi = import_module("adbc_driver_postgresql.dbapi")
    try:
        # A line feed, so that a comment at the end does not swallow what the driver appends.
        statement = query.sql.strip().rstrip("; \t\r\n") + "\n"
        with dbapi.connect(query.address, autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(statement)
            with cursor.fetch_record_batch() as results:
                at = _positions(table, results.schema.names)
                for batch in results:
                    if batch.num_rows:
                        columns = {role: _plain_column(batch.column(position)) for role, position in at.items()}
                        add_columns(table, pa.table(columns), at)
    except InputError:
        raise
    except (dbapi.Error, OSError, ValueError) as error:
        # Without its cause: a traceback would show the message of the driver.
        raise refusal(str(query), query.cleaned(str(error))) from None


def add_columns(table: RatingsTable, given: object, roles: Iterable[str], *, with_faults: bool = False) -> None:
    """Add rows whose columns are called as their roles; one more may say what is wrong with a row."""
    table.connection.register(_GIVEN, given)
    kinds = {name: kind for name, kind, *_ in table.connection.execute(f"DESCRIBE {_GIVEN}").fetchall()}
    typed = {role: (identifier(role), kinds[role], None) for role in roles}
    source = typed_source(table.report.name, _GIVEN, typed, table.options, table.report.rows)
    if with_faults:
        source = replace(source, valid="fault IS NULL", record="fault", explain=lambda fault: fault)
    table.add(source)
    table.connection.unregister(_GIVEN)


def add_values(table: RatingsTable, columns: Mapping[str, list[Any] | npt.NDArray[Any]]) -> None:
    """Add rows of Python values: arrays of numbers as they are, other values each by its own type."""
    rows = len(columns["user"])
    given: dict[str, npt.NDArray[Any]] = {"fault": np.empty(rows, dtype=object)}
    for role, values in columns.items():
        if not isinstance(values, list):
            given[role] = values
            continue
        kept = np.empty(rows, dtype=object)
        for row, value in enumerate(values):
            try:
                kept[row] = None if value is None else judged(role, value)
            except ValueError as error:
                given["fault"][row] = given["fault"][row] or str(error)
        given[role] = kept.astype(np.float64) if role == "rating" else kept  # None becomes NaN
    add_columns(table, given, columns, with_faults=True)


def _plain_column(column: "pa.Array") -> "pa.Array":
    """Return a column in a type of Arrow; PostgreSQL's ``numeric`` arrives as text in a type of its own."""
    storage = getattr(column, "storage", column)
    return storage.cast("double") if getattr(column.type, "type_name", "") == "numeric" else storage


def _add_sqlite(table: RatingsTable, query: Query, file: Path) -> None:
    """Add the rows of a query to a SQLite file, which is opened for reading alone and not created."""
    with explaining_os_errors(file), file.open("rb"):  # the driver gives no reason
        pass
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as connection:
            # Half of a surrogate pair stands for a byte that is not UTF-8: its row alone is then bad.
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            results = connection.execute(query.sql)
            at = _positions(table, [str(column[0]) for column in results.description or ()])
            while batch := results.fetchmany(_SQLITE_ROWS):
                add_values(table, {role: [row[place] for row in batch] for role, place in at.items()})
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise refusal(str(query), query.cleaned(str(error))) from None
