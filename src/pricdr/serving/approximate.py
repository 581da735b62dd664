"""Beyond a million items: an index of their vectors finds candidates, which are then scored exactly.

What it finds may lack an item that belongs there; ``benchmarks/serving.py`` measures how often. ``--exact`` does
without.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp

from pricdr.data.ratings import IntArray
from pricdr.extras import FAISS
from pricdr.models.fitted import FittedModel
from pricdr.serving.search import ExactSearch, Ranked, Search, laid_out, ranked_rows, seen_by

if TYPE_CHECKING:
    from pricdr.models.top_items import Float32Array

EXACT_UP_TO: Final = 1_000_000
"""Items that are scored one and all for each request."""
_PROBED: Final = 1 / 16
"""The share of the cells that is looked into."""
_SPARE: Final = 4
"""Candidates for each item that is wanted: they are scored again in full precision, and the best stay."""
_SAMPLE: Final = 48
"""Items for each cell that the cells are learnt from."""


def search_of(model: FittedModel, *, exact: bool = False) -> tuple[FittedModel, Search]:
    """Return a search that fits the model, and the model as that search reads it.

    It is exact up to a million items, and beyond where nothing else is possible.
    """
    dense = not sp.issparse(model.user_vectors) and not sp.issparse(model.item_vectors)
    if exact or len(model.items) <= EXACT_UP_TO or not dense or model.interaction is not None:
        model = laid_out(model)
        return model, ExactSearch(model)
    return model, ApproximateSearch(model)


class ApproximateSearch:
    """An inverted file of item vectors (faiss): the items are sorted into cells, and a few cells are searched.

    The bias of an item is one more number of its vector, and every user's vector has a 1 there.
    """

    def __init__(self, model: FittedModel) -> None:
        FAISS.require()
        import faiss

        self._model = model
        vectors = np.ascontiguousarray(np.hstack([model.item_vectors, model.item_bias[:, None]]), dtype=np.float32)
        count, width = vectors.shape
        cells = max(1, int(2 * np.sqrt(count)))
        # Eight bits a number: a quarter of the memory, and what is lost is mended by scoring the candidates again.
        quantizer: Any = faiss.IndexFlatIP(width)
        self._index: Any = faiss.IndexIVFScalarQuantizer(
            quantizer, width, cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        self._index.cp.niter = 10
        step = max(1, count // (_SAMPLE * cells))
        self._index.train(vectors[::step])
        self._index.add(vectors)
        self.search_cells(_PROBED)

    def search_cells(self, share: float) -> None:
        """Search this share of the cells from now on: more take longer, and miss less."""
        self._index.nprobe = max(1, round(share * self._index.nlist))

    def best(self, users: IntArray, k: int) -> list[Ranked]:
        """Return about the ``k`` best unseen items of the users at these positions, with their exact scores."""
        vectors = self._model.user_vectors[users]
        asked = np.hstack([vectors, np.ones((len(users), 1), dtype=np.float32)])
        seen = [seen_by(self._model, user) for user in users.tolist()]
        # So many of the candidates may be items that the user has rated.
        most = min(len(self._model.items), _SPARE * k + max((len(rated) for rated in seen), default=0))
        _, found = self._index.search(np.ascontiguousarray(asked, dtype=np.float32), most)
        return [
            self._exactly(user, candidates, rated, k)
            for user, candidates, rated in zip(users.tolist(), found, seen, strict=True)
        ]

    def _exactly(self, user: int, candidates: IntArray, rated: IntArray, k: int) -> Ranked:
        # Sorted, so that ties go by position, as everywhere; −1 says that the cells held no more.
        items = np.setdiff1d(candidates[candidates >= 0], rated)
        if not len(items):
            return Ranked(items, np.empty(0, dtype=np.float32))
        scores: Float32Array = self._model.score_candidates(np.array([user]), items[None, :])
        best = ranked_rows(scores, min(k, len(items)))[0]
        return Ranked(items[best.items], best.scores)
