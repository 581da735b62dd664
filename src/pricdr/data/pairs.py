"""Two domains over the same users, and the two ways of preparing them from raw ratings.

Preparing needs both files, so it is for research: what it keeps depends on how often users and items were
rated, and the result says so (``Ratings.filtered_by``) wherever it goes.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from pricdr.data.csr import CSR, row_counts
from pricdr.data.ratings import Ids, Ratings, RatingsLike
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
    return [rows[start:stop].tobytes() if stop - start >= _MIN_RATERS else None for start, stop in spans]


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
    left = _Left(source, target, threshold)
    left.keep_users(more_than + 1, emptied=f"no user has more than {more_than} positives in both domains")
    left.keep_items(more_than + 1)
    left.keep_users(1, emptied=f"no common user has an item with more than {more_than} positives in both domains")
    rule = f"more than {more_than} positives per user and item, common users"
    return left.pair(f"the paper's five steps ({_rated(threshold)}, {rule})")


def prepare_core(source: Ratings, target: Ratings, *, core: int, threshold: float | None = 3.0) -> DomainPair:
    """Return the joint K-core: the largest pair where each user has K ratings in both domains and each item K.

    >>> r = Ratings.from_triples(["a", "a", "b", "b", "c"], ["x", "y", "x", "y", "x"])
    >>> prepare_core(r, r, core=2, threshold=None).source.items
    ('x', 'y')
    """
    require_count(core=core)
    emptied = f"no user has {core} ratings in both domains on items with {core} ratings"
    left, size = _Left(source, target, threshold), -1
    # Removing a user can push an item below K and the other way round: go on until nothing changes.
    while size != (size := sum(matrix.nnz for matrix in left.matrices)):
        left.keep_users(core, emptied=emptied)
        left.keep_items(core)
    rule = f"at least {core} ratings per user and domain and per item, common users"
    return left.pair(f"a joint {core}-core ({_rated(threshold)}, {rule})")


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


class _Left:
    """What is left of two domains: entries over the users they share, in the source's order, and over some items."""

    def __init__(self, source: Ratings, target: Ratings, threshold: float | None) -> None:
        self.ratings = (source, target)
        target_row = {user: row for row, user in enumerate(target.users)}
        rows = [(at, target_row[user]) for at, user in enumerate(source.users) if user in target_row]
        if not rows:
            first = " and ".join(shorten(users[0]) for users in (source.users, target.users) if users)
            raise InputError(
                f"preparing leaves nothing: no user id occurs in both domains (their first ids: {first}); "
                "are the user and item columns swapped?"
            )
        self.users = tuple(source.users[row] for row, _ in rows)
        self.items = [np.arange(len(ratings.items)) for ratings in self.ratings]
        # By position in each domain: the two list the same users at different rows.
        each = zip(("source", "target"), self.ratings, np.array(rows, dtype=np.int64).T, strict=True)
        self.matrices = [_at_least(name, ratings, threshold)[at] for name, ratings, at in each]

    def keep_users(self, at_least: int, *, emptied: str) -> None:
        """Keep the users with that many ratings in both domains."""
        rows = np.flatnonzero(np.minimum(*map(row_counts, self.matrices)) >= at_least)
        if not len(rows):
            raise InputError(f"preparing leaves nothing: {emptied}")
        if len(rows) < len(self.users):
            self.users = tuple(self.users[row] for row in rows)
            self.matrices = [matrix[rows] for matrix in self.matrices]

    def keep_items(self, at_least: int) -> None:
        """Keep, per domain, the items with that many ratings."""
        for at, matrix in enumerate(self.matrices):
            keep = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= at_least)
            if len(keep) < matrix.shape[1]:
                self.matrices[at], self.items[at] = matrix[:, keep], self.items[at][keep]

    def pair(self, filtered_by: str) -> DomainPair:
        """Return the pair of what is left, without items that do not occur."""
        self.keep_items(1)
        sides = []
        for ratings, matrix, at in zip(self.ratings, self.matrices, self.items, strict=True):
            side = replace(ratings, matrix=matrix, users=self.users, items=tuple(ratings.items[item] for item in at))
            before = ratings.filtered_by  # filters add up, and a certificate discloses all of them
            sides.append(side.disclosing(filtered_by if before is None else f"{before}, then {filtered_by}"))
        return DomainPair(*sides)


def _at_least(name: str, ratings: Ratings, threshold: float | None) -> CSR:
    if threshold is None:
        return ratings.matrix
    if not ratings.has_values:
        raise InputError(f"a threshold needs ratings, and the {name} file has no rating column: use --threshold none")
    kept = ratings.at_least(threshold)
    if not len(kept):
        hint = "use --threshold none where values are not ratings"
        raise InputError(f"preparing leaves nothing: no {name} rating is at least {threshold:g}; {hint}")
    return kept.matrix


def _rated(threshold: float | None) -> str:
    return "all ratings" if threshold is None else f"rating >= {threshold:g}"
