"""Ratings from data frames and back: polars, pandas, and whatever speaks Arrow. None of these libraries is needed here.

A frame is held to the rules of a file: the same column names, the same refusals, the same merging of repeated pairs.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import Float64Array
from pricdr.data.ratings import Ratings
from pricdr.data.reading.columns import find_in_frame
from pricdr.data.reading.formats import typed_source
from pricdr.data.reading.options import ReadOptions
from pricdr.data.reading.queries import add_values
from pricdr.data.reading.read import encode
from pricdr.data.reading.table import RatingsTable, connected, explained
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError
from pricdr.memory import memory_limit

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_FRAME: Final = "the data frame"
"""What errors name where they would name a file."""
_GIVEN: Final = "given"
Columns = dict[str, npt.NDArray[Any]]


class Named(NamedTuple):
    """The columns that the caller names; the others are found by the names that files may use."""

    user: str | None = None
    item: str | None = None
    rating: str | None = None
    time: str | None = None


def ratings_from_any(frame: object, named: Named) -> Ratings:
    """Return the ratings in a data frame of any kind: polars (lazy too), pandas, or a table that speaks Arrow."""
    with _table_of(frame, named) as table:
        return encode(table).ratings


def ratings_and_times(frame: object, time: str) -> tuple[Ratings, Float64Array]:
    """Return the ratings in a data frame of any kind, and when each of them was made by its column ``time``.

    The times are in the order of the ratings, which is not that of the frame's rows.
    """
    with _table_of(frame, Named(time=time)) as table:
        encoded = encode(table, need_times=True)
    assert encoded.times is not None  # a column that is named is there, and so is every time in it, or it is refused
    return encoded.ratings, encoded.times


def ratings_from_polars(frame: "pl.DataFrame | pl.LazyFrame", named: Named) -> Ratings:
    """Return the ratings in a polars data frame; of a lazy one only the columns that are read are computed."""
    if not _is_polars(frame):
        raise InputError(f"from_polars takes a polars DataFrame or LazyFrame, got {_kind_of(frame)}")
    return ratings_from_any(frame, named)


def ratings_from_pandas(frame: "pd.DataFrame", named: Named) -> Ratings:
    """Return the ratings in a pandas data frame; neither pandas nor pyarrow is imported."""
    if not _is_pandas(frame):
        raise InputError(f"from_pandas takes a pandas DataFrame, got {_kind_of(frame)}")
    return ratings_from_any(frame, named)


def ratings_from_arrow(table: object, named: Named) -> Ratings:
    """Return the ratings in a table that offers the Arrow PyCapsule interface."""
    if not _speaks_arrow(table):
        raise InputError(f"from_arrow takes a table with the Arrow PyCapsule interface, got {_kind_of(table)}")
    return ratings_from_any(table, named)


@contextmanager
def _table_of(frame: object, named: Named) -> Iterator[RatingsTable]:
    """Yield the checked rows of a data frame."""
    options = ReadOptions(time_asked=named.time is not None)
    memory = memory_limit()
    with (
        Workspace.opened(Path(gettempdir())) as workspace,
        explained(_FRAME, workspace, memory),
        connected(workspace, [], memory) as connection,
    ):
        table = RatingsTable(connection, _FRAME, time_asked=options.time_asked)
        if _is_polars(frame):
            _add_arrow(table, *_polars_columns(cast("pl.DataFrame | pl.LazyFrame", frame), named), options)
        elif _is_pandas(frame):
            columns = _pandas_columns(cast("pd.DataFrame", frame), named)
            if len(columns["user"]):
                add_values(table, _FRAME, columns, options)
        elif _speaks_arrow(frame):
            _add_arrow(table, frame, None, options, named)
        else:
            hint = ": read a file with read_ratings" if isinstance(frame, str | os.PathLike) else ""
            kinds = "Ratings or a data frame (polars, pandas, Arrow)"
            raise InputError(f"ratings must be {kinds}, got {_kind_of(frame)}{hint}")
        if not table.rows:
            raise refusal(_FRAME, "it has columns and no rows")
        yield table


class _Stream:
    """Offers the Arrow PyCapsule interface of a table and nothing else: DuckDB then needs no other library."""

    def __init__(self, table: object) -> None:
        self._table = cast(Any, table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def _add_arrow(
    table: RatingsTable, frame: object, places: dict[str, int] | None, options: ReadOptions, named: Named | None = None
) -> None:
    """Add the rows of a table; its columns are found by their names, unless their places are given."""
    import duckdb

    connection = table.connection
    if hasattr(frame, "read_all"):  # a stream, which can be read only once
        frame = frame.read_all()
    try:
        connection.register(_GIVEN, _Stream(frame))
        described = connection.execute(f"DESCRIBE {_GIVEN}").fetchall()
    except (duckdb.Error, AttributeError, ValueError, TypeError) as error:
        raise refusal(_FRAME, f"cannot be read: {shorten(str(error), 100)}") from error
    header, kinds = [row[0] for row in described], [row[1] for row in described]
    if places is None:
        found = find_in_frame(_FRAME, header, (named or Named())._asdict())
        places = {role: at for role, at in found._asdict().items() if at is not None}
    columns = ", ".join(f"c{at}" for at in range(len(header)))
    typed = {role: (f"c{at}", kinds[at]) for role, at in places.items()}
    table.add(typed_source(_FRAME, f"(SELECT * FROM {_GIVEN} AS {_GIVEN}({columns}))", typed, {}, options))


def _polars_columns(frame: "pl.DataFrame | pl.LazyFrame", named: Named) -> tuple["pl.DataFrame", dict[str, int]]:
    """Return the columns that are read, and the place of each role among them."""
    import polars as pl

    try:
        header = frame.collect_schema().names()
        found = find_in_frame(_FRAME, header, named._asdict())
        places = [at for at in found if at is not None]
        # By position, not by name: polars would take ^user$ for a pattern.
        wanted = frame.lazy().select(pl.nth(at).alias(f"c{order}") for order, at in enumerate(places)).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refusal(_FRAME, f"cannot be computed: {shorten(str(error), 100)}") from error
    roles = [role for role, at in found._asdict().items() if at is not None]
    return wanted, {role: order for order, role in enumerate(roles)}


def _pandas_columns(frame: "pd.DataFrame", named: Named) -> dict[str, Any]:
    """Return numbers as arrays and everything else as Python values, which pandas has many ways to store."""
    places = find_in_frame(_FRAME, [str(name) for name in frame.columns], named._asdict())
    columns: dict[str, Any] = {}
    for role, at in places._asdict().items():
        if at is None:
            continue
        column = frame.iloc[:, at]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            columns[role] = column.to_numpy()
            continue
        values = zip(column.tolist(), column.isna().to_numpy(), strict=True)
        columns[role] = [None if absent else _plain(role, value) for value, absent in values]
    return columns


def _plain(role: str, value: object) -> object:
    return value.isoformat() if role == "time" and isinstance(value, datetime | date) else value


def _is_polars(frame: object) -> bool:
    return hasattr(frame, "collect_schema") and hasattr(frame, "lazy")


def _is_pandas(frame: object) -> bool:
    return hasattr(frame, "columns") and hasattr(frame, "iloc")


def _speaks_arrow(table: object) -> bool:
    return hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")


def _kind_of(value: object) -> str:
    return shorten(f"{type(value).__module__}.{type(value).__qualname__}", 60)
