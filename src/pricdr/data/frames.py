"""Ratings from data frames and back: polars, pandas, and whatever speaks Arrow.

A frame is held to the rules of a file: the same column names, the same refusals, the same merging of repeated pairs.
"""

import os
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import polars as pl

from pricdr.data.csr import entry_rows
from pricdr.data.hold_out_rules import Float64Array
from pricdr.data.ratings import Ratings
from pricdr.data.reading.columns import find_in_frame
from pricdr.data.reading.kinds import may_be_times, require_kind
from pricdr.data.reading.raw_ratings import RawRatings, encode, in_memory, to_ratings
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_FRAME: Final = "the data frame"
"""What errors name where they would name a file."""


class Named(NamedTuple):
    """The columns that the caller names; the others are found by the names that files may use."""

    user: str | None = None
    item: str | None = None
    rating: str | None = None
    time: str | None = None


def ratings_from_any(frame: object, named: Named) -> Ratings:
    """Return the ratings in a data frame of any kind: polars (lazy too), pandas, or a table that speaks Arrow."""
    return _ratings(_columns(frame, named), time_asked=named.time is not None)


def ratings_and_times(frame: object, time: str) -> tuple[Ratings, Float64Array]:
    """Return the ratings in a data frame of any kind, and when each of them was made by its column ``time``.

    The times are in the order of the ratings, which is not that of the frame's rows.
    """
    raw = _raw(_columns(frame, Named(time=time)), time_asked=True)
    encoded = encode(raw, need_times=True)
    ratings, times = to_ratings(encoded, _FRAME), encoded.times_in_order()
    assert times is not None  # a column that is named is there, and so is every time in it, or it is refused
    return ratings, times


def _columns(frame: object, named: Named) -> dict[str, pl.Series]:
    """Return the columns of a data frame of any kind by their roles."""
    if isinstance(frame, pl.DataFrame | pl.LazyFrame):
        return _polars_columns(frame, named)
    if _is_pandas(frame):
        return _pandas_columns(cast("pd.DataFrame", frame), named)
    if _speaks_arrow(frame):
        return _polars_columns(_from_arrow(frame), named)
    hint = ": read a file with read_ratings" if isinstance(frame, str | os.PathLike) else ""
    raise InputError(f"ratings must be Ratings or a data frame (polars, pandas, Arrow), got {_kind_of(frame)}{hint}")


def ratings_from_polars(frame: pl.DataFrame | pl.LazyFrame, named: Named) -> Ratings:
    """Return the ratings in a polars data frame; of a lazy one only the columns that are read are computed."""
    if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
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
    return ratings_from_polars(_from_arrow(table), named)


def ratings_to_polars(ratings: Ratings) -> pl.DataFrame:
    """Return one row per rated pair: ``user``, ``item`` and, where values mean something, ``rating``."""
    matrix = ratings.matrix
    columns = {
        "user": pl.Series(ratings.users, dtype=pl.String).gather(entry_rows(matrix)),
        "item": pl.Series(ratings.items, dtype=pl.String).gather(matrix.indices),
    }
    if ratings.has_values:
        columns["rating"] = pl.Series(matrix.data)
    return pl.DataFrame(columns)


def recommendations_to_polars(rows: Iterable[tuple[str, str, float, int, str]]) -> pl.DataFrame:
    """Return one row per recommended item: ``user``, ``item``, ``score``, ``rank`` and ``basis``."""
    schema = {"user": pl.String, "item": pl.String, "score": pl.Float64, "rank": pl.Int64, "basis": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def to_pandas(frame: pl.DataFrame) -> "pd.DataFrame":
    """Return the same rows as a pandas data frame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_pandas needs pandas, which is not installed (pip install pandas)") from error
    # Column by column: polars' own to_pandas needs pyarrow as well.
    columns = {column.name: column.to_list() if column.dtype == pl.String else column.to_numpy() for column in frame}
    return pd.DataFrame(columns)


def to_arrow(frame: pl.DataFrame) -> "pa.Table":
    """Return the same rows as a pyarrow table."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("to_arrow needs pyarrow, which is not installed (pip install pyarrow)") from error
    return frame.to_arrow()


def _is_pandas(frame: object) -> bool:
    return hasattr(frame, "columns") and hasattr(frame, "iloc")


def _speaks_arrow(table: object) -> bool:
    return hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")


def _polars_columns(frame: pl.DataFrame | pl.LazyFrame, named: Named) -> dict[str, pl.Series]:
    if isinstance(frame, pl.LazyFrame):
        frame = _collected(frame, named)
    places = find_in_frame(_FRAME, frame.columns, named._asdict())
    return {role: frame.to_series(at) for role, at in places._asdict().items() if at is not None}


def _pandas_columns(frame: "pd.DataFrame", named: Named) -> dict[str, pl.Series]:
    places = find_in_frame(_FRAME, [str(name) for name in frame.columns], named._asdict())
    columns = {role: frame.iloc[:, at] for role, at in places._asdict().items() if at is not None}
    return {role: _pandas_column(role, column) for role, column in columns.items()}


def _from_arrow(table: object) -> pl.DataFrame:
    try:
        return pl.DataFrame(cast(Any, table))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError) as error:
        raise refusal(_FRAME, f"cannot be read: {shorten(str(error), 100)}") from error


def _collected(frame: pl.LazyFrame, named: Named) -> pl.DataFrame:
    try:
        header = frame.collect_schema().names()
        places = [at for at in find_in_frame(_FRAME, header, named._asdict()) if at is not None]
        # By position, not by name: polars would take ^user$ for a pattern.
        return frame.select(pl.nth(sorted(places))).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refusal(_FRAME, f"cannot be computed: {shorten(str(error), 100)}") from error


def _ratings(columns: dict[str, pl.Series], *, time_asked: bool) -> Ratings:
    raw = _raw(columns, time_asked=time_asked)
    return to_ratings(encode(raw), _FRAME)


def _raw(columns: dict[str, pl.Series], *, time_asked: bool) -> RawRatings:
    if "time" in columns and not time_asked and not may_be_times(columns["time"].dtype):
        del columns["time"]
    for role, column in columns.items():
        require_kind(_FRAME, role, column.dtype)
    rows = len(columns["user"])
    if not rows:
        raise refusal(_FRAME, "it has columns and no rows")
    for role in ("user", "item"):
        columns[role] = columns[role].cast(pl.String)  # codes of categories must not become ids
    # By another name: polars would take ^user$ for a pattern.
    loaders = {role: in_memory(column.alias(role)) for role, column in columns.items()}
    return RawRatings(_FRAME, rows, loaders, time_asked=time_asked)


def _pandas_column(role: str, column: "pd.Series[Any]") -> pl.Series:
    """Return a pandas column as polars would have it; pandas has many ways to store the same values."""
    # Through Python values: there is no other way that all of its types share and that needs no pyarrow.
    missing = column.isna().to_numpy()
    values: Sequence[Any] = [None if absent else value for value, absent in zip(column.tolist(), missing, strict=True)]
    try:
        if role == "time":
            return _pandas_times(values)
        # Not where there are truth values: polars refuses them as ratings, and so do files.
        numbers = all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
        if role == "rating" and numbers:
            return pl.Series([None if value is None else float(value) for value in values], dtype=pl.Float64)
        return pl.Series(values) if len(values) else pl.Series(values, dtype=pl.String)
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise refusal(_FRAME, f"the {role} column mixes {' and '.join(kinds[:3])}; use one kind throughout") from error
    except (UnicodeEncodeError, OverflowError) as error:
        fault = f"the {role} column holds a value that cannot be used"
        raise refusal(_FRAME, f"{fault}: {shorten(str(error), 80)}") from error


def _pandas_times(values: Sequence[Any]) -> pl.Series:
    """Return times as numbers or text, whatever pandas stores them as; null where a value is neither."""
    return pl.Series(list(map(_time_text, values)), dtype=pl.String)


def _time_text(value: object) -> str | None:
    """Return one time as text, whatever the type of the others; a Timestamp is a datetime."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, int | float | str) else None


def _kind_of(value: object) -> str:
    return shorten(f"{type(value).__module__}.{type(value).__qualname__}", 60)
