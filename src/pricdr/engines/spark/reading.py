"""``open_ratings``: what ``pricdr publish --engine spark`` calls, and what it says about its input."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pricdr.data.ids import Ids
from pricdr.data.reading.columns import Columns
from pricdr.data.reading.readers import RatingsFile
from pricdr.engines.spark.ratings import SparkRatings
from pricdr.engines.spark.session import opened_session
from pricdr.engines.spark.source import opened_source
from pricdr.errors import LARGEST_SCALE, ParameterError, printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkReading:
    """The ratings that count, and how they were read: for the screen of their owner, never for a release."""

    ratings: SparkRatings
    listed: bool
    """Whether users or items are a list, so that other rows are left out."""

    @property
    def has_values(self) -> bool:
        """Return whether there is a rating column."""
        return self.ratings.has_values

    @property
    def stars(self) -> tuple[float, float] | None:
        """Return the fewest and the most stars where the ratings look like stars."""
        return None

    def summary(self) -> str:
        """Return a few lines for people."""
        source, blocks = self.ratings.source, self.ratings.blocks
        counts = f"{source.rows:,} rows, {len(self.ratings.users):,} users, {len(self.ratings.items):,} items"
        lines = [f"{printable(source.location)}: {counts}, {len(self.ratings):,} ratings"]
        if self.listed:
            others = source.rows - blocks.rows
            lines.append(f"of the users {blocks.raters:,} have rows; {others:,} rows of other users or items")
        if blocks.rows > blocks.pairs:
            rule = "the latest counts, by the time column" if source.has_times else "the largest value counts"
            lines.append(f"duplicates: {blocks.rows - blocks.pairs:,} rows repeat a (user, item) pair; {rule}")
        if blocks.pairs > blocks.kept:
            lines.append(f"dropped: {blocks.pairs - blocks.kept:,} rated below {self.ratings.threshold:g}")
        if source.rating_range is None or not source.has_values:
            lines.append("no rating column read: each row counts as 1")
        else:
            lines.append("ratings range from {:g} to {:g}".format(*source.rating_range))
        return "\n  ".join(lines)


@contextmanager
def open_ratings(
    location: str,
    *,
    columns: Columns | str | None = None,
    threshold: float | None = None,
    users: Ids | None = None,
    items: Ids | None = None,
    settings: Mapping[str, str] | None = None,
    session: "SparkSession | None" = None,
) -> Iterator[SparkReading]:
    """Open ratings in Parquet or a table for ``publish``: checked, sorted and kept on executors until the end.

    Args:
        location: a path or URL of Parquet that the cluster can read, or ``table:`` and the name of a table.
        columns: which columns to read; found by name when not given.
        threshold: keep only pairs rated at least this.
        users: the agreed user list; without one, all users that occur.
        items: the item universe; without one, all items that occur.
        settings: Spark's settings for a session that is made here, such as ``spark.master``.
        session: a session to use instead; it must encrypt what it writes and sends.

    Hand the same lists to ``publish``: for others the rows would be sorted again.
    """
    if threshold is not None and not abs(threshold) <= LARGEST_SCALE:
        raise ParameterError(f"threshold must be a finite number from -1e15 to 1e15, got {threshold!r}")
    wanted = Columns.parse(columns) if isinstance(columns, str) else columns
    with opened_session(settings or {}, session) as own:
        source = opened_source(own, location, wanted, need_rating=threshold is not None)
        try:
            ratings = SparkRatings.of(source, users, items, threshold)
            try:
                yield SparkReading(ratings, listed=users is not None or items is not None)
            finally:
                for blocks in ratings.made:
                    blocks.release()
        finally:
            source.checked.unpersist()


_ = RatingsFile
