"""The best items of a few users, or of a few items: one matrix product over all items, in memory used again and again.

Results are those of ``pricdr recommend``, which cuts users and items into other blocks: a score may differ in its last
digit.
"""

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.data.csr import CSR
from pricdr.data.ratings import IntArray
from pricdr.models.fitted import FittedModel, Vectors
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
        sparse = sp.issparse(model.user_vectors) and sp.issparse(model.item_vectors)
        # Of two sparse matrices the second must lie the other way round: once, not for every product.
        self._weights: CSR | None = sp.csr_array(model.item_vectors.T) if sparse else None

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` best unseen items of the users at these positions."""
        ranked: list[Ranked] = []
        with self._lock:
            for start in range(0, len(users), self.rows):
                block = users[start : start + self.rows]
                scores = self._scores(block)
                for row, user in enumerate(block.tolist()):
                    scores[row, seen_by(self._model, user)] = -np.inf
                ranked += ranked_rows(scores, k)
        return ranked

    def _scores(self, users: IntArray) -> Float32Array:
        out = self._buffer[: len(users)]
        if self._weights is None:
            return self._model.score(users, out=out)
        product = self._model.user_vectors[users] @ self._weights
        np.add(product.toarray(), self._model.item_bias, out=out)
        return out


def laid_out(model: FittedModel) -> FittedModel:
    """Return the model with its dense item vectors in the order that products of a few rows read fastest.

    One number of all items after the other: BLAS would otherwise rearrange all of them for every product.
    """
    if not isinstance(model.item_vectors, np.ndarray) or not isinstance(model.user_vectors, np.ndarray):
        return model
    return replace(model, item_vectors=np.asfortranarray(model.item_vectors))


def seen_by(model: FittedModel, user: int) -> IntArray:
    """Return the positions of the items that the user at this position rated in training."""
    return np.asarray(model.seen.indices[model.seen.indptr[user] : model.seen.indptr[user + 1]], dtype=np.int64)


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
        with np.errstate(all="ignore"):  # numbers at the end of their range give −∞ below
            towards = (self._vectors[[item]] / self._norms[item]).astype(np.float32)
            product = self._vectors @ towards.T
            scores = np.asarray(product if isinstance(product, np.ndarray) else product.toarray())[:, 0] / self._norms
        scores[~np.isfinite(scores)] = -np.inf
        scores[item] = -np.inf
        return ranked_rows(scores.astype(np.float32)[None, :], k)[0]


def _norms(vectors: Vectors) -> npt.NDArray[np.float64]:
    """Return the length of each vector, dense or sparse, in double precision: squares of single ones may overflow."""
    if isinstance(vectors, np.ndarray):
        squares = np.einsum("iw,iw->i", vectors, vectors, dtype=np.float64)
    else:
        squares = np.asarray(vectors.astype(np.float64).power(2).sum(axis=1)).ravel()
    norms: npt.NDArray[np.float64] = np.sqrt(squares)
    return norms


def as_positions(users: Sequence[int]) -> IntArray:
    """Return positions as an array."""
    return np.array(users, dtype=np.int64)
