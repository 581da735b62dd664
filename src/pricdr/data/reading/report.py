"""What the owner of the ratings sees of them: the rows that were skipped, and a summary; never a release."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from pricdr.data.blocks import RatingsSource
from pricdr.data.ratings import Ratings
from pricdr.data.reading.repeats import Repeats
from pricdr.data.reading.text_files import named, refusal
from pricdr.errors import ParameterError, printable

MOST_BAD_ROWS: Final = 0.01
"""The default for the share of rows that may be bad."""
_SHOWN: Final = 5
_MOST_STARS: Final = 10


@dataclass
class BadRows:
    """The skipped rows of one file. Whether a row is bad depends on that row alone."""

    most: float = MOST_BAD_ROWS
    """The largest share of rows that may be bad; with more the file is refused."""
    count: int = 0
    _first: list[tuple[int, str]] = field(default_factory=list)
    """The first ones: a heap by negated row number, so that its smallest entry is the last of them."""

    def __post_init__(self) -> None:
        if not 0 < self.most <= 1:
            raise ParameterError(f"most_bad_rows must be a share above 0 and at most 1, got {self.most!r}")

    def add(self, row: int, fault: str) -> None:
        """Count a bad row, numbered from 0; ``fault`` names its place and says what is wrong with it."""
        self.count += 1
        self._note(row, fault)

    def absorb(self, other: "BadRows", *, before: int, file: str | None = None) -> None:
        """Add the bad rows of one of several files, named ``file``; ``before`` is the number of rows read before it."""
        self.count += other.count
        for number, fault in other._first:
            self._note(before - number, fault if file is None else f"{file}: {fault}")

    def _note(self, row: int, fault: str) -> None:
        entry = (-row, fault)
        if len(self._first) < _SHOWN:
            heapq.heappush(self._first, entry)
        elif entry > self._first[0]:
            heapq.heapreplace(self._first, entry)

    @property
    def first(self) -> tuple[str, ...]:
        """Return the faults of the first few bad rows, in the order of the file."""
        return tuple(fault for _, fault in sorted(self._first, reverse=True))

    def require_few(self, file: Path | str, rows: int) -> None:
        """Refuse a file if too many of its rows are bad.

        Args:
            file: The file that the error names.
            rows: The number of rows in the file.

        >>> bad = BadRows(most=0.1)
        >>> bad.add(7, "row 8 (line 9): the user id is empty")
        >>> bad.require_few("r.csv", rows=10)
        >>> bad.require_few("r.csv", rows=9)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        pricdr.errors.InputError: r.csv: 1 of 9 rows is bad, more than 10% (--most-bad-rows); the first: row 8 ...
        """
        # With a limit of 1 nothing is refused: the count may then include parts that ``rows`` does not.
        if self.most < 1 and self.count > self.most * rows:
            are = "is" if self.count == 1 else "are"
            count = f"{self.count:,} of {rows:,}"
            limit = f"more than {100 * self.most:.3g}% (--most-bad-rows)"
            raise refusal(file, f"{count} rows {are} bad, {limit}; the first: {self.first[0]}")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The sizes of ratings, and how many rows were merged or left out."""

    file: Path | str
    rows: int
    users: int
    items: int
    ratings: int | None
    """None where rows were only counted, not merged."""
    repeats: Repeats
    dropped: Sequence[tuple[str, int]]
    rating_range: tuple[float, float] | None
    has_values: bool
    bad_rows: BadRows | None = None
    files: int = 1
    empty_files: int = 0
    counted: str = ""
    """Says whose ratings were counted, where that is not all of them."""

    def __str__(self) -> str:
        """Return the summary, a few lines."""
        merged = "repeated pairs not merged yet" if self.ratings is None else f"{self.ratings:,} ratings{self.counted}"
        counts = f"{self.rows:,} rows, {self.users:,} users, {self.items:,} items, {merged}"
        files = f"{self.files:,} files, " if self.files > 1 else ""
        lines = [f"{named(self.file)}: {files}{counts}"]
        if self.empty_files:
            lines.append(f"files without rows: {self.empty_files:,}")
        if self.bad_rows is not None and self.bad_rows.count:
            lines.append(f"skipped: {self.bad_rows.count:,} bad rows; the first:")
            lines += [f"  {printable(fault)}" for fault in self.bad_rows.first]
        if self.repeats.rows:
            lines.append(f"duplicates: {self.repeats.rows:,} rows repeat a (user, item) pair; {self._rule()}")
        if self.dropped:
            lines.append("dropped: " + ", ".join(f"{count:,} {reason}" for reason, count in self.dropped))
        if self.rating_range is None:
            lines.append("no rating column read: each row counts as 1")
        else:
            lines.append("ratings range from {:g} to {:g}".format(*self.rating_range))
        return "\n  ".join(lines)

    def _rule(self) -> str:
        """Return the rule by which one row of a repeated pair counts."""
        if not self.has_values:
            return "they count once"
        if not self.repeats.by_time:
            return "the largest value counts (there is no time column)"
        untimed = f"; {self.repeats.untimed:,} without a readable time count as the earliest"
        return "the latest counts, by the time column" + (untimed if self.repeats.untimed else "")


def stars_of(rating_range: tuple[float, float] | None, half_steps: bool) -> tuple[float, float] | None:
    """Return the fewest and the most stars where ratings look like stars, so that the lowest are not likes.

    None where even the fewest are more than half of the most: lower ratings were then left out before.

    >>> stars_of((1.0, 5.0), True), stars_of((4.0, 5.0), True)
    ((1.0, 5.0), None)
    """
    if rating_range is None or not half_steps:
        return None
    fewest, most = rating_range
    looks_like_stars = 0 <= fewest < most <= _MOST_STARS
    return rating_range if looks_like_stars and fewest <= most / 2 else None


def stars_in(ratings: RatingsSource) -> tuple[float, float] | None:
    """Return the fewest and the most stars of ratings in memory; None where they are not, or do not look like stars."""
    if not isinstance(ratings, Ratings) or not ratings.has_values or not len(ratings):
        return None
    values = ratings.matrix.data
    return stars_of((float(values.min()), float(values.max())), bool((np.rint(2 * values) == 2 * values).all()))


def stars_caution(ratings: RatingsSource, stars: tuple[float, float] | None) -> str | None:
    """Return a warning where ratings look like stars and, without a threshold, all of them count as likes.

    Not where ``prepare`` filtered them: the threshold was chosen there.
    """
    if stars is None or ratings.threshold is not None or ratings.filtered_by is not None:
        return None
    fewest, most = stars
    rule = "without a threshold each row counts as a like"
    return f"ratings from {fewest:g} to {most:g} look like stars: {rule}, even one of {fewest:g}"
