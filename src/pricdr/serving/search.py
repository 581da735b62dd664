"""The best items for a few users, or the items most like given ones, by one matrix product over all items.

``pricdr recommend`` computes in blocks of other sizes, so a score may differ in its last digit. For more than a million
items an index proposes candidates, which are then scored exactly; ``benchmarks/serving.py`` measures what it misses.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.sparse as sp

from pricdr.arrays import Float32Array, IntArray
from pricdr.extras import FAISS
from pricdr.models.fitted import FittedModel
from pricdr.models.recommend import SCORES_AT_ONCE, top_items

MAX_ROWS: Final = 32  # users scored in one product: more would save no time, and make the first of them wait
EXACT_UP_TO: Final = 1_000_000  # items, all of which are scored for every request
Ranked: TypeAlias = tuple[IntArray, Float32Array]  # positions of items, best first, and their scores
_OVERSAMPLING: Final = 4  # candidates for each item requested, which are scored again in full precision
_SAMPLES_PER_CELL: Final = 48  # items for each cell that the index is trained on


class ExactSearch:
    """Scores every item."""

    def __init__(self, model: FittedModel) -> None:
        self._model = model
        # For one thread: two products at once would only compete for the same memory bus.
        self._buffer = np.empty((_rows_at_once(model), len(model.items)), dtype=np.float32)
        sparse = sp.issparse(model.user_vectors) and sp.issparse(model.item_vectors)
        # A product of two sparse matrices needs the second one transposed: do that once, not for every product.
        self._weights = sp.csr_array(model.item_vectors.T) if sparse else None

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` best unseen items of each of the users at these positions."""
        return _ranked(self._unseen, users, k, len(self._buffer))

    def _unseen(self, users: IntArray) -> Float32Array:
        """Return the scores of all items, −∞ for those that a user has rated."""
        scores = self._buffer[: len(users)]
        if self._weights is None:
            scores = self._model.score(users, out=scores)
        else:
            np.add((self._model.user_vectors[users] @ self._weights).toarray(), self._model.item_bias, out=scores)
        for row, user in zip(scores, users.tolist(), strict=True):
            row[seen_items(self._model, user)] = -np.inf
        return scores


class ApproximateSearch:
    """An inverted file of item vectors (faiss): items are grouped into cells, and only a few cells are searched.

    The bias of an item is one more number of its vector, and every user's vector has a 1 there. ``share`` of the cells
    is searched: a larger share takes longer and misses less.
    """

    def __init__(self, model: FittedModel, share: float = 1 / 16) -> None:
        FAISS.require()
        import faiss

        self._model = model
        vectors = np.ascontiguousarray(np.hstack([model.item_vectors, model.item_bias[:, None]]), dtype=np.float32)
        count, width = vectors.shape
        cells = max(1, int(2 * np.sqrt(count)))
        # Eight bits a number: a quarter of the memory, and scoring the candidates again restores the precision.
        bits, product = faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        index: Any = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatIP(width), width, cells, bits, product)
        index.cp.niter = 10
        index.train(vectors[:: max(1, count // (_SAMPLES_PER_CELL * cells))])
        index.add(vectors)
        index.nprobe = max(1, round(share * cells))
        self._index = index

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return approximately the ``k`` best unseen items of the users at these positions, with exact scores."""
        queries = np.hstack([self._model.user_vectors[users], np.ones((len(users), 1), dtype=np.float32)])
        seen = [seen_items(self._model, user) for user in users.tolist()]
        # All items that a user has rated may be among the candidates.
        most_seen = max((len(items) for items in seen), default=0)
        n_candidates = min(len(self._model.items), _OVERSAMPLING * k + most_seen)
        _, candidates = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), n_candidates)
        return [self._scored(*found, k) for found in zip(users.tolist(), candidates, seen, strict=True)]

    def _scored(self, user: int, candidates: IntArray, seen: IntArray, k: int) -> Ranked:
        items = np.setdiff1d(candidates[candidates >= 0], seen)
        scores = self._model.score_candidates(np.array([user]), items[None, :]) if len(items) else np.empty((1, 0))
        ((best, best_scores),) = rank_rows(np.asarray(scores, dtype=np.float32), min(k, len(items)))
        return items[best], best_scores


Search: TypeAlias = ExactSearch | ApproximateSearch


def build_search(model: FittedModel, *, exact: bool) -> tuple[FittedModel, Search]:
    """Return a search for the model, exact where faiss is not needed or cannot index, and the model as it reads it."""
    dense = isinstance(model.user_vectors, np.ndarray) and isinstance(model.item_vectors, np.ndarray)
    if not exact and len(model.items) > EXACT_UP_TO and dense and model.interaction is None:
        return model, ApproximateSearch(model)
    if dense:  # column-major: BLAS would rearrange all vectors for every product of a few rows
        model = replace(model, item_vectors=np.asfortranarray(model.item_vectors))
    return model, ExactSearch(model)


class SimilarItems:
    """Finds the items whose vectors point the same way: the cosine, which does not depend on popularity."""

    def __init__(self, model: FittedModel) -> None:
        vectors = model.item_vectors
        if not vectors.shape[1] and model.interaction is not None:
            vectors = model.interaction.item_parts
        self._vectors, self._rows = vectors, _rows_at_once(model)
        self.available = bool(vectors.shape[1])  # a popularity model has no item vectors
        # In double precision: squares in single could overflow.
        squares = vectors.astype(np.float64) ** 2 if isinstance(vectors, np.ndarray) else vectors.astype(float).power(2)
        self._norms = np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())

    def best(self, items: IntArray, k: int) -> list[Ranked]:
        """Return the ``k`` items most like each of those at these positions; none if its vector is zero."""
        return _ranked(self._cosines, items, k, self._rows)

    def _cosines(self, items: IntArray) -> Float32Array:
        rows = self._vectors[items]
        with np.errstate(all="ignore"):  # a vector of zeros gives NaN, overflow infinity: both end up as −∞ below
            directions = (rows if isinstance(rows, np.ndarray) else rows.toarray()) / self._norms[items, None]
            product = np.asarray(self._vectors @ directions.astype(np.float32).T)
            cosines = np.ascontiguousarray((product / self._norms[:, None]).T, dtype=np.float32)
        cosines[~np.isfinite(cosines)] = -np.inf
        cosines[np.arange(len(items)), items] = -np.inf
        return cosines


def seen_items(model: FittedModel, user: int) -> IntArray:
    """Return the positions of the items that the user at this position rated in training."""
    return np.asarray(model.seen.indices[model.seen.indptr[user] : model.seen.indptr[user + 1]], dtype=np.int64)


def rank_rows(scores: Float32Array, k: int) -> list[Ranked]:
    """Return the ``k`` best items of each row of scores; an item with score −∞ is left out."""
    found = ((row, items[row[items] > -np.inf]) for row, items in zip(scores, top_items(scores, k), strict=True))
    return [(items, row[items]) for row, items in found]


def _ranked(score: Callable[[IntArray], Float32Array], positions: IntArray, k: int, rows: int) -> list[Ranked]:
    """Return the ``k`` best items for each position, scored so many rows at a time."""
    blocks = [positions[start : start + rows] for start in range(0, len(positions), rows)]
    return [ranked for block in blocks for ranked in rank_rows(score(block), k)]


def _rows_at_once(model: FittedModel) -> int:
    return max(1, min(MAX_ROWS, SCORES_AT_ONCE // max(len(model.items), 1)))
