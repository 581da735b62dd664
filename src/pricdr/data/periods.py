"""``Window``: the declared days whose rows are read, and the periods that they are cut into.

Rows are left out by their own time, before repeated pairs are merged and before users or items are read off them: so no
row outside can change anything that is published (``docs/mathematics.md``, section 7).
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np

from pricdr.arrays import IntArray
from pricdr.data.blocks import Convert, InMemory, RatingsSource
from pricdr.data.csr import CSR, moved_entries, sp, with_values
from pricdr.data.ids import Ids
from pricdr.data.ratings import position_of
from pricdr.errors import ParameterError, require_count

_DAY: Final = 86_400  # seconds
MAX_DAYS: Final = 99_999  # in a period
MAX_PERIODS: Final = 1 << 16  # in one window: with their number, sums of a user's ratings stay within whole numbers
MOST_IN_AN_ENTRY: Final = 10_000 * 256
"""Units of an entry that adds up periods: as many as one rating can have. A cap on an entry moves none any further."""


@dataclass(frozen=True, slots=True)
class Window:
    """The days in UTC from ``begin`` until ``until``, which is not one of them.

    >>> str(Window.parse("2026-01-01", "2027-01-01")), Window.parse("2026-01-01", "2027-01-01", "7d").periods
    ('from 2026-01-01 until 2027-01-01', 53)
    """

    begin: date
    until: date
    days: int | None = None
    """The length of a period; the last one of a window may be shorter. None: the window is one period."""

    def __post_init__(self) -> None:
        if self.until <= self.begin:
            raise ParameterError(f"a period must end after it begins, got {self}")
        if self.days is not None:
            require_count(days=self.days)
            if self.days > MAX_DAYS:
                raise ParameterError(f"a period must have at most {MAX_DAYS:,} days, got {self.days:,}")
        if self.periods > MAX_PERIODS:
            raise ParameterError(f"a window must have at most {MAX_PERIODS:,} periods, got {self.periods:,}")

    @classmethod
    def parse(cls, begin: str, until: str, length: str | None = None) -> "Window":
        """Return the window in text: days as in ``2026-01-01``, and perhaps the length of a period, as in ``7d``."""
        return cls(_day("from", begin), _day("until", until), None if length is None else parse_days(length))

    @classmethod
    def of_periods(cls, length: str) -> "Window":
        """Return periods of this length, counted from 1970, where nobody declared from when until when."""
        return cls(date(1970, 1, 1), date(2100, 1, 1), parse_days(length))

    @property
    def periods(self) -> int:
        """How many periods there are."""
        return 1 if self.days is None else -(-(self.until - self.begin).days // self.days)

    @property
    def inside(self) -> str:
        """SQL for whether the time ``seconds`` is in it."""
        return f"seconds >= {_seconds(self.begin)} AND seconds < {_seconds(self.until)}"

    @property
    def period(self) -> str:
        """SQL for the number of the period of the time ``seconds``, which is in the window."""
        return f"floor((seconds - {_seconds(self.begin)}) / {(self.days or 0) * _DAY})::BIGINT"

    @property
    def dates(self) -> str:
        """From when until when it is."""
        return f"from {self.begin} until {self.until}"

    def __str__(self) -> str:
        return self.dates if self.days is None else f"{self.days} day{'s' * (self.days > 1)}, {self.dates}"

    def require_begun(self) -> None:
        """Refuse a window that lies in the future."""
        if self.begin > datetime.now(UTC).date():
            raise ParameterError(f"the period {self} has not begun: there is nothing to publish yet")


def parse_days(text: str) -> int:
    """Return the days in a length such as ``7d``."""
    if not re.fullmatch("[1-9][0-9]{0,4}d", text):
        raise ParameterError(f"a period must be a number of days from 1d to 99999d, such as 7d, got {text!r:.40}")
    return int(text[:-1])


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else "")
    except ValueError as error:
        raise ParameterError(f"{name} must be a day such as 2026-01-01 (UTC), got {text!r:.40}") from error


def _seconds(day: date) -> int:
    return (day - date(1970, 1, 1)) // timedelta(seconds=1)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PeriodRatings(RatingsSource):
    """Ratings of a domain period by period, with repeats merged within a period alone: for the unit user-period."""

    matrix: CSR
    """A row for every user and period with ratings."""
    owners: IntArray
    """The position of the user of each row."""
    users: Ids
    items: Ids
    window: Window
    has_values: bool
    filtered_by: str | None = None
    threshold: float | None = None

    def __len__(self) -> int:
        return int(self.matrix.nnz)

    def over(self, users: Ids, items: Ids) -> "PeriodRatings":
        """Return the ratings of exactly these users and items."""
        row_of, column_of = position_of(users), position_of(items)
        new_owner = np.array([row_of.get(name, -1) for name in self.users], dtype=np.int64)[self.owners]
        new_column = np.array([column_of.get(name, -1) for name in self.items], dtype=np.int64)
        kept = new_owner >= 0
        new_row = np.where(kept, np.cumsum(kept) - 1, -1)
        matrix = moved_entries(self.matrix, new_row, new_column, (int(kept.sum()), len(items)))
        return replace(self, matrix=matrix, owners=new_owner[kept], users=users, items=items)

    def units(self, convert: Convert) -> InMemory:
        """Return the sums over periods of what ``convert`` makes of each period."""
        rows = convert(self.matrix)
        at, ones = np.arange(len(self.owners)), np.ones(len(self.owners), dtype=rows.dtype)
        summed = sp.csr_array(sp.csr_array((ones, (self.owners, at)), shape=(len(self.users), len(at))) @ rows)
        summed.sort_indices()
        return InMemory(with_values(summed, np.minimum(summed.data, MOST_IN_AN_ENTRY)))
