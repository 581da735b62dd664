"""``DiskRatings``: ratings that are kept on disk while they are published."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pricdr.data.blocks import Convert
from pricdr.data.ids import Ids
from pricdr.engines.local.id_codes import IdCodes
from pricdr.engines.local.matrix import LARGE, DiskMatrix
from pricdr.engines.local.records import RecordFile
from pricdr.engines.local.sorting import Selection, SortedEntries, Sorter
from pricdr.errors import InputError
from pricdr.privacy.strategies.dims import MOST_LEARNT
from pricdr.progress import Progress, silent


@dataclass(frozen=True, eq=False)
class DiskRatings:
    """Rows on disk, and which of them count. They are sorted when entries are needed for the first time."""

    log: RecordFile
    user_codes: IdCodes
    item_codes: IdCodes
    sorter: Sorter
    users: Ids
    items: Ids
    complete: bool
    """Whether the rows of all users are on disk, not only those of listed users."""
    rows: int
    """The number of rows on disk, or of rows that were only counted."""
    filtered_by: str | None
    has_values: bool
    threshold: float | None
    _sorted: dict[tuple[Ids, Ids], SortedEntries]
    """The sorted entries so far, by users and items; all selections share them."""

    def __len__(self) -> int:
        """Return the number of pairs; before they are sorted, the number of rows, which is never smaller."""
        entries = self._sorted.get((self.users, self.items))
        return self.rows if entries is None else len(entries)

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        return f"DiskRatings({len(self.users)} users x {len(self.items)} items, {len(self)} rows or fewer)"

    def select(self, users: Ids | None = None, items: Ids | None = None) -> Self:
        """Return the ratings over exactly these users and items, in this order."""
        users = self.users if users is None else users
        items = self.items if items is None else items
        if users == self.users and items == self.items:
            return self
        if users != self.users and not self.complete:
            raise InputError("only the rows of the listed users are on disk: other users cannot be selected")
        return replace(self, users=users, items=items)

    def outside(self, users: Ids, items: Ids) -> Self:
        """Return the ratings of all other users than these, over these items."""
        listed = set(users)
        return self.select(tuple(user for user in self.raters() if user not in listed), items)

    def raters(self) -> Ids:
        """Return all users who occur in the rows, including those whose rows are not kept."""
        return tuple(self.user_codes.names().to_list())

    def sorted(self, progress: Progress = silent) -> SortedEntries:
        """Return the entries on disk, by user and item; they are sorted once."""
        key = self.users, self.items
        if key not in self._sorted:
            # Before rows per user are read: listed ids that occur in no row get their codes here.
            rows, columns = self.user_codes.positions(self.users), self.item_codes.positions(self.items)
            selection = Selection(rows, columns, (len(self.users), len(self.items)))
            self._sorted[key] = self.sorter.sort(self.log, self.user_codes.rows, selection, progress)
        return self._sorted[key]

    def require_space(self, dim: int | None) -> None:
        """Refuse result rows of ``dim`` numbers that are kept in a file, if the disk has too little room for it.

        None means that item features will give ``dim``, and counts as the widest learnt release.
        """
        need = len(self.users) * (dim or MOST_LEARNT) * np.dtype(np.float32).itemsize
        if need > LARGE:  # twice: the release may be on the same disk
            self.sorter.workspace.require_space(2 * need, "computing the rows")

    def units(self, convert: Convert) -> DiskMatrix:
        """Return the values as whole units, as ``convert`` computes them block by block."""
        return DiskMatrix(self.sorted(), self.sorter.workspace, convert, columns=len(self.items))
