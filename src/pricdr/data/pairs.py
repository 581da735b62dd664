"""Two domains over the same users, and the two ways of preparing them; for research, since both files are needed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Final

import numpy as np

from pricdr.data.csr import row_counts
from pricdr.data.ids import Ids, id_lines
from pricdr.data.ratings import Ratings, RatingsLike
from pricdr.data.reading.text_files import shorten
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError, require_count
from pricdr.files import write_new

_MIN_RATERS: Final = 3
"""Raters of a duplicate item: two items with one rater, or two, may well share them by chance."""
_MORE_THAN: Final = 5
"""The paper keeps users and items with more than this many positives."""


@dataclass(frozen=True, eq=False)
class DomainPair:
    """Ratings of two domains over the same users, in the same order."""

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

        The ratings of a product in both domains are in both: one that is hidden from training still lies in the source.
        """
        in_target = set(_raters(self.target)) - {None}
        return tuple(compress(self.source.items, (raters in in_target for raters in _raters(self.source))))

    def without_duplicates(self) -> "DomainPair":
        """Return the same pair with duplicate items left out of the source; the target, and so its split, stays."""
        duplicates = set(self.duplicate_items())
        if not duplicates:
            return self
        # Only the source changes: what was measured on the target stays comparable.
        left = self.source.select(items=tuple(item for item in self.source.items if item not in duplicates))
        if not len(left):
            raise InputError("nothing is left of the source: every item has the same raters as a target item")
        rules = (left.filtered_by, "without items rated by the same users as an item of the other domain")
        return replace(self, source=left.disclosing(", ".join(filter(None, rules))))

    def fingerprint(self) -> str:
        """Return the fingerprints of both domains, see :meth:`Ratings.fingerprint`."""
        return f"{self.source.fingerprint()} {self.target.fingerprint()}"

    def __repr__(self) -> str:  # sizes only: ratings are private
        sides = (("source", self.source), ("target", self.target))
        sizes = (f"{name}: {len(side.items)} items, {len(side)} rated" for name, side in sides)
        return f"DomainPair({len(self.users)} users; {'; '.join(sizes)})"


def _raters(ratings: Ratings) -> list[bytes | None]:
    """Return who rated each item, as bytes that can be compared; None for items with too few raters to tell."""
    columns = ratings.matrix.tocsc()  # raters in order: the same ones must give the same bytes
    rows = columns.indices.astype(np.int64)
    spans = zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
    return [rows[start:stop].tobytes() if stop - start >= _MIN_RATERS else None for start, stop in spans]


def prepare(
    source: RatingsLike,
    target: RatingsLike,
    *,
    threshold: float | None = 3.0,
    core: int | None = None,
    more_than: int = _MORE_THAN,
) -> DomainPair:
    """Prepare two domains by the paper's five steps, each once, or, with ``core``, as a joint K-core.

    The five steps: 1. keep what is rated at least ``threshold`` (None: everything); 2. per domain keep users with more
    than 5 of those; 3. keep the users of both domains, matched by id; 4. per domain keep items with more than 5 of
    those; 5. step 3 again. A joint K-core is the largest pair where each user has K ratings in both domains and each
    item K. ``more_than`` is for other readings of the paper's words; its own figures come from 5.

    >>> r = Ratings.from_triples(["a", "a", "b", "b", "c"], ["x", "y", "x", "y", "x"], [3, 4, 5, 3, 5])
    >>> prepare(r, r, core=2).users
    ('a', 'b')
    """
    rated = "all ratings" if threshold is None else f"rating >= {threshold:g}"
    left = _common(Ratings.of(source), Ratings.of(target), threshold)
    if core is None:
        emptied = f"more than {more_than} positives in both domains"
        left = _with_users(left, more_than + 1, emptied=f"no user has {emptied}")
        left = _with_items(left, more_than + 1)
        left = _with_users(left, 1, emptied=f"no common user has an item with {emptied}")
        rule = f"more than {more_than} positives per user and item, common users"
        return _disclosing(left, f"the paper's five steps ({rated}, {rule})")
    rule = f"at least {core} ratings per user and domain and per item, common users"
    return _disclosing(_joint_core(left, core), f"a joint {core}-core ({rated}, {rule})")


def prepare_several(sources: Sequence[Ratings], target: Ratings, *, core: int, any_source: bool) -> list[DomainPair]:
    """Prepare several sources of one target as a joint K-core, and return the pair of each, all over the same users.

    Users have K ratings of the target, and K of every source; or, with ``any_source``, of one source at least.
    """
    sides = [side.select(target.users) for side in (*sources, target)]
    *kept, own = _joint_core(sides, core, any_source=any_source)
    which = "a source" if any_source else "every source"
    rule = f"at least {core} ratings per item, and per user of the target and {which}"
    return [_disclosing([source, own], f"a joint {core}-core (all ratings, {rule})") for source in kept]


def save_pair(pair: DomainPair, folder: Path) -> None:
    """Write ``source.parquet``, ``target.parquet`` and ``users.txt`` into an existing folder."""
    write_ratings(folder / "source.parquet", pair.source)
    write_ratings(folder / "target.parquet", pair.target)
    write_new(folder / "users.txt", id_lines(pair.users))


def _common(source: Ratings, target: Ratings, threshold: float | None) -> list[Ratings]:
    """Return the ratings of the users of both domains, in the source's order, that are at least the threshold."""
    in_target = set(target.users)
    users = tuple(user for user in source.users if user in in_target)
    if not users:
        first = " and ".join(shorten(ratings.users[0]) for ratings in (source, target) if ratings.users)
        fault = f"no user id occurs in both domains (their first ids: {first})"
        raise InputError(f"preparing leaves nothing: {fault}; are the user and item columns swapped?")
    if threshold is None:
        return [source.select(users), target.select(users)]
    sides = []
    for name, side in (("source", source), ("target", target)):
        if not side.has_values:
            rule = f"a threshold needs ratings, and the {name} file has no rating column: use --threshold none"
            raise InputError(rule)
        # What is disclosed of a pair names the threshold.
        kept = replace(side.at_least(threshold), threshold=side.threshold)
        if not len(kept):
            hint = "use --threshold none where values are not ratings"
            raise InputError(f"preparing leaves nothing: no {name} rating is at least {threshold:g}; {hint}")
        sides.append(kept.select(users))
    return sides


def _joint_core(sides: list[Ratings], core: int, *, any_source: bool = False) -> list[Ratings]:
    require_count(core=core)
    emptied, size = f"no user has {core} ratings in both domains on items with {core} ratings", -1
    # Removing a user can push an item below K and the other way round: go on until nothing changes.
    while size != (size := sum(map(len, sides))):
        sides = _with_items(_with_users(sides, core, emptied=emptied, any_source=any_source), core)
    return sides


def _with_users(sides: list[Ratings], at_least: int, *, emptied: str, any_source: bool = False) -> list[Ratings]:
    """Keep the users with that many ratings of the target, which comes last, and of every source or of any."""
    *sources, target = (row_counts(side.matrix) for side in sides)
    keep = np.minimum((np.max if any_source else np.min)(sources, axis=0), target) >= at_least
    if not keep.any():
        raise InputError(f"preparing leaves nothing: {emptied}")
    users = tuple(compress(sides[0].users, keep))
    return [side.select(users=users) for side in sides]


def _with_items(sides: list[Ratings], at_least: int) -> list[Ratings]:
    """Keep, per domain, the items with that many ratings."""
    keep = (np.bincount(side.matrix.indices, minlength=len(side.items)) >= at_least for side in sides)
    return [side.select(items=tuple(compress(side.items, kept))) for side, kept in zip(sides, keep, strict=True)]


def _disclosing(sides: list[Ratings], filtered_by: str) -> DomainPair:
    """Return the pair of what is left, without items that do not occur; filters add up, and all are disclosed."""
    rules = (", then ".join(filter(None, (side.filtered_by, filtered_by))) for side in sides)
    return DomainPair(*map(Ratings.disclosing, _with_items(sides, 1), rules))
