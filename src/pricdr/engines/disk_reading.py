"""Read ratings to be published out of core: what their owner sees of them, and the memory that publishing takes."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pricdr.data.ids import Ids
from pricdr.data.reading.inputs import find_inputs
from pricdr.data.reading.options import ReadOptions
from pricdr.data.reading.query import Query
from pricdr.data.reading.read import Figures, figures_of, number_ids, opened_table
from pricdr.data.reading.repeats import Repeats
from pricdr.data.reading.report import Summary, stars_of
from pricdr.data.reading.table import RatingsTable
from pricdr.data.workspace import Workspace
from pricdr.engines.outofcore import BLOCK_ENTRIES, BYTES_PER_ENTRY, LARGE, Counts, DiskRatings, Store, sort_memory
from pricdr.errors import InputError
from pricdr.memory import format_bytes, require_memory
from pricdr.parallel import cores
from pricdr.privacy.plan import Estimate
from pricdr.progress import Progress, silent

_PROGRAM: Final = 200 * 10**6
_BYTES_PER_ID: Final = 250
"""For an id as text, its position and its count, besides two copies of its letters."""


@dataclass(frozen=True)
class DiskReading:
    """The ratings that count, kept on disk, and figures for their owner's screen, never for a release."""

    table: RatingsTable
    figures: Figures
    ratings: DiskRatings
    """The ratings of all users, to be published."""
    selected: DiskRatings
    """The ratings of the listed users and items."""
    counts: Counts | None = None
    """How their rows were merged; None if they were only counted."""

    @property
    def raters(self) -> Ids:
        """Return all users who occur in the rows."""
        return self.ratings.all_users

    @property
    def has_values(self) -> bool:
        """Return whether there was a rating column."""
        return self.ratings.has_values

    @property
    def stars(self) -> tuple[float, float] | None:
        """Return the fewest and the most stars where the ratings look like stars, see :func:`stars_of`."""
        return stars_of(self.figures.range, self.figures.half_steps)

    @property
    def all_below(self) -> bool:
        """Return whether there are pairs, and all of them are below the threshold."""
        return self.counts is not None and 0 < self.counts.pairs == self.counts.below

    def counted(self, listed: Ids | None, universe: Ids | None) -> int | None:
        """Return the number of ratings that count; None if rows were not sorted."""
        return None if self.counts is None else len(self.selected)

    def sorted(self, progress: Progress = silent) -> "DiskReading":
        """Return the same ratings, sorted: a disk that fails does so here, before anything is spent."""
        return replace(self, counts=self.selected.sorted(progress).counts)

    def need(self, work: Estimate) -> "Need":
        """Return the memory that publishing takes, part by part."""
        ids = (*self.ratings.all_users, *self.ratings.items)
        return Need.of(work, ids=len(ids), letters=sum(map(len, ids)))

    def summary(self) -> str:
        """Return a few lines for people."""
        counts, table = self.counts, self.table
        dropped = [("blank lines", table.blank_lines)] if table.blank_lines else []
        if counts is not None and counts.below:
            dropped.append((f"rated below {self.ratings.threshold:g}", counts.below))
        repeated = 0 if counts is None else counts.rows - counts.pairs
        summary = Summary(
            file=table.name,
            rows=table.rows,
            users=len(self.raters),
            items=len(self.ratings.items),
            ratings=None if counts is None else len(self.selected),
            counted="" if self.selected is self.ratings else " of listed users and items",
            repeats=Repeats(repeated, table.has_times, 0 if counts is None else counts.untimed),
            dropped=dropped,
            rating_range=self.figures.range,
            has_values=table.has_values,
            bad_rows=table.bad_rows,
            files=table.files,
            empty_files=table.empty_files,
        )
        return str(summary)


def read_on_disk(
    path: Path | Query,
    options: ReadOptions,
    workspace: Workspace,
    *,
    users: Ids | None = None,
    items: Ids | None = None,
    keep_values: bool = True,
    threshold: float | None = None,
    progress: Progress = silent,
) -> DiskReading:
    """Read rows into the workspace, and return the ratings that they make.

    Args:
        path: What to read.
        options: How to read it.
        workspace: The folder to keep the rows in.
        users: The users who will be selected; by default all who occur in the rows.
        items: The items that will be selected; by default all.
        keep_values: Whether values are needed after repeated pairs are merged and the threshold is applied.
        threshold: Pairs rated below it are left out, after merging.
        progress: Called with how much has been read.
    """
    given = path if isinstance(path, Query) else find_inputs(path)
    with opened_table(given, options, workspace, memory=sort_memory(), on_disk=True, progress=progress) as table:
        figures = figures_of(table.connection)
        all_users, all_items = number_ids(table.connection)
    if threshold is not None and not table.has_values:
        raise InputError("a threshold needs ratings, and there is no rating column")
    ratings = DiskRatings(
        store=Store(table.name, workspace, table.has_values, table.has_times),
        all_users=all_users,
        users=all_users,
        items=all_items,
        rows=figures.rows,
        filtered_by=table.filtered_by,
        has_values=table.has_values,
        keep_values=keep_values,
        threshold=threshold,
    )
    return DiskReading(table, figures, ratings, ratings.select(users, items))


@dataclass(frozen=True)
class Need:
    """The memory that a release takes, part by part, estimated from sizes alone."""

    item_rows: int
    user_rows: int
    blocks: int
    sorting: int
    ids: int

    @classmethod
    def of(cls, work: Estimate, *, ids: int, letters: int) -> "Need":
        """Return the memory that a release takes.

        Args:
            work: the estimate from the steps of the strategy.
            ids: users and items together, listed or not.
            letters: bytes of all these ids as text.
        """
        # Rows that nothing is learnt from are kept in a file if they are large.
        rows = work.user_rows if work.learns else min(work.user_rows, LARGE)
        blocks = cores() * BLOCK_ENTRIES * BYTES_PER_ENTRY
        return cls(work.item_rows, rows, blocks, sort_memory(), _BYTES_PER_ID * ids + 2 * letters)

    @property
    def total(self) -> int:
        """All bytes. Sorting ends before the first block is read, so only the larger of the two counts."""
        return _PROGRAM + self.ids + max(self.sorting, self._computing)

    @property
    def _computing(self) -> int:
        """Bytes of the steps of the strategy, once the rows are sorted."""
        return self.item_rows + self.user_rows + self.blocks

    def sentence(self) -> str:
        """Return a sentence about it for people."""
        parts = {"item vectors": self.item_rows, "users' rows": self.user_rows, "blocks of users": self.blocks}
        shown = ", ".join(f"{what} {format_bytes(size)}" for what, size in parts.items())
        return (
            f"needs about {format_bytes(self.total)} of memory, however many ratings there are: the program "
            f"{format_bytes(_PROGRAM)}, ids {format_bytes(self.ids)}, and the larger of "
            f"{format_bytes(self.sorting)} to sort and {format_bytes(self._computing)} to compute ({shown})"
        )

    def require(self) -> None:
        """Refuse a release that needs more memory than the limit."""
        require_memory(self.total, "publishing out of core")
