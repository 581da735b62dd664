"""Read ratings from a database: the rows of one query, over a connection that only reads.

PostgreSQL states the type of every column, and ADBC hands its rows over as they are. A column of SQLite has no type,
only its values have, and the ADBC driver guesses one from the first rows: a single text among the times rounds all
others. So SQLite is read through Python's own driver, value by value.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import ColumnPositions, Columns, find_named
from pricdr.data.reading.kinds import may_be_times, require_kind
from pricdr.data.reading.query import Query
from pricdr.data.reading.raw_ratings import ColumnLoader, RawRatings, in_memory, place
from pricdr.data.reading.text_files import explaining_os_errors, file_refusal, refusal
from pricdr.data.reading.values import judged
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

_SQLITE_ROWS = 1 << 16


def stream_query(
    query: Query, columns: Columns | None, *, need_rating: bool, bad_rows: BadRows | None = None
) -> Iterator[RawRatings]:
    """Yield the rows of a query as they arrive, some at a time."""
    if query.database == "sqlite":
        yield from _stream_sqlite(query, columns, need_rating=need_rating, bad_rows=bad_rows)
        return
    rows, any_batch = 0, False
    with _results(query) as results:
        positions = _positions(query, results.schema.names, columns, need_rating=need_rating)
        time_asked = columns is not None and columns.time is not None
        for batch in results:
            if not batch.num_rows:
                continue
            loaders = _loaders(query, batch, positions, time_asked=time_asked)
            number = partial(add, rows)
            rows += batch.num_rows
            any_batch = True
            yield RawRatings(
                str(query), batch.num_rows, loaders, number=number, time_asked=time_asked, bad_rows=bad_rows
            )
    if not any_batch:
        raise file_refusal(str(query), "it returns no rows")


def _positions(query: Query, header: list[str], columns: Columns | None, *, need_rating: bool) -> ColumnPositions:
    if len(header) < 2:
        raise file_refusal(str(query), f"it selects {len(header)} column; a user and an item column are needed")
    return find_named(str(query), header, columns, need_rating=need_rating)


def _stream_sqlite(
    query: Query, columns: Columns | None, *, need_rating: bool, bad_rows: BadRows | None
) -> Iterator[RawRatings]:
    """Yield the rows of a query to a SQLite file, which is opened for reading alone and not created."""
    with explaining_os_errors(Path(query.file)), Path(query.file).open("rb"):  # the driver gives no reason
        address = f"file:{quote(query.file)}?mode=ro"
    row = 0
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            # Half of a surrogate pair stands for a byte that is not UTF-8: its row alone is then bad.
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            results = connection.execute(query.sql)
            header = [str(column[0]) for column in results.description or ()]
            positions = _positions(query, header, columns, need_rating=need_rating)
            roles = {role: at for role, at in positions._asdict().items() if at is not None}
            while batch := results.fetchmany(_SQLITE_ROWS):
                kept, numbers = _judged_rows(query, batch, roles, row, bad_rows)
                row += len(batch)
                loaders = {
                    role: in_memory(pl.Series(values, dtype=pl.Float64 if role == "rating" else pl.String))
                    for role, values in kept.items()
                }
                part = RawRatings(str(query), len(numbers), loaders, number=numbers.__getitem__, bad_rows=bad_rows)
                part.time_asked = columns is not None and columns.time is not None
                yield part
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise refusal(str(query), query.cleaned(str(error))) from None
    if not row:
        raise file_refusal(str(query), "it returns no rows")


def _judged_rows(
    query: Query, batch: list[tuple[Any, ...]], roles: dict[str, int], before: int, bad_rows: BadRows | None
) -> tuple[dict[str, list[Any]], list[int]]:
    """Return the values of the good rows by their roles, and the numbers of these rows."""
    kept: dict[str, list[Any]] = {role: [] for role in roles}
    numbers = []
    for number, row in enumerate(batch, start=before):
        try:
            values = [judged(role, row[at]) for role, at in roles.items()]
        except ValueError as error:
            fault = f"{place(number, None)}: {error}"
            if bad_rows is None:
                raise refusal(str(query), fault) from error
            bad_rows.add(number, fault)
            continue
        numbers.append(number)
        for column, value in zip(kept.values(), values, strict=True):
            column.append(value)
    return kept, numbers


def _loaders(
    query: Query, batch: "pa.RecordBatch", positions: ColumnPositions, *, time_asked: bool
) -> dict[str, ColumnLoader]:
    """Return the columns of some rows by their roles."""
    loaders: dict[str, ColumnLoader] = {}
    for role, at in positions._asdict().items():
        if at is None:
            continue
        column = _series(batch.column(at))
        if role == "time" and not time_asked and not may_be_times(column.dtype):
            continue
        require_kind(str(query), role, column.dtype)
        loaders[role] = in_memory(column.cast(pl.String) if role in ("user", "item") else column)
    return loaders


def _series(column: "pa.Array") -> pl.Series:
    """Return a column; PostgreSQL's ``numeric`` arrives as text in an extension type, and is read as numbers."""
    import pyarrow as pa

    if not isinstance(column.type, pa.BaseExtensionType):
        series = pl.from_arrow(column)
    elif getattr(column.type, "type_name", "") == "numeric":
        series = pl.from_arrow(column.storage).cast(pl.Float64, strict=False)
    else:
        series = pl.from_arrow(column.storage)
    assert isinstance(series, pl.Series)
    return series.alias("")


@contextmanager
def _results(query: Query) -> Iterator["pa.RecordBatchReader"]:
    """Yield the result of a query that can change nothing in the database."""
    try:
        dbapi = import_module("adbc_driver_postgresql.dbapi")
    except ImportError:
        missing = "--from needs adbc-driver-postgresql and pyarrow, which are not installed"
        raise ParameterError(f"{missing}: install them with pip install 'pricdr[sql]'") from None
    try:
        # A line feed, so that a comment at the end does not swallow what the driver appends.
        statement = query.sql.strip().rstrip("; \t\r\n") + "\n"
        with dbapi.connect(query.address, autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(statement)
            with cursor.fetch_record_batch() as results:
                yield results
    except InputError:
        raise
    except (dbapi.Error, OSError, ValueError) as error:
        # Without its cause: a traceback would show the message of the driver.
        raise refusal(str(query), query.cleaned(str(error))) from None
