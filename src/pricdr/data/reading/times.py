"""Convert times to numbers: numbers stay as they are, ISO 8601 dates become seconds since 1970."""

from datetime import UTC, datetime

import polars as pl


def to_seconds(column: pl.Series) -> pl.Series:
    """Return a column of times as numbers that increase with time, null where a value cannot be read.

    Every value is read on its own. No format is guessed from the column, since then one person's row would decide how
    the rows of others are read. Whole numbers and fractions count as they are, whatever their unit.

    >>> to_seconds(pl.Series(["1970-01-02", "1970-01-01T00:00:01Z", "5.5", "soon", ""])).to_list()
    [86400.0, 1.0, 5.5, None, None]
    """
    if column.dtype.is_temporal():
        numbers = column.to_physical().cast(pl.Float64)
    elif column.dtype == pl.String:
        text = column.str.strip_chars()
        numbers = text.cast(pl.Float64, strict=False)
        dates = text.filter(numbers.is_null() & text.is_not_null()).unique()
        seconds = pl.Series([_seconds(date) for date in dates.to_list()], dtype=pl.Float64)
        if seconds.is_not_null().any():
            numbers = numbers.fill_null(text.replace_strict(dates, seconds, default=None, return_dtype=pl.Float64))
    else:
        numbers = column.cast(pl.Float64)
    return pl.select(pl.when(numbers.is_finite()).then(numbers)).to_series()


def _seconds(date: str) -> float | None:
    """Return the seconds since 1970 of an ISO date or time, in UTC if it has no zone; None for other text."""
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
