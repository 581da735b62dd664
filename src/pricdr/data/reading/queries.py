"""Read ratings from a database: the rows of one query, over a connection that only reads.

PostgreSQL states the type of every column, and ADBC hands its rows over as they are. A column of SQLite has no type,
only its values have, and the ADBC driver guesses one from the first rows: a single text among the times rounds all
others. So SQLite is read through Python's own driver, value by value.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from pricdr.data.reading.columns import find_named
from pricdr.data.reading.formats import identifier, judged, typed_source
from pricdr.data.reading.inputs import Query
from pricdr.data.reading.read import RatingsTable
from pricdr.data.reading.text_files import explaining_os_errors, file_refusal, refusal
from pricdr.errors import InputError
from pricdr.extras import SQL

if TYPE_CHECKING:
    import pyarrow as pa

_GIVEN = "given"
_SQLITE_ROWS = 1 << 16


def add_query(table: RatingsTable, query: Query) -> None:
    """Add the rows of a query to a table, some at a time."""
    table.options.refuse_unused(f"is for files of ratings, not for {query}", "delimiter", "encoding", "format")
    (_add_sqlite if query.database == "sqlite" else _add_postgresql)(table, query)
    if not table.rows:
        raise file_refusal(str(query), "it returns no rows")


def _positions(table: RatingsTable, header: list[str]) -> dict[str, int]:
    if len(header) < 2:
        raise file_refusal(table.name, f"it selects {len(header)} column; a user and an item column are needed")
    return find_named(table.name, header, table.options.columns, need_rating=table.options.need_rating)


def _add_postgresql(table: RatingsTable, query: Query) -> None:
    import pyarrow as pa

    with _results(query) as results:
        at = _positions(table, results.schema.names)
        for batch in results:
            if batch.num_rows:
                columns = {role: _plain_column(batch.column(position)) for role, position in at.items()}
                add_columns(table, pa.table(columns), at)


def add_columns(table: RatingsTable, given: object, roles: Iterable[str], *, with_faults: bool = False) -> None:
    """Add rows whose columns are called as their roles; one more may say what is wrong with a row."""
    table.connection.register(_GIVEN, given)
    kinds = {name: kind for name, kind, *_ in table.connection.execute(f"DESCRIBE {_GIVEN}").fetchall()}
    typed = {role: (identifier(role), kinds[role], None) for role in roles}
    source = typed_source(table.name, _GIVEN, typed, table.options, table.rows)
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
    import pyarrow as pa

    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if getattr(column.type, "type_name", "") == "numeric":
        texts = column.storage.to_pylist()
        return pa.array([None if text is None else float(text) for text in texts], pa.float64())
    return column.storage


def _add_sqlite(table: RatingsTable, query: Query) -> None:
    """Add the rows of a query to a SQLite file, which is opened for reading alone and not created."""
    with explaining_os_errors(Path(query.file)), Path(query.file).open("rb"):  # the driver gives no reason
        address = f"file:{quote(query.file)}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            # Half of a surrogate pair stands for a byte that is not UTF-8: its row alone is then bad.
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            results = connection.execute(query.sql)
            header = [str(column[0]) for column in results.description or ()]
            at = _positions(table, header)
            while batch := results.fetchmany(_SQLITE_ROWS):
                add_values(table, {role: [row[place] for row in batch] for role, place in at.items()})
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise refusal(str(query), query.cleaned(str(error))) from None


@contextmanager
def _results(query: Query) -> Iterator["pa.RecordBatchReader"]:
    """Yield the result of a query that can change nothing in a PostgreSQL database."""
    SQL.require()
    dbapi = import_module("adbc_driver_postgresql.dbapi")
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
