"""What the owner of the ratings sees of them: how they were read, the rows that were skipped. Never a release."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import RatingsSource
from pricdr.data.ids import Ids
from pricdr.data.ratings import Ratings
from pricdr.data.reading.text_files import named, refusal
from pricdr.errors import printable
from pricdr.memory import Need
from pricdr.progress import Progress, silent

SHOWN: Final = 5
"""How many bad rows are shown."""
_MOST_STARS: Final = 10
R = TypeVar("R", bound=RatingsSource)


@dataclass
class BadRows:
    """The rows that were skipped: how many, and what is wrong with the first few of them."""

    count: int = 0
    first: tuple[str, ...] = ()

    def require_few(self, file: Path | str, rows: int, most: float) -> None:
        """Refuse a file if a larger share of its rows is bad.

        >>> BadRows(1, ("row 8 (line 9): the user id is empty",)).require_few("r.csv", 9, 0.1)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        pricdr.errors.InputError: r.csv: 1 of 9 rows is bad, more than 10% (--most-bad-rows); the first: row 8 ...
        """
        # With a limit of 1 nothing is refused: the count may then include parts that ``rows`` does not.
        if most < 1 and self.count > most * rows:
            are = "is" if self.count == 1 else "are"
            limit = f"more than {100 * most:.3g}% (--most-bad-rows)"
            raise refusal(file, f"{self.count:,} of {rows:,} rows {are} bad, {limit}; the first: {self.first[0]}")


class Repeats(NamedTuple):
    """How rows that repeat a pair were merged."""

    rows: int
    """Rows beyond the first of each pair."""
    by_time: bool
    """Whether there was a time column, so that the latest row of a pair counts."""
    untimed: int
    """Rows of repeated pairs whose time cannot be read: they count as the earliest."""


@dataclass(frozen=True, kw_only=True)
class Reading(Generic[R]):
    """Ratings that were read, wherever they are kept, and how they were read."""

    ratings: R
    """What is published."""
    name: Path | str
    """The file that was read, or a text that names another origin."""
    rows: int
    """All rows, bad ones included."""
    raters: Ids | None
    """All users who occur in the rows; None where they stay on a cluster."""
    n_raters: int
    n_ratings: int | None
    """How many ratings count, of listed users and items where a list was given; None before repeats are merged."""
    of_listed: bool = False
    """Whether only ratings of listed users and items are among them."""
    all_below: bool = False
    """Whether there are ratings, and all of them are below the threshold."""
    repeats: Repeats
    """How rows that repeat a (user, item) pair were merged."""
    dropped: tuple[tuple[str, int], ...] = ()
    """The reasons why rows were left out, and how many."""
    rating_range: tuple[float, float] | None
    """Smallest and largest rating, before any threshold."""
    half_steps: bool = False
    """Whether all ratings are whole or half numbers, as stars are."""
    bad_rows: BadRows | None = None
    """The rows that were skipped, where that was allowed."""
    times: npt.NDArray[np.float64] | None = None
    """The time of each rating, in the order of the matrix, where it was asked for: NaN where it cannot be read."""
    files: int = 1
    empty_files: int = 0
    """The number of files that have columns and no rows."""

    @property
    def has_values(self) -> bool:
        """Whether there was a rating column; otherwise every value is 1."""
        return self.ratings.has_values

    @property
    def duplicates(self) -> int:
        """How many rows repeat a (user, item) pair and were merged into one."""
        return self.repeats.rows

    @property
    def stars(self) -> tuple[float, float] | None:
        """The fewest and the most stars where the ratings look like stars, see :func:`stars_of`."""
        return stars_of(self.rating_range, self.half_steps)

    @property
    def selected(self) -> R:
        """The ratings that were counted: those of listed users and items, where ratings were sorted for a list."""
        return self.ratings

    def rates_none(self, users: Ids | None, items: Ids | None) -> bool:
        """Return whether none of these users is known to have rated one of these items; None means all of them."""
        return self.n_ratings == 0

    def need(self, item_rows: int, user_rows: int, *, learns: bool) -> Need | None:
        """Return the memory that publishing takes; None where the ratings are in memory already, or on a cluster."""
        return None

    def sorted(self, dim: int | None, progress: Progress = silent) -> Self:
        """Return the same ratings, sorted: a disk that fails does so here, before anything is spent."""
        return self

    def summary(self) -> str:
        """Return a few lines for people.

        >>> counts = {"rows": 3, "raters": ("a",), "n_raters": 1, "n_ratings": 1, "rating_range": (2.0, 4.0)}
        >>> ratings, repeats = Ratings.from_triples(["a"], ["x"], [4.0]), Repeats(1, True, 0)
        >>> dropped = (("rated below 3", 1),)
        >>> print(Reading(ratings=ratings, name="r.csv", repeats=repeats, dropped=dropped, **counts).summary())
        r.csv: 3 rows, 1 users, 1 items, 1 ratings
          duplicates: 1 rows repeat a (user, item) pair; the latest counts, by the time column
          dropped: 1 rated below 3
          ratings range from 2 to 4
        """
        counted = "repeated pairs not merged yet" if self.n_ratings is None else f"{self.n_ratings:,} ratings"
        counted += " of listed users and items" if self.of_listed and self.n_ratings is not None else ""
        files = f"{self.files:,} files, " if self.files > 1 else ""
        ids = f"{self.n_raters:,} users, {len(self.ratings.items):,} items"
        lines = [f"{named(self.name)}: {files}{self.rows:,} rows, {ids}, {counted}"]
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
