"""Ratings from data frames: polars, pandas, and whatever speaks Arrow. None of these libraries is needed here.

A frame is held to the rules of a file: the same column names, the same refusals, the same merging of repeated pairs.
"""

import os
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, TypeAlias

import numpy as np

from pricdr.data.reading.columns import find_named
from pricdr.data.reading.formats import ReadOptions, typed_source
from pricdr.data.reading.queries import add_values
from pricdr.data.reading.read import MemoryReading, RatingsTable, connected, encode, explained
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError
from pricdr.memory import memory_limit

Named: TypeAlias = Mapping[str, str]
"""The columns that the caller names, by role; the others are found by the names that files may use."""
_FRAME: Final = "the data frame"
"""What errors name where they would name a file."""
_GIVEN: Final = "given"


def read_frame(frame: Any, named: Named, *, with_times: bool = False) -> MemoryReading:  # noqa: ANN401
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
        table = RatingsTable(connection, _FRAME, ReadOptions(time_asked="time" in named))
        add(table, frame, named)
        if not table.rows:
            raise refusal(_FRAME, "it has columns and no rows")
        return encode(table, with_times=with_times)


class _Stream:
    """Offers the Arrow PyCapsule interface of a table and nothing else: DuckDB then needs no other library."""

    def __init__(self, table: Any) -> None:  # noqa: ANN401
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def _add_arrow(table: RatingsTable, frame: Any, named: Named) -> None:  # noqa: ANN401
    """Add the rows of a table that speaks Arrow."""
    import duckdb

    connection = table.connection
    if hasattr(frame, "read_all"):  # a stream, which can be read only once
        frame = frame.read_all()
    try:
        connection.register(_GIVEN, _Stream(frame))
        described = connection.execute(f"DESCRIBE {_GIVEN}").fetchall()
    except (duckdb.Error, AttributeError, ValueError, TypeError) as error:
        raise refusal(_FRAME, f"cannot be read: {shorten(str(error), 100)}") from error
    # By position: DuckDB gives other names to columns that differ only in their case.
    columns = [(f"c{at}", kind, None) for at, (_, kind, *_) in enumerate(described)]
    typed = {role: columns[at] for role, at in find_named(_FRAME, [name for name, *_ in described], named).items()}
    given = f"(SELECT * FROM {_GIVEN} AS {_GIVEN}({', '.join(name for name, *_ in columns)}))"
    table.add(typed_source(_FRAME, given, typed, table.options))


def _add_polars(table: RatingsTable, frame: Any, named: Named) -> None:  # noqa: ANN401
    """Add the rows of a polars frame; of a lazy one only the columns that are read are computed."""
    import polars as pl

    try:
        found = find_named(_FRAME, frame.collect_schema().names(), named)
        # By position, not by name: polars would take ^user$ for a pattern.
        wanted = frame.lazy().select(pl.nth(at).alias(role) for role, at in found.items()).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refusal(_FRAME, f"cannot be computed: {shorten(str(error), 100)}") from error
    _add_arrow(table, wanted, {role: role for role in found})


def _add_pandas(table: RatingsTable, frame: Any, named: Named) -> None:  # noqa: ANN401
    """Add numbers as arrays and everything else as Python values, which pandas has many ways to store."""
    columns: dict[str, Any] = {}
    for role, at in find_named(_FRAME, [str(name) for name in frame.columns], named).items():
        column = frame.iloc[:, at]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            columns[role] = column.to_numpy()
            continue
        values = zip(column.tolist(), column.isna().to_numpy(), strict=True)
        columns[role] = [None if absent else _plain(role, value) for value, absent in values]
    if len(columns["user"]):
        add_values(table, columns)


def _plain(role: str, value: object) -> object:
    return value.isoformat() if role == "time" and isinstance(value, datetime | date) else value
