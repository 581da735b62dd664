"""The best unseen items of many users, in blocks of users and items, so that memory does not grow with either.

The size of blocks depends only on the number of users and items and on ``k``, never on the memory of the machine: the
last digit of a single-precision matrix product may depend on the shapes of its factors.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float32Array, IntArray
from pricdr.data.csr import CSR, sp
from pricdr.data.ratings import Ids, Ratings
from pricdr.errors import require_count
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    from pricdr.data.tables import Columns, Library
    from pricdr.models.fitted import FittedModel


class Basis(Enum):
    """What a user's recommendations are based on."""

    HISTORY = "history"
    RELEASE = "release"
    """The source's data: its release, or its ratings in a model that is not private."""
    BOTH = "both"
    POPULARITY = "popularity"


class Recommendation(NamedTuple):
    """One recommended item."""

    user: str
    item: str
    score: float
    rank: int
    """1 is the best."""
    basis: Basis


class WrittenRecommendations(NamedTuple):
    """A summary of the recommendations that were written to a file: one row for each recommended item."""

    path: Path
    rows: int
    users: int
    unknown_users: int
    """How many of the users the model does not know: they get popular items."""


class Recommendations(list[Recommendation]):
    """Recommended items, user by user and best first, and the users that the model does not know."""

    def __init__(self, recommended: Iterable[Recommendation] = (), *, unknown_users: Ids = ()) -> None:
        super().__init__(recommended)
        self.unknown_users = unknown_users  # each once: they get popular items

    def __repr__(self) -> str:
        """Show sizes only: a repr ends up in logs."""
        users = len({recommendation.user for recommendation in self})
        return f"Recommendations({len(self)} items for {users} users, {len(self.unknown_users)} of them unknown)"

    def to_frame(self, library: "Library | None" = None) -> Any:  # noqa: ANN401 - of whatever library there is
        """Return a frame, a row per ``Recommendation``, of ``library`` or the first of polars, pandas and pyarrow."""
        from pricdr.data.tables import texts, to_frame

        users, items, scores, ranks, bases = zip(*self, strict=True) if self else ((),) * 5
        numbers = np.array(scores, dtype=np.float64), np.array(ranks, dtype=np.int64)
        columns = texts(users), texts(items), *numbers, texts([basis.value for basis in bases])
        return to_frame(dict(zip(Recommendation._fields, columns, strict=True)), library)


_GROUP: Final = 32  # items in a group: the best scores of all groups give a lower bound on the k-th best score
_MAX_CANDIDATES: Final = 8  # average number of candidates per row up to which a later block is not searched row by row


def top_items(scores: Float32Array, k: int) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the positions of the ``k`` best scores of each row, best first, ties by position.

    >>> [row.tolist() for row in top_items(np.array([[1, 3, 3, 2], [0, 0, 0, 5]], dtype=np.float32), 2)]
    [[1, 2], [3, 0]]
    """
    for row, least in zip(scores, _lower_bounds(scores, k), strict=True):
        candidates = np.flatnonzero(row >= least)
        yield candidates[np.lexsort((candidates, -row[candidates]))[:k]]


class BestItems:
    """The ``k`` best items of each row, as :func:`top_items` finds them, block by block; −∞ marks an excluded item."""

    def __init__(self, rows: int, k: int) -> None:
        self.items: IntArray = np.full((rows, k), -1, dtype=np.int64)
        self.scores: Float32Array = np.full((rows, k), -np.inf, dtype=np.float32)

    def add(self, scores: Float32Array, start: int) -> None:
        """Add the scores of another block of items, the first of which is at position ``start``."""
        rows, columns = self._candidates(scores)
        if not len(rows):
            return
        k = self.items.shape[1]
        changed, row_of = np.unique(rows, return_inverse=True)
        all_rows = np.concatenate([np.repeat(np.arange(len(changed)), k), row_of])
        all_items = np.concatenate([self.items[changed].ravel(), columns + start])
        all_scores = np.concatenate([self.scores[changed].ravel(), scores[rows, columns]])
        order = np.lexsort((all_items, -all_scores, all_rows))
        starts = np.cumsum(k + np.bincount(row_of)) - (k + np.bincount(row_of))
        kept = order[starts[:, None] + np.arange(k)]
        self.items[changed], self.scores[changed] = all_items[kept], all_scores[kept]

    def _candidates(self, scores: Float32Array) -> tuple[IntArray, IntArray]:
        # An equal score does not displace an earlier item: ties are broken by position.
        least = self.scores[:, -1]
        better = scores > least[:, None]
        if np.count_nonzero(better) <= _MAX_CANDIDATES * len(scores):
            rows, columns = np.nonzero(better)
            return rows, columns
        best = list(top_items(scores, self.items.shape[1]))
        rows = np.repeat(np.arange(len(best)), [len(row) for row in best])
        columns = np.concatenate(best)
        better = scores[rows, columns] > least[rows]
        return rows[better], columns[better]


def _lower_bounds(scores: Float32Array, k: int) -> Float32Array:
    """Return for each row a score that at least ``k`` items reach, and few others: the k-th best group maximum."""
    rows, items = scores.shape
    groups = items // _GROUP
    if groups < k:
        return np.full(rows, -np.inf, dtype=np.float32)
    # A group takes every groups-th item, not neighbours: numpy can then compare whole rows.
    best = scores[:, : groups * _GROUP].reshape(rows, _GROUP, groups).max(axis=1)
    return np.partition(best, groups - k, axis=1)[:, groups - k]


SCORES_AT_ONCE: Final = 1 << 23  # scores held at once: 32 MB
_ITEMS_AT_ONCE: Final = 1 << 13  # a block then has a thousand users: products of few rows are bound by memory
ROWS_IN_A_PART: Final = 1 << 18  # a part of the users is computed on its own, and written as one file
BASES: Final = tuple(Basis)
_BYTES_PER_ID: Final = 72  # a short text and the reference to it
_PROGRAM: Final = 100 << 20  # Python and the libraries, before there is any data
_BYTES_PER_ROW: Final = 240  # of a part: its columns, and a second copy while they are encoded


class Recommender:
    """Finds the ``k`` best items of each user, without those that the user rated in training or in ``seen``."""

    def __init__(self, model: "FittedModel", users: Ids, k: int, seen: Ratings | None = None) -> None:
        require_count(k=k)
        self.model, self.users, self.seen = model, users, seen
        self.k = min(k, len(model.items))
        self._positions, self._seen_rows = _positions(model.users, users), None
        if seen is not None:  # one row for each of the users, even if one is listed twice
            distinct = tuple(dict.fromkeys(users))
            rated = seen.select(users=distinct, items=model.items).matrix
            self._seen_rows = rated if len(distinct) == len(users) else rated[_positions(distinct, users)]

    @property
    def unknown_users(self) -> Ids:
        """The users that the model does not know, each once."""
        return tuple(dict.fromkeys(self.users[at] for at in np.flatnonzero(self._positions < 0)))

    def parts(self) -> list[slice]:
        """Return the users part by part."""
        size = max(1, ROWS_IN_A_PART // max(self.k, 1))
        return [slice(start, min(start + size, len(self.users))) for start in range(0, len(self.users), size)]

    def columns(self, part: slice, progress: Progress = silent) -> "Columns":
        """Return the recommendations of the users in ``part``, in their order, as columns: one row for each."""
        from pricdr.data.tables import texts

        names, bases, columns = texts(self.model.items), texts([basis.value for basis in BASES]), self._item_blocks
        widest = max((block.stop - block.start for block in columns), default=1)
        rows = max(1, SCORES_AT_ONCE // max(widest, self.k))
        # Reused, since the system has to clear fresh memory every time.
        buffer = np.empty(min(rows, part.stop - part.start) * widest, dtype=np.float32)
        found: list[tuple[npt.NDArray[Any], ...]] = [
            (names[:0], names[:0], np.empty(0), np.empty(0, dtype=np.int64), bases[:0])
        ]
        for start in range(part.start, part.stop, rows):
            users = slice(start, min(start + rows, part.stop))
            positions = self._positions[users]
            best = BestItems(len(positions), self.k)
            rated = [_sorted_ratings(self.model.seen, positions)]
            if self._seen_rows is not None:
                rated.append(_sorted_ratings(self._seen_rows, np.arange(users.start, users.stop)))
            for items in columns:
                scores = self._scores(positions, items, buffer)
                for of_row, of_item in rated:
                    first, last = np.searchsorted(of_item, [items.start, items.stop])
                    scores[of_row[first:last], of_item[first:last] - items.start] = -np.inf
                best.add(scores, items.start)
            row, rank = np.nonzero(best.scores > -np.inf)
            own, item = texts(self.users[users], row), names[best.items[row, rank]]
            scores = best.scores[row, rank].astype(np.float64)
            found.append((own, item, scores, rank + 1, bases[self.model.bases(positions)[row]]))
            progress("recommending to users", users.stop, len(self.users))
        return dict(zip(Recommendation._fields, map(np.concatenate, zip(*found, strict=True)), strict=True))

    def memory(self) -> int:
        """Return about how many bytes are needed, including the model."""
        tile = 4 * 4 * SCORES_AT_ONCE  # two blocks of scores, the output of a network, and candidates
        lists = len(self.users) * (8 if self.users is self.model.users else 8 + _BYTES_PER_ID)
        seen = 0 if self._seen_rows is None else _size_of(self._seen_rows)
        return _PROGRAM + model_memory(self.model) + tile + lists + seen + ROWS_IN_A_PART * _BYTES_PER_ROW

    @cached_property
    def _popularity(self) -> Float32Array:
        return self.model.popularity()

    @cached_property
    def _item_blocks(self) -> list[slice]:
        """The items in blocks of about the same size, so that none is very narrow."""
        count = len(self.model.items)
        # A slice of sparse vectors would be copied for every block of users.
        dense = not any(sp.issparse(vectors) for vectors in (self.model.user_vectors, self.model.item_vectors))
        blocks = -(-count // _ITEMS_AT_ONCE) if dense else min(count, 1)
        bounds = np.linspace(0, count, blocks + 1).astype(np.int64).tolist()
        return [slice(start, stop) for start, stop in pairwise(bounds)]

    def _scores(self, positions: IntArray, items: slice, buffer: Float32Array) -> Float32Array:
        """Return the scores of a block of items; for users the model does not know (−1), the items' popularity."""
        known, shape = positions >= 0, (len(positions), items.stop - items.start)
        if known.all():
            return self.model.score(positions, items, out=buffer[: shape[0] * shape[1]].reshape(shape))
        scores = np.tile(self._popularity[items], (len(positions), 1))
        scores[known] = self.model.score(positions[known], items)
        return scores


def _sorted_ratings(matrix: CSR, positions: IntArray) -> tuple[IntArray, IntArray]:
    """Return rows and items of the ratings of users, sorted by item, so that a block of items needs one slice."""
    known = np.flatnonzero(positions >= 0)
    rated = matrix[positions[known]]
    items = rated.indices.astype(np.int64)
    order = np.argsort(items, kind="stable")
    return np.repeat(known, np.diff(rated.indptr))[order], items[order]


def model_memory(model: "FittedModel") -> int:
    """Return about how many bytes a model needs for arrays, ratings and ids."""
    arrays = _size_of(model.user_vectors) + _size_of(model.item_vectors) + _size_of(model.seen) + model.item_bias.nbytes
    if model.interaction is not None:
        arrays += model.interaction.user_parts.nbytes + model.interaction.item_parts.nbytes
    return arrays + _BYTES_PER_ID * (len(model.users) + len(model.items))


def _size_of(numbers: "Float32Array | CSR") -> int:
    if isinstance(numbers, np.ndarray):
        return numbers.nbytes
    return int(numbers.data.nbytes + numbers.indices.nbytes + numbers.indptr.nbytes)


def _positions(known: Ids, ids: Ids) -> IntArray:
    """Return the position of each id among the known ones, −1 for unknown ids."""
    if ids is known:  # all users in their order: a dictionary of millions would take longer than everything else
        return np.arange(len(known))
    distinct = set(ids)
    position = {name: at for at, name in enumerate(known) if name in distinct}
    return np.array([position.get(name, -1) for name in ids], dtype=np.int64)
