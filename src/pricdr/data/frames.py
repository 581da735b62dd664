"""Ratings from data frames and back: polars, pandas, and whatever speaks Arrow.

A frame is held to the rules of a file: the same column names, the same refusals, the same merging of repeated pairs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import polars as pl

from pricdr.data.ratings import Ratings
from pricdr.data.reading.columns import find_in_frame
from pricdr.data.reading.raw_ratings import RawRatings, encode, in_memory, to_ratings
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_FRAME: Final = "the data frame"
"""What errors name where they would name a file."""


def ratings_from_polars(frame: pl.DataFrame, user: str | None, item: str | None, rating: str | None) -> Ratings:
    """Return the ratings in a polars data frame."""
    if not isinstance(frame, pl.DataFrame):
        raise InputError(f"from_polars takes a polars DataFrame, got {_kind_of(frame)}")
    places = find_in_frame(_FRAME, frame.columns, user=user, item=item, rating=rating)
    return _ratings({role: frame.to_series(at) for role, at in places._asdict().items() if at is not None})


def ratings_from_pandas(frame: "pd.DataFrame", user: str | None, item: str | None, rating: str | None) -> Ratings:
    """Return the ratings in a pandas data frame; neither pandas nor pyarrow is imported."""
    if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
        raise InputError(f"from_pandas takes a pandas DataFrame, got {_kind_of(frame)}")
    places = find_in_frame(_FRAME, [str(name) for name in frame.columns], user=user, item=item, rating=rating)
    columns = {role: frame.iloc[:, at] for role, at in places._asdict().items() if at is not None}
    return _ratings({role: _pandas_column(role, column) for role, column in columns.items()})


def ratings_from_arrow(table: object, user: str | None, item: str | None, rating: str | None) -> Ratings:
    """Return the ratings in a table that offers the Arrow PyCapsule interface."""
    if not (hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")):
        raise InputError(f"from_arrow takes a table with the Arrow PyCapsule interface, got {_kind_of(table)}")
    try:
        frame = pl.DataFrame(cast(Any, table))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError) as error:
        raise refusal(_FRAME, f"cannot be read: {shorten(str(error), 100)}") from error
    return ratings_from_polars(frame, user, item, rating)


def ratings_to_polars(ratings: Ratings) -> pl.DataFrame:
    """Return one row per rated pair: ``user``, ``item`` and, where values mean something, ``rating``."""
    matrix = ratings.matrix
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    columns = {
        "user": pl.Series(ratings.users, dtype=pl.String).gather(rows),
        "item": pl.Series(ratings.items, dtype=pl.String).gather(matrix.indices),
    }
    if ratings.has_values:
        columns["rating"] = pl.Series(matrix.data)
    return pl.DataFrame(columns)


def ratings_to_pandas(ratings: Ratings) -> "pd.DataFrame":
    """Return the same rows as a pandas data frame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_pandas needs pandas, which is not installed (pip install pandas)") from error
    # Column by column: polars' own to_pandas needs pyarrow as well.
    frame = ratings_to_polars(ratings)
    columns = {column.name: column.to_list() if column.dtype == pl.String else column.to_numpy() for column in frame}
    return pd.DataFrame(columns)


def ratings_to_arrow(ratings: Ratings) -> "pa.Table":
    """Return the same rows as a pyarrow table."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("to_arrow needs pyarrow, which is not installed (pip install pyarrow)") from error
    return ratings_to_polars(ratings).to_arrow()


def _ratings(columns: dict[str, pl.Series]) -> Ratings:
    for role, column in columns.items():
        _require_kind(role, column)
    rows = len(columns["user"])
    if not rows:
        raise refusal(_FRAME, "it has columns and no rows")
    for role in ("user", "item"):
        missing = columns[role].is_null()
        if missing.any():
            raise refusal(_FRAME, f"row {(missing.arg_max() or 0) + 1}: the {role} id is empty (null)")
        columns[role] = columns[role].cast(pl.String)  # codes of categories must not become ids
    raw = RawRatings(_FRAME, rows, {role: in_memory(column) for role, column in columns.items()})
    return to_ratings(encode(raw), raw)


def _require_kind(role: str, column: pl.Series) -> None:
    """Require the types that a Parquet file may have."""
    kind = column.dtype
    if role == "rating":
        if not kind.is_numeric():
            raise refusal(_FRAME, f"the rating column holds {kind}; ratings must be numbers")
    elif not (kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum)):
        raise refusal(_FRAME, f"the {role} column holds {kind}; ids must be text or whole numbers")


def _pandas_column(role: str, column: "pd.Series[Any]") -> pl.Series:
    """Return a pandas column as polars would have it; pandas has many ways to store the same values."""
    # Through Python values: there is no other way that all of its types share and that needs no pyarrow.
    missing = column.isna().to_numpy()
    values: Sequence[Any] = [None if absent else value for value, absent in zip(column.tolist(), missing, strict=True)]
    try:
        if role == "rating" and all(isinstance(value, int | float | None) for value in values):
            return pl.Series([None if value is None else float(value) for value in values], dtype=pl.Float64)
        return pl.Series(values) if len(values) else pl.Series(values, dtype=pl.String)
    except TypeError as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise refusal(_FRAME, f"the {role} column mixes {' and '.join(kinds[:3])}; use one kind throughout") from error
    except (UnicodeEncodeError, OverflowError) as error:
        fault = f"the {role} column holds a value that cannot be used"
        raise refusal(_FRAME, f"{fault}: {shorten(str(error), 80)}") from error


def _kind_of(value: object) -> str:
    return shorten(f"{type(value).__module__}.{type(value).__qualname__}", 60)
