"""``DiskReading``: rows on disk and how they were read, as ``RatingsFile`` is for ratings in memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pricdr.data.ids import Ids
from pricdr.data.reading.repeats import Repeats
from pricdr.data.reading.summaries import Summary
from pricdr.data.stars import stars_of
from pricdr.engines.local.ratings import DiskRatings
from pricdr.engines.local.sorting import Counts
from pricdr.engines.local.spilling import Spilled

if TYPE_CHECKING:
    from pricdr.data.reading.batches import RatingsStream


@dataclass(frozen=True)
class DiskReading:
    """The ratings that count, kept on disk, and figures for their owner's screen, never for a release."""

    stream: "RatingsStream"
    """Where the rows came from; it was read to its end."""
    spilled: Spilled
    selected: DiskRatings
    """The ratings of the listed users and items."""
    counts: Counts | None
    """How their rows were merged; None if they were only counted."""

    @property
    def ratings(self) -> DiskRatings:
        """Return the ratings, to be published."""
        return self.spilled.ratings

    @property
    def raters(self) -> Ids:
        """Return all users who occur in the rows."""
        return self.ratings.raters()

    @property
    def has_values(self) -> bool:
        """Return whether there was a rating column."""
        return self.stream.has_values

    @property
    def stars(self) -> tuple[float, float] | None:
        """Return the fewest and the most stars where the ratings look like stars, see :func:`stars_of`."""
        return stars_of(self.spilled.rating_range, self.spilled.half_steps)

    @property
    def all_below(self) -> bool:
        """Return whether there are pairs, and all of them are below the threshold."""
        return self.counts is not None and 0 < self.counts.pairs == self.counts.below

    def counted(self, listed: Ids | None, universe: Ids | None) -> int | None:
        """Return the number of ratings that count; None if rows were not sorted."""
        return None if self.counts is None else len(self.selected)

    def summary(self) -> str:
        """Return a few lines for people."""
        counts, stream, log = self.counts, self.stream, self.ratings.log
        dropped = [("blank lines", stream.blank_lines)] if stream.blank_lines else []
        if counts is not None and counts.below:
            dropped.append((f"rated below {self.ratings.threshold:g}", counts.below))
        repeated = 0 if counts is None else counts.rows - counts.pairs
        all_count = self.selected is self.ratings and self.ratings.complete
        summary = Summary(
            file=stream.name,
            rows=self.spilled.rows + (0 if stream.bad_rows is None else stream.bad_rows.count),
            users=self.spilled.users,
            items=len(self.ratings.items),
            ratings=None if counts is None else len(self.selected),
            counted="" if all_count else " of listed users and items",
            repeats=Repeats(repeated, log.layout.seconds, 0 if counts is None else counts.untimed),
            dropped=dropped,
            rating_range=self.spilled.rating_range,
            has_values=log.layout.values,
            bad_rows=stream.bad_rows,
            files=stream.files,
            empty_files=stream.empty_files,
        )
        return str(summary)
