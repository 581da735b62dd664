"""``open_ratings``: ratings in Spark, as publishing needs them, and a summary of how they were read."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from pricdr.data.blocks import Convert
from pricdr.data.ids import Ids, require_ids
from pricdr.data.reading.columns import Columns
from pricdr.data.reading.report import Reading, Repeats
from pricdr.data.reading.text_files import refusal
from pricdr.engines.spark.blocks import Blocks, SparkMatrix, packed
from pricdr.engines.spark.session import explained, opened_session
from pricdr.engines.spark.table import CheckedRows, checked_rows, require_no_text_file
from pricdr.errors import LARGEST_SCALE, ParameterError
from pricdr.privacy.steps import MOST_ITEMS, MOST_RATINGS, MOST_USERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, eq=False)
class SparkRatings:
    """Ratings of listed users and items in blocks on executors: reading and checking them is complete.

    Selecting other users or items sorts the rows again. That happens before a budget is spent, since ``publish``
    selects before it spends.
    """

    source: CheckedRows
    users: Ids
    items: Ids
    threshold: float | None
    blocks: Blocks

    @classmethod
    def of(cls, source: CheckedRows, users: Ids | None, items: Ids | None, threshold: float | None) -> "SparkRatings":
        """Return the ratings of these users and items; by default of all that occur, sorted by UTF-8 bytes."""
        users = _ids_in(source, "user") if users is None else users
        items = _ids_in(source, "item") if items is None else items
        return cls(source, users, items, threshold, _checked_blocks(source, users, items, threshold))

    @property
    def filtered_by(self) -> str | None:
        """The filter on counts that the files disclose."""
        return self.source.filtered_by

    @property
    def has_values(self) -> bool:
        """Whether there is a rating column."""
        return self.source.has_values

    def __len__(self) -> int:
        """Return the number of rated (user, item) pairs."""
        return self.blocks.kept

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        return f"SparkRatings({len(self.users)} users x {len(self.items)} items, {len(self)} rated)"

    def select(self, users: Ids | None = None, items: Ids | None = None) -> Self:
        """Return the ratings over exactly these users and items, in this order."""
        users = self.users if users is None else users
        items = self.items if items is None else items
        if users == self.users and items == self.items:
            return self
        blocks = _checked_blocks(self.source, users, items, self.threshold)
        return replace(self, users=users, items=items, blocks=blocks)

    def outside(self, users: Ids, items: Ids) -> Self:
        """Return the ratings of all other users than these, over these items."""
        listed = set(users)
        return self.select(tuple(user for user in _ids_in(self.source, "user") if user not in listed), items)

    def units(self, convert: Convert) -> SparkMatrix:
        """Return the values as whole units, as ``convert`` computes them block by block."""
        return SparkMatrix(self.blocks, convert, columns=len(self.items))


def _reading(ratings: SparkRatings, *, of_listed: bool) -> Reading[SparkRatings]:
    """Return the ratings, and how they were read. Ids of users stay on the cluster: none is fetched for the screen."""
    source, blocks = ratings.source, ratings.blocks
    dropped = []
    if of_listed:
        dropped.append(("rows of users or items that are not listed", source.count - blocks.rows))
    if blocks.pairs > blocks.kept:
        dropped.append((f"rated below {ratings.threshold:g}", blocks.pairs - blocks.kept))
    return Reading(
        ratings=ratings,
        name=source.location,
        rows=source.count,
        raters=None,
        n_raters=blocks.raters,
        n_ratings=len(ratings),
        of_listed=of_listed,
        repeats=Repeats(blocks.rows - blocks.pairs, source.has_times, blocks.untimed),
        dropped=tuple(dropped),
        rating_range=source.rating_range if source.has_values else None,
        half_steps=source.half_steps,
    )


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
) -> Iterator[Reading[SparkRatings]]:
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
        source = checked_rows(own, location, parsed, need_rating=threshold is not None)
        try:
            ratings = SparkRatings.of(source, users, items, threshold)
            yield _reading(ratings, of_listed=users is not None or items is not None)
        finally:
            with suppress(Exception):  # Java may be gone, and the exception that says why is already being raised
                source.release()


def _checked_blocks(source: CheckedRows, users: Ids, items: Ids, threshold: float | None) -> Blocks:
    require_ids("user", users)
    require_ids("item", items)
    for what, count, most in (("users", len(users), MOST_USERS), ("items", len(items), MOST_ITEMS)):
        if count > most:
            raise refusal(source.location, f"{count:,} {what} are more than the {most:,} that sums are exact for")
    blocks = packed(source, users, items, threshold)
    if blocks.kept > MOST_RATINGS:
        rule = f"more than the {MOST_RATINGS:,} that sums are exact for"
        raise refusal(source.location, f"{blocks.kept:,} ratings are {rule}")
    return blocks


def _ids_in(source: CheckedRows, role: str) -> Ids:
    """Return all ids of a column, sorted by their UTF-8 bytes, as in memory."""
    with explained(f"list the {role}s of {source.location}"):
        distinct = source.frame.select(role).distinct().toArrow()
    # Python compares text by code points, which is also the order of UTF-8 bytes.
    return tuple(sorted(distinct.column(role).to_pylist()))
