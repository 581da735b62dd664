"""Which column types may hold ids, ratings and times, in tables whose columns have types."""

from pathlib import Path

import polars as pl

from pricdr.data.reading.text_files import file_refusal


def may_be_times(kind: pl.DataType) -> bool:
    """Return whether a column of this type can be read as times."""
    return kind.is_numeric() or kind in (pl.Date, pl.Datetime, pl.String)


def require_kind(file: Path | str, role: str, kind: pl.DataType) -> None:
    """Refuse a column of a type that the same column of a Parquet file could not have."""
    if role == "rating":
        if not kind.is_numeric():
            raise file_refusal(file, f"the rating column holds {kind}; ratings must be numbers")
    elif role == "time":
        if not may_be_times(kind):
            raise file_refusal(file, f"the time column holds {kind}; times must be dates, numbers or text")
    elif not (kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum)):
        hint = " (1.0 is neither: cast it)" if kind.is_float() else " (cast it to text)" if kind == pl.Binary else ""
        raise file_refusal(file, f"the {role} column holds {kind}; ids must be text or whole numbers{hint}")
