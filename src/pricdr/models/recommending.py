"""The best unseen items of many users, in blocks of users and items, so that memory does not grow with either.

The size of blocks depends only on the number of users and items and on ``k``, never on the memory of the machine: the
last digit of a single-precision matrix product may depend on the shapes of its factors.
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
"""With many items a block then has a thousand users: products of few rows are bound by memory."""
ROWS_IN_A_PART: Final = 1 << 18
"""Recommendations in a part, which is written as one file."""
BASES: Final = tuple(Basis)
_BYTES_PER_ID: Final = 72
"""A short text and the reference to it."""
_PROGRAM: Final = 100 << 20
"""Python and the libraries, before there is any data."""
_BYTES_PER_ROW: Final = 240
"""Of a part: its columns, and a second copy while they are encoded."""


@dataclass(frozen=True, eq=False)
class UserBlock:
    """The best items of some users, best first; a score of −∞ marks the end of a shorter list."""

    users: Ids
    bases: IntArray
    """Positions in ``BASES``."""
    items: IntArray
    """Positions of items, one row per user."""
    scores: Float32Array


class Recommender:
    """Finds the ``k`` best items of each user, without those that the user rated in training or in ``seen``."""

    def __init__(self, model: "FittedModel", users: Ids, k: int, seen: Ratings | None = None) -> None:
        require_count(k=k)
        self.model, self.users, self.seen = model, users, seen
        self.k = min(k, len(model.items))
        self._positions = _positions(model.users, users)
        self._seen_rows: CSR | None = None if seen is None else _rows_of(seen, users, model.items)

    @property
    def unknown_users(self) -> Ids:
        """The users that the model does not know, each once."""
        return tuple(dict.fromkeys(self.users[at] for at in np.flatnonzero(self._positions < 0)))

    def parts(self) -> list[slice]:
        """Return the parts of the users, each of which can be computed on its own."""
        size = max(1, ROWS_IN_A_PART // max(self.k, 1))
        return [slice(start, min(start + size, len(self.users))) for start in range(0, len(self.users), size)]

    def blocks(self, part: slice) -> Iterator[UserBlock]:
        """Yield the recommendations of the users in ``part``, in their order."""
        columns = self._item_blocks
        widest = max((block.stop - block.start for block in columns), default=1)
        rows = max(1, SCORES_AT_ONCE // max(widest, self.k))
        # Reused, since the system has to clear fresh memory every time. Two of them: one block is searched while the
        # next one is scored.
        size = min(rows, part.stop - part.start) * widest
        buffers = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
        with ThreadPoolExecutor(1) as searching:
            for start in range(part.start, part.stop, rows):
                users = slice(start, min(start + rows, part.stop))
                positions = self._positions[users]
                search = _Search(self.k, self.model.seen, positions, self._seen_rows, users)
                pending: Future[None] | None = None
                for number, items in enumerate(columns):
                    scores = self._scores(positions, items, buffers[number % 2])
                    if pending is not None:
                        pending.result()
                    pending = searching.submit(search.add, scores, items)
                if pending is not None:
                    pending.result()
                best = search.best
                yield UserBlock(self.users[users], self.model.bases(positions), best.items, best.scores)

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
        known = positions >= 0
        shape = len(positions), items.stop - items.start
        if known.all():
            return self.model.score(positions, items, out=buffer[: shape[0] * shape[1]].reshape(shape))
        scores = np.tile(self._popularity[items], (len(positions), 1))
        scores[known] = self.model.score(positions[known], items)
        return scores


class _Search:
    """The best items of a block of users so far, without those they have rated."""

    def __init__(self, k: int, seen: CSR, positions: IntArray, seen_rows: CSR | None, users: slice) -> None:
        self.best = BestItems(len(positions), k)
        self._rated = (_Rated(seen, positions), _Rated(seen_rows, np.arange(users.start, users.stop)))

    def add(self, scores: Float32Array, items: slice) -> None:
        """Add the scores of another block of items; the array is overwritten."""
        for rated in self._rated:
            rated.hide(scores, items)
        self.best.add(scores, items.start)


class _Rated:
    """The ratings of a block of users, sorted by item, so that each block of items needs one slice of them."""

    def __init__(self, matrix: CSR | None, positions: IntArray) -> None:
        self._rows = self._items = np.empty(0, dtype=np.int64)
        if matrix is None:
            return
        known = np.flatnonzero(positions >= 0)
        starts, stops = matrix.indptr[positions[known]], matrix.indptr[positions[known] + 1]
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


def _rows_of(ratings: Ratings, users: Ids, items: Ids) -> CSR:
    """Return the ratings of these users, one row each, even if a user is listed twice."""
    distinct = tuple(dict.fromkeys(users))
    matrix = ratings.select(users=distinct, items=items).matrix
    return matrix if len(distinct) == len(users) else matrix[_positions(distinct, users)]
