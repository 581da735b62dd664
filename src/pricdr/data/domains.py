"""Two domains over the same users, in memory: needs numpy alone."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pricdr.data.ratings import Ids, Ratings
from pricdr.errors import InputError

_FEWEST_RATERS: Final = 3
"""Raters of a duplicate item: two items with one rater, or two, may well share them by chance."""


@dataclass(frozen=True, eq=False)
class DomainPair:
    """Ratings of two domains over the same users, in the same order.

    >>> r = Ratings.from_triples(["a", "b"], ["x", "y"])
    >>> DomainPair(r, r)
    DomainPair(2 users; source: 2 items, 2 rated; target: 2 items, 2 rated)
    """

    source: Ratings
    target: Ratings

    def __post_init__(self) -> None:
        if self.source.users != self.target.users:
            raise InputError("source and target must list the same users in the same order")

    @property
    def users(self) -> Ids:
        """Return the users of both domains."""
        return self.source.users

    def duplicate_items(self) -> Ids:
        """Return the source items rated by exactly the users who rated some target item, three users at least.

        A shop that lists a product in both domains has its ratings in both. A target rating hidden from training then
        still lies in the source, and what crosses is the answer.

        >>> a = Ratings.from_triples(["u", "v", "w", "u", "v"], ["x", "x", "x", "y", "y"])
        >>> b = Ratings.from_triples(["u", "v", "w", "w"], ["disc", "disc", "disc", "case"])
        >>> DomainPair(a, b).duplicate_items()
        ('x',)
        """
        in_target = {raters for raters in _raters(self.target) if raters is not None}
        return tuple(
            item for item, raters in zip(self.source.items, _raters(self.source), strict=True) if raters in in_target
        )

    def without_duplicates(self) -> "DomainPair":
        """Return the same pair with duplicate items left out of the source; the target, and so its split, stays."""
        duplicates = set(self.duplicate_items())
        if not duplicates:
            return self
        # Only the source changes: what was measured on the target stays comparable.
        left = self.source.select(items=tuple(item for item in self.source.items if item not in duplicates))
        if not len(left):
            raise InputError("nothing is left of the source: every item has the same raters as a target item")
        rule = "without items rated by the same users as an item of the other domain"
        before = left.filtered_by
        return replace(self, source=left.disclosing(rule if before is None else f"{before}, {rule}"))

    def fingerprint(self) -> str:
        """Return the fingerprints of both domains, see :meth:`Ratings.fingerprint`."""
        return f"{self.source.fingerprint()} {self.target.fingerprint()}"

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        sides = (("source", self.source), ("target", self.target))
        sizes = (f"{name}: {len(side.items)} items, {len(side)} rated" for name, side in sides)
        return f"DomainPair({len(self.users)} users; {'; '.join(sizes)})"


def _raters(ratings: Ratings) -> list[bytes | None]:
    """Return who rated each item, as bytes that can be compared; None for items with too few raters to tell."""
    columns = ratings.matrix.tocsc()  # raters in order: the same ones must give the same bytes
    rows = columns.indices.astype(np.int64)
    spans = zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
    return [rows[start:stop].tobytes() if stop - start >= _FEWEST_RATERS else None for start, stop in spans]
