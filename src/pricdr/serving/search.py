"""The best items of a few users, or of a few items: one matrix product over all items, in memory used again and again.

Results are those of ``pricdr recommend``, which cuts users and items into other blocks: a score may differ in its last
digit.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Final, NamedTuple, Protocol

import numpy as np

from pricdr.data.ratings import IntArray
from pricdr.models.fitted import FittedModel
from pricdr.models.recommending import SCORES_AT_ONCE
from pricdr.models.top_items import Float32Array, top_items

MOST_ROWS: Final = 32
"""Users scored in one product: more save no time, and make the first of them wait."""


class Ranked(NamedTuple):
    """Positions of items, best first, and their scores."""

    items: IntArray
    scores: Float32Array


class Search(Protocol):
    """Finds the best unseen items of users."""

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` best unseen items of the users at these positions."""
        ...


class ExactSearch:
    """Scores every item: exact, and fast enough up to a million items."""

    def __init__(self, model: FittedModel) -> None:
        self._model = model
        items = max(len(model.items), 1)
        self.rows = max(1, min(MOST_ROWS, SCORES_AT_ONCE // items))
        # One buffer, and one thread in it at a time: two products side by side would only share the same memory bus.
        self._buffer = np.empty((self.rows, len(model.items)), dtype=np.float32)
        self._lock = Lock()

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` best unseen items of the users at these positions."""
        ranked: list[Ranked] = []
        with self._lock:
            for start in range(0, len(users), self.rows):
                block = users[start : start + self.rows]
                scores = self._model.score(block, out=self._buffer[: len(block)])
                for row, user in enumerate(block.tolist()):
                    scores[row, seen_by(self._model, user)] = -np.inf
                ranked += ranked_rows(scores, k)
        return ranked


def seen_by(model: FittedModel, user: int) -> IntArray:
    """Return the positions of the items that the user at this position rated in training."""
    rated: IntArray = model.seen.indices[model.seen.indptr[user] : model.seen.indptr[user + 1]]
    return rated


def ranked_rows(scores: Float32Array, k: int) -> list[Ranked]:
    """Return the ``k`` best of each row of scores; −∞ is no item."""
    found = []
    for row, items in zip(scores, top_items(scores, k), strict=True):
        best = row[items]
        there = int(np.count_nonzero(best > -np.inf))  # best first, so that those come last
        found.append(Ranked(items[:there], best[:there]))
    return found


class SimilarItems:
    """Finds the items whose vectors point the same way: the cosine, which popularity does not change."""

    def __init__(self, model: FittedModel) -> None:
        vectors = model.item_vectors
        if not vectors.shape[1] and model.interaction is not None:
            vectors = model.interaction.item_parts
        self._vectors = vectors
        self._norms = _norms(vectors)

    @property
    def possible(self) -> bool:
        """Whether items have vectors at all; what is popular has none."""
        return bool(self._vectors.shape[1])

    def best(self, item: int, k: int) -> Ranked:
        """Return the ``k`` items most like the one at this position; none where its vector is zero."""
        if not self._norms[item]:
            return Ranked(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
        vector = self._vectors[[item]]
        product = self._vectors @ vector.T
        scores = np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.float32)[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = scores / (self._norms * self._norms[item])
        scores[self._norms == 0] = -np.inf
        scores[item] = -np.inf
        return ranked_rows(scores[None, :], k)[0]


def _norms(vectors: object) -> Float32Array:
    """Return the length of each vector, dense or sparse; in double precision on the way, since squares may overflow."""
    if isinstance(vectors, np.ndarray):
        squares = np.einsum("iw,iw->i", vectors, vectors, dtype=np.float64)
    else:
        squares = np.asarray(vectors.multiply(vectors).astype(np.float64).sum(axis=1)).ravel()  # type: ignore[attr-defined]
    return np.sqrt(squares).astype(np.float32)


def as_positions(users: Sequence[int]) -> IntArray:
    """Return positions as an array."""
    return np.array(users, dtype=np.int64)
