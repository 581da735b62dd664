"""The best unseen items of many users: blocks of users against blocks of items, in memory that grows with neither.

How users and items are cut depends on their numbers and on ``k`` alone, never on the memory of the machine: a product
of single-precision matrices may differ in its last digit with their shapes.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from pricdr.data.csr import CSR, sp
from pricdr.data.ratings import Ids, IntArray, Ratings
from pricdr.errors import require_count
from pricdr.models.recommendations import Basis, Recommendation
from pricdr.models.top_items import BestItems, Float32Array

if TYPE_CHECKING:
    from pricdr.models.fitted import FittedModel

SCORES_AT_ONCE: Final = 1 << 23
"""Scores held at once: 32 MB."""
_ITEMS_AT_ONCE: Final = 1 << 13
"""So that a block has a thousand users where there are many items: products of few rows wait for memory."""
ROWS_IN_A_PART: Final = 1 << 18
"""Recommendations that are handed on together."""
BASES: Final = tuple(Basis)
_BYTES_PER_ID: Final = 72
"""A short text and the reference to it."""
_PROGRAM: Final = 100 << 20
"""Python and the libraries, before there is any data."""
_BYTES_PER_ROW: Final = 240
"""Of a part: its columns, and the same once more while they are encoded."""


@dataclass(frozen=True, eq=False)
class UserBlock:
    """The best items of some users, best first; a score of −∞ says that there are no more."""

    users: Ids
    bases: IntArray
    """Positions in ``BASES``."""
    items: IntArray
    """Positions of items, one row per user."""
    scores: Float32Array


class Recommender:
    """Finds the ``k`` best items of each of ``users`` that the user has rated neither in training nor in ``seen``."""

    def __init__(self, model: "FittedModel", users: Ids, k: int, seen: Ratings | None = None) -> None:
        require_count(k=k)
        self.model, self.users, self.seen = model, users, seen
        self.k = min(k, len(model.items))
        self._places = _places(model.users, users)
        self.elsewhere: CSR | None = None if seen is None else _rows_of(seen, users, model.items)

    @property
    def unknown_users(self) -> Ids:
        """The users the model never met, each once."""
        return tuple(dict.fromkeys(self.users[at] for at in np.flatnonzero(self._places < 0)))

    def parts(self) -> list[slice]:
        """Return how the users are cut into parts, each of which can be worked off on its own."""
        size = max(1, ROWS_IN_A_PART // max(self.k, 1))
        return [slice(start, min(start + size, len(self.users))) for start in range(0, len(self.users), size)]

    def blocks(self, part: slice) -> Iterator[UserBlock]:
        """Yield the recommendations of the users in ``part``, in their order."""
        columns = self._item_blocks
        widest = max((block.stop - block.start for block in columns), default=1)
        rows = max(1, SCORES_AT_ONCE // max(widest, self.k))
        # Used again and again: fresh memory has to be cleared by the system every time. Two of them, since the best of
        # a block are searched while the next block is scored.
        size = min(rows, part.stop - part.start) * widest
        buffers = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
        with ThreadPoolExecutor(1) as searching:
            for start in range(part.start, part.stop, rows):
                users = slice(start, min(start + rows, part.stop))
                places = self._places[users]
                search = _Search(self, places, users)
                found: Future[None] | None = None
                for number, items in enumerate(columns):
                    scores = self._scores(places, items, buffers[number % 2])
                    if found is not None:
                        found.result()
                    found = searching.submit(search.add, scores, items)
                if found is not None:
                    found.result()
                best = search.best
                yield UserBlock(self.users[users], self.model.bases(places), best.items, best.scores)

    def memory(self) -> int:
        """Return about how many bytes are needed, the model included."""
        tile = 4 * 4 * SCORES_AT_ONCE  # two blocks of scores, what a network makes of them, and candidates
        lists = len(self.users) * (8 if self.users is self.model.users else 8 + _BYTES_PER_ID)
        histories = 0 if self.elsewhere is None else _size_of(self.elsewhere)
        return _PROGRAM + model_memory(self.model) + tile + lists + histories + ROWS_IN_A_PART * _BYTES_PER_ROW

    @cached_property
    def _popularity(self) -> Float32Array:
        return self.model.popularity()

    @cached_property
    def _item_blocks(self) -> list[slice]:
        """Return how the items are cut: into blocks of about the same size, so that none is very narrow."""
        count = len(self.model.items)
        # A part of sparse vectors would be copied for every block of users.
        dense = not any(sp.issparse(one) for one in (self.model.user_vectors, self.model.item_vectors))
        blocks = -(-count // _ITEMS_AT_ONCE) if dense else min(count, 1)
        bounds = np.linspace(0, count, blocks + 1).astype(np.int64).tolist()
        return [slice(start, stop) for start, stop in pairwise(bounds)]

    def _scores(self, places: IntArray, items: slice, buffer: Float32Array) -> Float32Array:
        """Return the scores of a block of items; what is popular scores for users the model never met (−1)."""
        known = places >= 0
        shape = len(places), items.stop - items.start
        if known.all():
            return self.model.score(places, items, out=buffer[: shape[0] * shape[1]].reshape(shape))
        scores = np.tile(self._popularity[items], (len(places), 1))
        scores[known] = self.model.score(places[known], items)
        return scores


class _Search:
    """The best items of a block of users so far, without what they have rated."""

    def __init__(self, recommender: Recommender, places: IntArray, users: slice) -> None:
        self.best = BestItems(len(places), recommender.k)
        self._rated = (
            _Rated(recommender.model.seen, places),
            _Rated(recommender.elsewhere, np.arange(users.start, users.stop)),
        )

    def add(self, scores: Float32Array, items: slice) -> None:
        """Take the scores of a further block of items, which are overwritten."""
        for rated in self._rated:
            rated.hide(scores, items)
        self.best.add(scores, items.start)


class _Rated:
    """What a block of users has rated, sorted by item: blocks of items then take it slice by slice."""

    def __init__(self, matrix: CSR | None, places: IntArray) -> None:
        self._rows = self._items = np.empty(0, dtype=np.int64)
        if matrix is None:
            return
        known = np.flatnonzero(places >= 0)
        starts, stops = matrix.indptr[places[known]], matrix.indptr[places[known] + 1]
        rows = np.repeat(known, stops - starts)
        rated = [matrix.indices[start:stop] for start, stop in zip(starts, stops, strict=True)]
        items = np.concatenate([self._items, *rated])
        order = np.argsort(items, kind="stable")
        self._rows, self._items = rows[order], items[order]

    def hide(self, scores: Float32Array, items: slice) -> None:
        """Set the scores of rated items to −∞."""
        first, last = np.searchsorted(self._items, [items.start, items.stop])
        scores[self._rows[first:last], self._items[first:last] - items.start] = -np.inf


def recommendations(block: UserBlock, items: Ids) -> Iterator[Recommendation]:
    """Yield the recommendations of a block one by one."""
    for user, basis, positions, scores in zip(
        block.users, block.bases.tolist(), block.items.tolist(), block.scores.tolist(), strict=True
    ):
        for rank, (item, score) in enumerate(zip(positions, scores, strict=True), 1):
            if score > -np.inf:
                yield Recommendation(user, items[item], score, rank, BASES[basis])


def model_memory(model: "FittedModel") -> int:
    """Return about how many bytes a model takes: arrays, ratings and ids."""
    arrays = _size_of(model.user_vectors) + _size_of(model.item_vectors) + _size_of(model.seen) + model.item_bias.nbytes
    if model.interaction is not None:
        arrays += model.interaction.user_parts.nbytes + model.interaction.item_parts.nbytes
    return arrays + _BYTES_PER_ID * (len(model.users) + len(model.items))


def _size_of(numbers: "Float32Array | CSR") -> int:
    if isinstance(numbers, np.ndarray):
        return numbers.nbytes
    return int(numbers.data.nbytes + numbers.indices.nbytes + numbers.indptr.nbytes)


def _places(known: Ids, wanted: Ids) -> IntArray:
    """Return where each wanted id is among the known ones, −1 where it is not."""
    if wanted is known:  # everybody, as they are: a dictionary of millions would take longer than the rest
        return np.arange(len(known))
    asked = set(wanted)
    position = {name: at for at, name in enumerate(known) if name in asked}
    return np.array([position.get(name, -1) for name in wanted], dtype=np.int64)


def _rows_of(ratings: Ratings, users: Ids, items: Ids) -> CSR:
    """Return the ratings of these users, one row each, also where a user is named twice."""
    distinct = tuple(dict.fromkeys(users))
    matrix = ratings.select(users=distinct, items=items).matrix
    return matrix if len(distinct) == len(users) else matrix[_places(distinct, users)]
