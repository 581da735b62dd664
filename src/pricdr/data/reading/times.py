"""Times: numbers count as they are, whatever their unit; ISO 8601 dates become seconds since 1970."""

import re
from datetime import UTC, datetime, timedelta
from math import inf, isfinite
from typing import Final

NUMBER: Final = r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?"
_CLOCK: Final = r"([01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE: Final = r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
DATE: Final = rf"[1-9][0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}}([T ]{_CLOCK}(:[0-5][0-9]([.][0-9]{{1,6}})?)?{_ZONE}?)?"
"""What Python and DuckDB read alike."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BLANKS: Final = " \t\n\x0b\x0c\r"


def seconds_of(text: str | None) -> float | None:
    """Return a time as a number that increases with time, None where the text cannot be read.

    Every value is read on its own. No format is guessed from a column, since then one person's row would decide how
    the rows of others are read.

    >>> seconds_of("1970-01-02"), seconds_of("1970-01-01T00:00:01Z"), seconds_of("5.5"), seconds_of("soon")
    (86400.0, 1.0, 5.5, None)
    """
    text = "" if text is None else text.strip(_BLANKS)
    if (number := finite_number(text)) is not None:
        return number
    if not re.fullmatch(DATE, text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
        return float(since // timedelta(microseconds=1)) / 1e6  # rounded as DuckDB rounds
    except (ValueError, OverflowError):
        return None


def finite_number(text: str) -> float | None:
    """Return a text as a finite number, None where it is none."""
    plain = text.strip(_BLANKS)
    number = float(plain) + 0.0 if re.fullmatch(NUMBER, plain) else inf  # -0 equals 0: as bytes they would differ
    return number if isfinite(number) else None


def number_sql(text: str) -> str:
    """Return an SQL expression for what :func:`finite_number` returns; it may also be infinite or not a number."""
    # DuckDB reads 1_000 and +-5, which other readers do not. -0 equals 0: as bytes they would differ.
    odd = f"contains({text}, '_') OR contains({text}, '+-')"
    return f"CASE WHEN {odd} THEN NULL ELSE try_cast({text} AS DOUBLE) + 0.0 END"


def seconds_sql(text: str) -> str:
    """Return an SQL expression for what :func:`seconds_of` returns, where that is finite.

    The time zone of the connection must be UTC.
    """
    blanks = " || ".join(f"chr({ord(blank)})" for blank in _BLANKS)
    date = f"trim({text}, {blanks})"
    moment = f"CASE WHEN regexp_full_match({date}, '{DATE}') THEN epoch_us(try_cast({date} AS TIMESTAMPTZ)) / 1e6 END"
    return f"coalesce({number_sql(text)}, {moment})"
