"""Read ratings from a database: the rows of one query, over a connection that only reads.

PostgreSQL states the type of every column, and ADBC hands its rows over as they are. A column of SQLite has no type,
only its values have, and the ADBC driver guesses one from the first rows: a single text among the times rounds all
others. So SQLite is read through Python's own driver, value by value.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from pricdr.data.reading.columns import ColumnPositions, find_named
from pricdr.data.reading.fields import identifier
from pricdr.data.reading.formats import typed_source
from pricdr.data.reading.options import ReadOptions
from pricdr.data.reading.query import Query
from pricdr.data.reading.table import RatingsTable
from pricdr.data.reading.text_files import explaining_os_errors, file_refusal, refusal
from pricdr.data.reading.values import judged
from pricdr.errors import InputError
from pricdr.extras import SQL

if TYPE_CHECKING:
    import pyarrow as pa

_GIVEN = "given"
_SQLITE_ROWS = 1 << 16


def add_query(table: RatingsTable, query: Query, options: ReadOptions) -> None:
    """Add the rows of a query to a table, some at a time."""
    (_add_sqlite if query.database == "sqlite" else _add_postgresql)(table, query, options)
    if not table.rows:
        raise file_refusal(str(query), "it returns no rows")


def _positions(query: Query, header: list[str], options: ReadOptions) -> dict[str, int]:
    if len(header) < 2:
        raise file_refusal(str(query), f"it selects {len(header)} column; a user and an item column are needed")
    positions: ColumnPositions = find_named(str(query), header, options.columns, need_rating=options.need_rating)
    return {role: at for role, at in positions._asdict().items() if at is not None}


def _add_postgresql(table: RatingsTable, query: Query, options: ReadOptions) -> None:
    import pyarrow as pa

    connection, before = table.connection, 0
    with _results(query) as results:
        at = _positions(query, results.schema.names, options)
        for batch in results:
            if not batch.num_rows:
                continue
            columns = {role: _plain_column(batch.column(position)) for role, position in at.items()}
            connection.register(_GIVEN, pa.table(columns))
            kinds = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE {_GIVEN}").fetchall()}
            typed = {role: (identifier(role), kinds[role]) for role in columns}
            table.add(typed_source(str(query), _GIVEN, typed, {f'"{role}"': role for role in columns}, options, before))
            connection.unregister(_GIVEN)
            before += batch.num_rows


def _plain_column(column: "pa.Array") -> "pa.Array":
    """Return a column in a type of Arrow; PostgreSQL's ``numeric`` arrives as text in a type of its own."""
    import pyarrow as pa

    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if getattr(column.type, "type_name", "") == "numeric":
        texts = column.storage.to_pylist()
        return pa.array([None if text is None else float(text) for text in texts], pa.float64())
    return column.storage


def _add_sqlite(table: RatingsTable, query: Query, options: ReadOptions) -> None:
    """Add the rows of a query to a SQLite file, which is opened for reading alone and not created."""
    with explaining_os_errors(Path(query.file)), Path(query.file).open("rb"):  # the driver gives no reason
        address = f"file:{quote(query.file)}?mode=ro"
    before = 0
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            # Half of a surrogate pair stands for a byte that is not UTF-8: its row alone is then bad.
            connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            results = connection.execute(query.sql)
            header = [str(column[0]) for column in results.description or ()]
            at = _positions(query, header, options)
            while batch := results.fetchmany(_SQLITE_ROWS):
                columns = {role: [row[place] for row in batch] for role, place in at.items()}
                add_values(table, str(query), columns, options, before)
                before += len(batch)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise refusal(str(query), query.cleaned(str(error))) from None


def add_values(
    table: RatingsTable,
    name: str,
    columns: Mapping[str, list[Any] | npt.NDArray[Any]],
    options: ReadOptions,
    before: int = 0,
) -> None:
    """Add rows of Python values: arrays of numbers as they are, other values each by its own type."""
    faults: dict[int, str] = {}
    given: dict[str, npt.NDArray[Any]] = {}
    for role, values in columns.items():
        if not isinstance(values, list):
            given[role] = values
            continue
        kept: list[Any] = []
        for row, value in enumerate(values):
            try:
                kept.append(None if value is None else judged(role, value))
            except ValueError as error:
                faults.setdefault(row, f": {error}")
                kept.append(None)
        missing = [np.nan if value is None else value for value in kept] if role == "rating" else kept
        given[role] = np.array(missing, dtype=np.float64 if role == "rating" else object)
    given["row"] = np.arange(len(given["user"]))
    connection = table.connection
    connection.register(_GIVEN, given)
    kinds = {column: kind for column, kind, *_ in connection.execute(f"DESCRIBE {_GIVEN}").fetchall()}
    typed = {role: (identifier(role), kinds[role]) for role in columns}
    source = typed_source(name, _GIVEN, typed, {}, options, before)
    explain = source.fault

    def fault(row: int, *values: Any) -> str:  # noqa: ANN401
        return faults.get(row) or explain(*values)

    table.add(replace(source, record=('"row"', *source.record), fault=fault))
    connection.unregister(_GIVEN)


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
