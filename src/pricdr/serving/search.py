"""The best items for a few users, or the items most like a given one, by one matrix product over all items.

Results are those of ``pricdr recommend``. That command computes in blocks of other sizes, so a score may differ in its
last digit.
"""

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

MAX_ROWS: Final = 32
"""Users scored in one product: more would save no time, and make the first of them wait."""


class Ranked(NamedTuple):
    """Positions of items, best first, and their scores."""

    items: IntArray
    scores: Float32Array


class Search(Protocol):
    """Finds the best unseen items of users."""

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` best unseen items of each of the users at these positions."""
        ...


class ExactSearch:
    """Scores every item: exact, and fast enough up to a million items."""

    def __init__(self, model: FittedModel) -> None:
        self._model = model
        self.rows = max(1, min(MAX_ROWS, SCORES_AT_ONCE // max(len(model.items), 1)))
        # One buffer, used by one thread at a time: two products at once would only compete for the same memory bus.
        self._buffer = np.empty((self.rows, len(model.items)), dtype=np.float32)
        self._lock = Lock()
        sparse = sp.issparse(model.user_vectors) and sp.issparse(model.item_vectors)
        # A product of two sparse matrices needs the second one transposed: do that once, not for every product.
        self._weights: CSR | None = sp.csr_array(model.item_vectors.T) if sparse else None

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` best unseen items of each of the users at these positions."""
        ranked: list[Ranked] = []
        with self._lock:
            for start in range(0, len(users), self.rows):
                block = users[start : start + self.rows]
                scores = self._scores(block)
                for row, user in enumerate(block.tolist()):
                    scores[row, seen_items(self._model, user)] = -np.inf
                ranked += rank_rows(scores, k)
        return ranked

    def _scores(self, users: IntArray) -> Float32Array:
        out = self._buffer[: len(users)]
        if self._weights is None:
            return self._model.score(users, out=out)
        product = self._model.user_vectors[users] @ self._weights
        np.add(product.toarray(), self._model.item_bias, out=out)
        return out


def with_fast_layout(model: FittedModel) -> FittedModel:
    """Return the model with its dense item vectors in column-major order, which products of a few rows read fastest.

    With row-major vectors, BLAS would rearrange all of them for every product.
    """
    if not isinstance(model.item_vectors, np.ndarray) or not isinstance(model.user_vectors, np.ndarray):
        return model
    return replace(model, item_vectors=np.asfortranarray(model.item_vectors))


def seen_items(model: FittedModel, user: int) -> IntArray:
    """Return the positions of the items that the user at this position rated in training."""
    return np.asarray(model.seen.indices[model.seen.indptr[user] : model.seen.indptr[user + 1]], dtype=np.int64)


def rank_rows(scores: Float32Array, k: int) -> list[Ranked]:
    """Return the ``k`` best items of each row of scores; an item with score −∞ is left out."""
    ranked = []
    for row, items in zip(scores, top_items(scores, k), strict=True):
        best = row[items]
        count = int(np.count_nonzero(best > -np.inf))  # best first, so that −∞ comes last
        ranked.append(Ranked(items[:count], best[:count]))
    return ranked


class SimilarItems:
    """Finds the items whose vectors point the same way: the cosine, which does not depend on popularity."""

    def __init__(self, model: FittedModel) -> None:
        vectors = model.item_vectors
        if not vectors.shape[1] and model.interaction is not None:
            vectors = model.interaction.item_parts
        self._vectors = vectors
        self._norms = _norms(vectors)
        self._rows = max(1, min(MAX_ROWS, SCORES_AT_ONCE // max(len(model.items), 1)))

    @property
    def available(self) -> bool:
        """Whether the model has item vectors; a popularity model has none."""
        return bool(self._vectors.shape[1])

    def best(self, items: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` items most like each of those at these positions; none if its vector is zero."""
        ranked: list[Ranked] = []
        for start in range(0, len(items), self._rows):
            ranked += self._best(items[start : start + self._rows], k)
        return ranked

    def _best(self, items: IntArray, k: int) -> list[Ranked]:
        rows = self._vectors[items]
        with np.errstate(all="ignore"):  # a vector of zeros gives NaN, overflow infinity: both end up as −∞ below
            directions = (rows if isinstance(rows, np.ndarray) else rows.toarray()) / self._norms[items, None]
            product = np.asarray(self._vectors @ directions.astype(np.float32).T)
            cosines = np.ascontiguousarray((product / self._norms[:, None]).T, dtype=np.float32)
        cosines[~np.isfinite(cosines)] = -np.inf
        cosines[np.arange(len(items)), items] = -np.inf
        return rank_rows(cosines, k)


def _norms(vectors: Vectors) -> npt.NDArray[np.float64]:
    """Return the norm of each vector, dense or sparse, in double precision: squares in single could overflow."""
    if isinstance(vectors, np.ndarray):
        squares = np.einsum("iw,iw->i", vectors, vectors, dtype=np.float64)
    else:
        squares = np.asarray(vectors.astype(np.float64).power(2).sum(axis=1)).ravel()
    norms: npt.NDArray[np.float64] = np.sqrt(squares)
    return norms
