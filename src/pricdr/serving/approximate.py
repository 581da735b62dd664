"""Approximate search, for more than a million items: an index proposes candidates, which are then scored exactly.

It may miss an item that belongs in the list; ``benchmarks/serving.py`` measures how often. ``--exact`` turns it off.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp

from pricdr.data.ratings import IntArray
from pricdr.extras import FAISS
from pricdr.models.fitted import FittedModel
from pricdr.serving.search import ExactSearch, Ranked, Search, rank_rows, seen_items, with_fast_layout

if TYPE_CHECKING:
    from pricdr.models.top_items import Float32Array

EXACT_UP_TO: Final = 1_000_000
"""Up to this many items, all of them are scored for every request."""
_PROBE_SHARE: Final = 1 / 16
"""The share of the cells that is searched."""
_OVERSAMPLING: Final = 4
"""Candidates for each item requested: they are scored again in full precision, and the best are kept."""
_SAMPLES_PER_CELL: Final = 48
"""Items for each cell that the index is trained on."""


def build_search(model: FittedModel, *, exact: bool = False) -> tuple[FittedModel, Search]:
    """Return a search for the model, and the model in the layout that the search reads.

    The search is exact for up to a million items, and for models that faiss cannot index.
    """
    dense = not sp.issparse(model.user_vectors) and not sp.issparse(model.item_vectors)
    if exact or len(model.items) <= EXACT_UP_TO or not dense or model.interaction is not None:
        model = with_fast_layout(model)
        return model, ExactSearch(model)
    return model, ApproximateSearch(model)


class ApproximateSearch:
    """An inverted file of item vectors (faiss): items are grouped into cells, and only a few cells are searched.

    The bias of an item is one more number of its vector, and every user's vector has a 1 there.
    """

    def __init__(self, model: FittedModel) -> None:
        FAISS.require()
        import faiss

        self._model = model
        vectors = np.ascontiguousarray(np.hstack([model.item_vectors, model.item_bias[:, None]]), dtype=np.float32)
        count, width = vectors.shape
        cells = max(1, int(2 * np.sqrt(count)))
        # Eight bits a number: a quarter of the memory, and scoring the candidates again restores the precision.
        quantizer: Any = faiss.IndexFlatIP(width)
        self._index: Any = faiss.IndexIVFScalarQuantizer(
            quantizer, width, cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        self._index.cp.niter = 10
        step = max(1, count // (_SAMPLES_PER_CELL * cells))
        self._index.train(vectors[::step])
        self._index.add(vectors)
        self.set_probe_share(_PROBE_SHARE)

    def set_probe_share(self, share: float) -> None:
        """Search this share of the cells from now on: a larger share takes longer and misses less."""
        self._index.nprobe = max(1, round(share * self._index.nlist))

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return approximately the ``k`` best unseen items of the users at these positions, with exact scores."""
        vectors = self._model.user_vectors[users]
        queries = np.hstack([vectors, np.ones((len(users), 1), dtype=np.float32)])
        seen = [seen_items(self._model, user) for user in users.tolist()]
        # All items that a user has rated may be among the candidates.
        most_seen = max((len(items) for items in seen), default=0)
        n_candidates = min(len(self._model.items), _OVERSAMPLING * k + most_seen)
        _, candidates = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), n_candidates)
        return [
            self._rerank(user, proposed, rated, k)
            for user, proposed, rated in zip(users.tolist(), candidates, seen, strict=True)
        ]

    def _rerank(self, user: int, candidates: IntArray, seen: IntArray, k: int) -> Ranked:
        # setdiff1d sorts, so that ties are broken by position, as in the exact search. faiss pads with −1.
        items = np.setdiff1d(candidates[candidates >= 0], seen)
        if not len(items):
            return Ranked(items, np.empty(0, dtype=np.float32))
        scores: Float32Array = self._model.score_candidates(np.array([user]), items[None, :])
        best = rank_rows(scores, min(k, len(items)))[0]
        return Ranked(items[best.items], best.scores)
