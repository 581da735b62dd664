"""``SparkRatings``: ratings in a Spark table, as publishing needs them."""

from dataclasses import dataclass, replace
from typing import Self

from pricdr.data.blocks import Convert
from pricdr.data.ids import Ids, require_ids
from pricdr.data.reading.text_files import refusal
from pricdr.engines.spark.failures import explained
from pricdr.engines.spark.matrix import SparkMatrix
from pricdr.engines.spark.packing import Blocks, packed
from pricdr.engines.spark.source import Source
from pricdr.privacy.mechanism import MOST_ITEMS
from pricdr.privacy.steps import MOST_RATINGS, MOST_USERS


@dataclass(frozen=True, eq=False)
class SparkRatings:
    """Ratings of listed users and items in blocks on executors: reading and checking them is complete.

    Selecting other users or items sorts the rows again. That happens before a budget is spent, since ``publish``
    selects before it spends.
    """

    source: Source
    users: Ids
    items: Ids
    threshold: float | None
    blocks: Blocks

    @classmethod
    def of(cls, source: Source, users: Ids | None, items: Ids | None, threshold: float | None) -> "SparkRatings":
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


def _checked_blocks(source: Source, users: Ids, items: Ids, threshold: float | None) -> Blocks:
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


def _ids_in(source: Source, role: str) -> Ids:
    """Return all ids of a column, sorted by their UTF-8 bytes, as in memory."""
    with explained(f"list the {role}s of {source.location}"):
        distinct = source.checked.select(role).distinct().toArrow()
    # Python compares text by code points, which is also the order of UTF-8 bytes.
    return tuple(sorted(distinct.column(role).to_pylist()))
