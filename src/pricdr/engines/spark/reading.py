"""``open_ratings``: open ratings in Spark for ``pricdr publish --engine spark``, and summarise them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pricdr.data.ids import Ids
from pricdr.data.reading.columns import Columns
from pricdr.data.reading.repeats import Repeats
from pricdr.data.reading.report import Summary
from pricdr.data.stars import stars_of
from pricdr.engines.spark.ratings import SparkRatings
from pricdr.engines.spark.session import opened_session
from pricdr.engines.spark.source import opened_source, require_no_text_file
from pricdr.errors import LARGEST_SCALE, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SparkReading:
    """The ratings that count, and how they were read: for their owner's screen, never for a release."""

    ratings: SparkRatings
    listed: bool
    """Whether users or items were listed, so that other rows are left out."""

    @property
    def has_values(self) -> bool:
        """Return whether there is a rating column."""
        return self.ratings.has_values

    @property
    def stars(self) -> tuple[float, float] | None:
        """Return the fewest and the most stars where the ratings look like stars."""
        source = self.ratings.source
        return stars_of(source.rating_range if source.has_values else None, source.half_steps)

    def summary(self) -> str:
        """Return a few lines for people."""
        source, blocks = self.ratings.source, self.ratings.blocks
        dropped = []
        if self.listed:
            dropped.append(("rows of users or items that are not listed", source.rows - blocks.rows))
        if blocks.pairs > blocks.kept:
            dropped.append((f"rated below {self.ratings.threshold:g}", blocks.pairs - blocks.kept))
        summary = Summary(
            file=source.location,
            rows=source.rows,
            users=blocks.raters,
            items=len(self.ratings.items),
            ratings=len(self.ratings),
            counted=" of listed users and items" if self.listed else "",
            repeats=Repeats(blocks.rows - blocks.pairs, source.has_times, blocks.untimed),
            dropped=dropped,
            rating_range=source.rating_range if source.has_values else None,
            has_values=source.has_values,
        )
        return str(summary)


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
    """Open ratings in Parquet or a table for ``publish``: they are checked, sorted and kept on executors.

    Args:
        location: a path or URL of Parquet that the cluster can read, or ``table:`` and the name of a table.
        columns: the columns to read; found by name by default.
        threshold: keep only pairs rated at least this.
        users: the agreed user list; by default all users that occur.
        items: the item universe; by default all items that occur.
        settings: settings of the Spark session that is created, such as ``spark.master``.
        session: an existing session to use instead; it must encrypt what it writes and sends.

    Pass the same lists to ``publish``: for other lists the rows would be sorted again.
    """
    if threshold is not None and not abs(threshold) <= LARGEST_SCALE:
        raise ParameterError(f"threshold must be a finite number from -1e15 to 1e15, got {threshold!r}")
    require_no_text_file(location)
    parsed = Columns.parse(columns) if isinstance(columns, str) else columns
    with opened_session(settings or {}, session) as own:
        source = opened_source(own, location, parsed, need_rating=threshold is not None)
        try:
            ratings = SparkRatings.of(source, users, items, threshold)
            yield SparkReading(ratings, listed=users is not None or items is not None)
        finally:
            with suppress(Exception):  # Java may be gone, and the exception that says why is already being raised
                source.release()
