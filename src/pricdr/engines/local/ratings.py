"""``DiskRatings``: ratings that are kept on disk while they are published."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pricdr.data.blocks import Convert
from pricdr.data.ids import Ids
from pricdr.engines.local.id_codes import IdCodes
from pricdr.engines.local.matrix import LARGE, DiskMatrix
from pricdr.engines.local.records import RecordFile
from pricdr.engines.local.sorting import SortedEntries, Sorter, Wanted
from pricdr.errors import InputError
from pricdr.privacy.dimension import LARGEST
from pricdr.progress import Progress, silent


@dataclass(frozen=True, eq=False)
class DiskRatings:
    """Rows on disk, and which of them count. They are sorted when somebody first asks for entries."""

    log: RecordFile
    user_codes: IdCodes
    item_codes: IdCodes
    sorter: Sorter
    users: Ids
    items: Ids
    complete: bool
    """Whether the rows of all users are on disk, not only of those of a list."""
    rows: int
    """Rows on disk, or those that were only counted."""
    filtered_by: str | None
    has_values: bool
    threshold: float | None
    _sorted: dict[tuple[Ids, Ids], SortedEntries]
    """What was sorted already, by users and items; all selections share it."""

    def __len__(self) -> int:
        """Return how many pairs there are; before they are sorted, how many rows, which is never fewer."""
        done = self._sorted.get((self.users, self.items))
        return self.rows if done is None else len(done)

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
        """Return the ratings of everybody but these users, over these items."""
        listed = set(users)
        return self.select(tuple(user for user in self.raters() if user not in listed), items)

    def raters(self) -> Ids:
        """Return everybody who occurs in the rows, also those whose rows are not kept."""
        return tuple(self.user_codes.names().to_list())

    def sorted(self, progress: Progress = silent) -> SortedEntries:
        """Return the entries on disk, by user and item; they are sorted once."""
        which = self.users, self.items
        if which not in self._sorted:
            users, items = (
                codes.positions(ids) for codes, ids in zip((self.user_codes, self.item_codes), which, strict=True)
            )
            # Positions first: ids of a list that no row names get their codes there.
            wanted = Wanted(users, items, (len(self.users), len(self.items)))
            self._sorted[which] = self.sorter.sort(self.log, self.user_codes.rows, wanted, progress)
        return self._sorted[which]

    def require_space(self, dim: int | None) -> None:
        """Refuse rows of ``dim`` numbers for which the disk has too little room, where a file is to back them.

        None stands for a number that is chosen later, and counts as the largest.
        """
        need = len(self.users) * (dim or LARGEST) * np.dtype(np.float32).itemsize
        if need > LARGE:  # twice: the release itself may be on the same disk
            self.sorter.workspace.require_space(2 * need, "computing the rows")

    def units(self, convert: Convert) -> DiskMatrix:
        """Return the values as whole units, which ``convert`` makes of every block."""
        return DiskMatrix(self.sorted(), self.sorter.workspace, convert, columns=len(self.items))
