"""``DiskRatings``: ratings that are kept on disk while they are published."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pricdr.data.blocks import Convert
from pricdr.data.ids import Ids
from pricdr.engines.local.id_codes import IdCodes
from pricdr.engines.local.matrix import DiskMatrix
from pricdr.engines.local.records import RecordFile
from pricdr.engines.local.sorting import SortedEntries, Sorter, Wanted
from pricdr.errors import InputError


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
    filtered_by: str | None
    has_values: bool
    threshold: float | None
    _sorted: list[SortedEntries]

    def __len__(self) -> int:
        """Return how many pairs there are; before they are sorted, how many rows, which is never fewer."""
        return len(self._sorted[0]) if self._sorted else len(self.log)

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
        return replace(self, users=users, items=items, _sorted=[])

    def outside(self, users: Ids, items: Ids) -> Self:
        """Return the ratings of everybody but these users, over these items."""
        listed = set(users)
        return self.select(tuple(user for user in self.user_codes.names().to_list() if user not in listed), items)

    def sorted(self) -> SortedEntries:
        """Return the entries on disk, by user and item; they are sorted once."""
        if not self._sorted:
            wanted = Wanted(
                self.user_codes.positions(self.users),
                self.item_codes.positions(self.items),
                (len(self.users), len(self.items)),
            )
            # Positions first: ids of a list that no row names get their codes there.
            self._sorted.append(self.sorter.sort(self.log, self.user_codes.rows, wanted))
        return self._sorted[0]

    def units(self, convert: Convert) -> DiskMatrix:
        """Return the values as whole units, which ``convert`` makes of every block."""
        return DiskMatrix(self.sorted(), self.sorter.workspace, convert, columns=len(self.items))
