"""Read ratings from a database: the rows of one query, through ADBC, over a connection that only reads."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from operator import add
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import ColumnPositions, Columns, find_named
from pricdr.data.reading.kinds import may_be_times, require_kind
from pricdr.data.reading.query import Query
from pricdr.data.reading.raw_ratings import ColumnLoader, RawRatings, in_memory
from pricdr.data.reading.text_files import explaining_os_errors, file_refusal, refusal
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa


def stream_query(
    query: Query, columns: Columns | None, *, need_rating: bool, bad_rows: BadRows | None = None
) -> Iterator[RawRatings]:
    """Yield the rows of a query as they arrive, some at a time: the driver holds about 16 MB of them."""
    rows, any_batch = 0, False
    with _results(query) as results:
        header = [name for name, _ in _typed(results.schema)]
        if len(header) < 2:
            raise file_refusal(str(query), f"it selects {len(header)} column; a user and an item column are needed")
        positions = find_named(str(query), header, columns, need_rating=need_rating)
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


def _typed(schema: "pa.Schema") -> Iterator[tuple[str, Any]]:
    yield from ((column.name, column.type) for column in schema)


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
    package = f"adbc_driver_{query.database}"
    try:
        dbapi = import_module(f"{package}.dbapi")
    except ImportError:
        missing = f"--from needs {package.replace('_', '-')} and pyarrow, which are not installed"
        raise ParameterError(f"{missing}: install them with pip install 'pricdr[sql]'") from None
    try:
        # A line feed, so that a comment at the end does not swallow what the driver appends.
        statement = query.sql.strip().rstrip("; \t\r\n") + "\n"
        with _connected(dbapi, query) as connection, connection.cursor() as cursor:
            if query.database == "postgresql":
                cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(statement)
            with cursor.fetch_record_batch() as results:
                yield results
    except InputError:
        raise
    except (dbapi.Error, OSError, ValueError) as error:
        # Without its cause: a traceback would show the message of the driver.
        raise refusal(str(query), query.cleaned(str(error))) from None


def _connected(dbapi: ModuleType, query: Query) -> AbstractContextManager[Any]:
    """Return a connection; a SQLite file is opened for reading alone, and is not created where there is none."""
    address = query.address
    if query.database == "sqlite":
        with explaining_os_errors(Path(query.file)), Path(query.file).open("rb"):  # the driver gives no reason
            address = f"file:{quote(query.file)}?mode=ro"
    connection: AbstractContextManager[Any] = dbapi.connect(address, autocommit=False)
    return connection
