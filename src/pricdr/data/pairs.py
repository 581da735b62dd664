"""Two domains over the same users, and the two ways of preparing them from raw ratings.

Preparing needs both files, so it is for research: what it keeps depends on how often users and items were
rated, and the result says so (``Ratings.filtered_by``) wherever it goes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from pricdr.data.csr import CSR, row_counts
from pricdr.data.ratings import Ids, IntArray, Ratings, RatingsLike
from pricdr.data.reading.text_files import shorten
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError, require_count
from pricdr.files import write_new

_FEWEST_RATERS: Final = 3
"""Raters of a duplicate item: two items with one rater, or two, may well share them by chance."""
_MORE_THAN: Final = 5
"""The paper keeps users and items with more than this many positives."""


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


class Overlap(NamedTuple):
    """How many users two lists share."""

    common: int
    source_only: int
    target_only: int

    def summary(self) -> str:
        """Return one line for people.

        >>> Overlap(2, 1, 0).summary()
        'users: 2 in both, 1 only in the source, 0 only in the target'
        """
        only = f"{self.source_only:,} only in the source, {self.target_only:,} only in the target"
        return f"users: {self.common:,} in both, {only}"


def overlap(source_users: Iterable[str], target_users: Iterable[str]) -> Overlap:
    """Count the users in both lists and in one only.

    >>> overlap(["a", "b"], ["b", "c", "d"])
    Overlap(common=1, source_only=1, target_only=2)
    """
    source, target = set(source_users), set(target_users)
    common = len(source & target)
    return Overlap(common, len(source) - common, len(target) - common)


def prepare(
    source: RatingsLike, target: RatingsLike, *, threshold: float | None = 3.0, core: int | None = None
) -> DomainPair:
    """Prepare two domains as the paper does, or, with ``core``, as a joint K-core.

    Args:
        source: Raw ratings of one domain, or a data frame of them.
        target: Raw ratings of the other; users are matched by id.
        threshold: Keep what is rated at least this; ``None`` keeps everything.
        core: The K of :func:`prepare_core`; without it :func:`prepare_paper` is used.

    >>> r = Ratings.from_triples(["a", "a", "b", "b", "c"], ["x", "y", "x", "y", "x"], [3, 4, 5, 3, 5])
    >>> prepare(r, r, core=2).users
    ('a', 'b')
    """
    source, target = Ratings.of(source), Ratings.of(target)
    if core is None:
        return prepare_paper(source, target, threshold)
    return prepare_core(source, target, core=core, threshold=threshold)


def prepare_paper(
    source: Ratings, target: Ratings, threshold: float | None = 3.0, *, more_than: int = _MORE_THAN
) -> DomainPair:
    """Prepare two domains by the paper's five steps, each once.

    1. Keep what is rated at least ``threshold``; 2. per domain keep users with more than 5 of those; 3. keep
    the users of both domains; 4. per domain keep items with more than 5 of those; 5. step 3 again.
    ``more_than`` is for other readings of the paper's words: its own figures come from 5.

    >>> users, items = zip(*[(f"u{u}", f"i{i}") for u in range(7) for i in range(6)])
    >>> r = Ratings.from_triples(users, items, [4.0] * 42)
    >>> prepare_paper(r, r).source.filtered_by
    "the paper's five steps (rating >= 3, more than 5 positives per user and item, common users)"
    """
    both = _common(source, target, threshold)
    both = both.keep_users(
        at_least=more_than + 1, emptied=f"no user has more than {more_than} positives in both domains"
    )
    both = both.keep_items(at_least=more_than + 1)
    both = both.keep_users(
        at_least=1,
        emptied=f"no common user has an item with more than {more_than} positives in both domains",
    )
    rule = f"more than {more_than} positives per user and item, common users"
    return both.pair(f"the paper's five steps ({_rated(threshold)}, {rule})")


def prepare_core(source: Ratings, target: Ratings, *, core: int, threshold: float | None = 3.0) -> DomainPair:
    """Return the joint K-core: the largest pair where each user has K ratings in both domains and each item K.

    >>> r = Ratings.from_triples(["a", "a", "b", "b", "c"], ["x", "y", "x", "y", "x"])
    >>> prepare_core(r, r, core=2, threshold=None).source.items
    ('x', 'y')
    """
    require_count(core=core)
    emptied = f"no user has {core} ratings in both domains on items with {core} ratings"
    both, size = _common(source, target, threshold), -1
    # Removing a user can push an item below K and the other way round: go on until nothing changes.
    while size != (size := both.size):
        both = both.keep_users(at_least=core, emptied=emptied).keep_items(at_least=core)
    rule = f"at least {core} ratings per user and domain and per item, common users"
    return both.pair(f"a joint {core}-core ({_rated(threshold)}, {rule})")


def save_pair(pair: DomainPair, folder: Path) -> None:
    """Write ``source.parquet``, ``target.parquet`` and ``users.txt`` into an existing folder.

    Args:
        pair: What to write.
        folder: An existing folder, typically one that is being staged.

    >>> import tempfile
    >>> r = Ratings.from_triples(["a", "b"], ["x", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_pair(DomainPair(r, r), Path(folder))
    ...     sorted(file.name for file in Path(folder).iterdir())
    ['source.parquet', 'target.parquet', 'users.txt']
    """
    write_ratings(folder / "source.parquet", pair.source)
    write_ratings(folder / "target.parquet", pair.target)
    write_new(folder / "users.txt", "".join(f"{user}\n" for user in pair.users).encode())


@dataclass(frozen=True)
class _Side:
    """What is left of one domain: entries, and which items of ``ratings`` their columns are."""

    ratings: Ratings
    matrix: CSR
    items: IntArray

    def per_user(self) -> IntArray:
        return row_counts(self.matrix)

    def per_item(self) -> IntArray:
        return np.bincount(self.matrix.indices, minlength=self.matrix.shape[1])

    def at_users(self, rows: IntArray) -> "_Side":
        # Indexing copies the whole matrix, which a K-core would do once per round for nothing.
        same = np.array_equal(rows, np.arange(self.matrix.shape[0]))
        return self if same else replace(self, matrix=self.matrix[rows])

    def keep_items(self, at_least: int) -> "_Side":
        keep = np.flatnonzero(self.per_item() >= at_least)
        if len(keep) == len(self.items):
            return self
        return replace(self, matrix=self.matrix[:, keep], items=self.items[keep])

    def finished(self, users: Ids, filtered_by: str) -> Ratings:
        """Return ratings over ``users`` and the items that still occur."""
        left = self.keep_items(at_least=1)
        items = tuple(self.ratings.items[item] for item in left.items)
        before = self.ratings.filtered_by  # filters add up, and a certificate discloses all of them
        text = filtered_by if before is None else f"{before}, then {filtered_by}"
        return replace(self.ratings, matrix=left.matrix, users=users, items=items).disclosing(text)


@dataclass(frozen=True)
class _Both:
    """What is left of both domains, over the same users."""

    users: Ids
    source: _Side
    target: _Side

    @property
    def size(self) -> int:
        return int(self.source.matrix.nnz + self.target.matrix.nnz)

    def keep_users(self, *, at_least: int, emptied: str) -> "_Both":
        """Keep the users with that many ratings in both domains."""
        fewest = np.minimum(self.source.per_user(), self.target.per_user())
        rows = np.flatnonzero(fewest >= at_least)
        if len(rows) == 0:
            raise InputError(f"preparing leaves nothing: {emptied}")
        users = tuple(self.users[row] for row in rows)
        return _Both(users, self.source.at_users(rows), self.target.at_users(rows))

    def keep_items(self, *, at_least: int) -> "_Both":
        """Keep, per domain, the items with that many ratings."""
        return _Both(self.users, self.source.keep_items(at_least), self.target.keep_items(at_least))

    def pair(self, filtered_by: str) -> DomainPair:
        sides = (side.finished(self.users, filtered_by) for side in (self.source, self.target))
        return DomainPair(*sides)


def _common(source: Ratings, target: Ratings, threshold: float | None) -> _Both:
    """Return both domains over the users they share, in the source's order, without what is rated too low."""
    target_row = {user: row for row, user in enumerate(target.users)}
    rows = [(at, target_row[user]) for at, user in enumerate(source.users) if user in target_row]
    if not rows:
        first = " and ".join(shorten(users[0]) for users in (source.users, target.users) if users)
        raise InputError(
            f"preparing leaves nothing: no user id occurs in both domains (their first ids: {first}); "
            "are the user and item columns swapped?"
        )
    # By position in each domain: the two list the same users at different rows.
    in_source, in_target = np.array(rows, dtype=np.int64).T
    users = tuple(source.users[row] for row in in_source)
    sides = (_at_least("source", source, threshold), _at_least("target", target, threshold))
    return _Both(users, sides[0].at_users(in_source), sides[1].at_users(in_target))


def _at_least(name: str, ratings: Ratings, threshold: float | None) -> _Side:
    items = np.arange(len(ratings.items))
    if threshold is None:
        return _Side(ratings, ratings.matrix, items)
    if not ratings.has_values:
        raise InputError(f"a threshold needs ratings, and the {name} file has no rating column: use --threshold none")
    kept = ratings.at_least(threshold)
    if not len(kept):
        hint = "use --threshold none where values are not ratings"
        raise InputError(f"preparing leaves nothing: no {name} rating is at least {threshold:g}; {hint}")
    return _Side(ratings, kept.matrix, items)


def _rated(threshold: float | None) -> str:
    return "all ratings" if threshold is None else f"rating >= {threshold:g}"
