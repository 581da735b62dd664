"""Ratings from a database: the rows of one query, read through ADBC as they come, without writing anything."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import polars as pl

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import ColumnPositions, Columns, find_named
from pricdr.data.reading.kinds import may_be_times, require_kind
from pricdr.data.reading.raw_ratings import ColumnLoader, RawRatings, in_memory
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.errors import InputError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

_ENVIRONMENT: Final = "env:"
_SCHEMES: Final = ("postgresql", "postgres")
_ADDRESS: Final = re.compile(
    r"(?P<scheme>[a-z]+)://((?P<user>[^:@/?#\s]*)(:(?P<password>[^@/?#\s]*))?@)?[^@/?#\s]*(/[^@/?#\s]*)?"
    r"(\?(?P<options>[^#\s]*))?"
)
"""Stricter than drivers are: they would take part of a password that is not escaped for a port, and quote it."""
_SECRET_OPTIONS: Final = ("password", "sslpassword")
_LONGEST_REASON: Final = 300


@dataclass(frozen=True)
class Query:
    """A query and the database that it is put to. The address may hold a password, and is never shown."""

    address: str = field(repr=False)
    sql: str = field(repr=False)

    @classmethod
    def of(cls, source: str, sql: str) -> "Query":
        """Return the query; ``source`` is an address, or ``env:NAME`` for the variable that holds it.

        >>> Query.of("postgresql://bob:secret@db.example.com/shop", "SELECT …")
        Query()
        >>> str(Query.of("postgresql:///shop", "SELECT …"))
        'the postgresql query'
        """
        address, origin = source, "--from"
        if source.startswith(_ENVIRONMENT):
            name = source.removeprefix(_ENVIRONMENT)
            origin = f"the environment variable {shorten(name)}"
            address = os.environ.get(name, "")
            if not address:
                raise ParameterError(f"{origin} is not set, and --from names it as the address of a database")
        parts = _ADDRESS.fullmatch(address)
        if parts is None or parts["scheme"] not in _SCHEMES:
            form = "postgresql://user:password@host:port/database"
            rule = "with / ? # @ and blanks in it written as %2F, %3F, %23, %40, %20"
            raise ParameterError(f"{origin} must read {form}, {rule}; what it holds is not shown, for its password")
        if not sql.strip(" \t\r\n;"):
            raise ParameterError("--query is empty; it must select a user, an item and perhaps a rating and a time")
        return cls(address, sql)

    def __str__(self) -> str:
        return "the postgresql query"

    def cleaned(self, text: str) -> str:
        """Return what a driver says in one line, without the address, passwords, and the query itself."""
        parts = _ADDRESS.fullmatch(self.address)
        assert parts is not None
        options = [option.partition("=") for option in (parts["options"] or "").split("&")]
        secrets = [parts["password"] or "", *(value for key, _, value in options if key in _SECRET_OPTIONS)]
        # Before anything is cut: half of a password is one half too much.
        for secret in sorted({self.address, *secrets, *map(unquote, secrets)}, key=len, reverse=True):
            text = text.replace(secret, "…") if secret else text
        reason = re.sub(r"^[A-Z_]+: ", "", text.partition("Query was:")[0])
        return " ".join(reason.split())[:_LONGEST_REASON]


def stream_query(
    query: Query, columns: Columns | None, *, need_rating: bool, bad_rows: BadRows | None = None
) -> Iterator[RawRatings]:
    """Yield the rows of a query as they come, some at a time: the driver holds about 16 MB of them."""
    rows, any_batch = 0, False
    with _results(query) as results:
        header = [name for name, _ in _typed(results.schema)]
        if len(header) < 2:
            raise refusal(str(query), f"it selects {len(header)} column; a user and an item column are needed")
        positions = find_named(str(query), header, columns, need_rating=need_rating)
        asked = columns is not None and columns.time is not None
        for batch in results:
            if not batch.num_rows:
                continue
            loaders = _loaders(query, batch, positions, time_asked=asked)
            number = partial(add, rows)
            rows += batch.num_rows
            any_batch = True
            yield RawRatings(str(query), batch.num_rows, loaders, number=number, time_asked=asked, bad_rows=bad_rows)
    if not any_batch:
        raise refusal(str(query), "it gives no rows")


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
    """Return a column; numbers of any precision come as text of a type of their own, and are read as numbers."""
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
    """Yield the result of a query, in a transaction that can only read."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        missing = "--from needs adbc-driver-postgresql and pyarrow, which are not installed"
        raise ParameterError(f"{missing}: install them with pip install 'pricdr[sql]'") from None
    try:
        # A line feed, so that a comment at the end does not swallow what the driver puts after it.
        statement = query.sql.strip().rstrip("; \t\r\n") + "\n"
        with dbapi.connect(query.address, autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(statement)
            with cursor.fetch_record_batch() as results:
                yield results
    except InputError:
        raise
    except (dbapi.Error, OSError, ValueError) as error:
        # Without its cause: a traceback would show what the driver said.
        raise refusal(str(query), query.cleaned(str(error))) from None
