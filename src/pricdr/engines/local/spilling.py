"""Write a stream of checked rows to disk in one pass; memory grows only with the ids."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pricdr.data.ids import Ids
from pricdr.engines.local.id_codes import IdCodes
from pricdr.engines.local.ratings import DiskRatings
from pricdr.engines.local.records import Floats, Layout, RecordFile, Records
from pricdr.engines.local.sorting import Sorter
from pricdr.engines.local.workspace import Workspace
from pricdr.errors import InputError
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    from pricdr.data.reading.batches import RatingsStream


@dataclass(frozen=True)
class Spilled:
    """Ratings on disk, and figures about them for their owner's screen, never for a release."""

    ratings: DiskRatings
    rows: int
    users: int
    """The number of users who occur in the rows, listed or not."""
    rating_range: tuple[float, float] | None
    half_steps: bool
    """Whether all ratings are whole or half numbers."""


def spill(
    stream: "RatingsStream",
    workspace: Workspace,
    *,
    buffer_bytes: int,
    listed: Ids | None = None,
    keep_others: bool = True,
    keep_values: bool = True,
    count_only: bool = False,
    threshold: float | None = None,
    progress: Progress = silent,
) -> Spilled:
    """Write the rows of a stream to disk, and return the ratings that they make.

    Args:
        stream: the rows, each checked.
        workspace: the folder to keep them in.
        buffer_bytes: the memory that sorting them may take.
        listed: the users who will be selected; by default all who occur in the rows.
        keep_others: whether rows of users outside ``listed`` are written as well.
        keep_values: whether values are needed after repeated pairs are merged and the threshold is applied.
        count_only: whether ids and rows are only counted, not written: such ratings cannot be published.
        threshold: pairs rated below it are left out, after merging.
        progress: called with how much has been read.
    """
    if threshold is not None and not stream.has_values:
        raise InputError("a threshold needs ratings, and there is no rating column")
    values = stream.has_values and (keep_values or threshold is not None)
    # If values do not matter, times do not either: all rows of a pair are the same.
    log = RecordFile(workspace, "rows", Layout(values=values, seconds=values and stream.has_times))
    users, items, figures = IdCodes(), IdCodes(), _Figures()
    n_listed = int(users.of(listed).max()) + 1 if listed else 0  # listed users have the first codes
    only_listed = listed is not None and not keep_others
    for batch in stream.batches(progress):
        user_codes, item_codes = users.of(batch.users), items.of(batch.items)
        users.count(user_codes)
        items.count(item_codes)
        figures.add(len(user_codes), batch.values)
        if count_only:
            continue
        rows = Records(user_codes, item_codes, batch.values if values else None, batch.seconds if values else None)
        log.append(rows.take(user_codes < n_listed) if only_listed else rows)
    ratings = DiskRatings(
        log=log,
        user_codes=users,
        item_codes=items,
        sorter=Sorter(workspace, buffer_bytes, threshold, keep_values),
        users=listed if listed is not None and only_listed else tuple(users.names().to_list()),
        items=tuple(items.names().to_list()),
        complete=not only_listed,
        rows=figures.rows if count_only else len(log),
        filtered_by=stream.filtered_by,
        has_values=stream.has_values,
        threshold=threshold,
        _sorted={},
    )
    return Spilled(ratings, figures.rows, int((users.rows > 0).sum()), figures.range, figures.half_steps)


class _Figures:
    """The number of rows, the range of their ratings, and whether these are whole or half numbers."""

    def __init__(self) -> None:
        self.rows = 0
        self.range: tuple[float, float] | None = None
        self.half_steps = False

    def add(self, rows: int, values: Floats | None) -> None:
        self.rows += rows
        if values is None or not len(values):
            return
        halves = bool((np.rint(2 * values) == 2 * values).all())
        low, high = float(values.min()), float(values.max())
        if self.range is None:
            self.range, self.half_steps = (low, high), halves
        else:
            self.range = min(low, self.range[0]), max(high, self.range[1])
            self.half_steps &= halves
