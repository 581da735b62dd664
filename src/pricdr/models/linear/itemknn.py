"""Item-kNN: items like the ones a user has rated, by who rated both."""

from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import scipy.sparse as sp

from pricdr.data.csr import CSR
from pricdr.data.ratings import IntArray, Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import require_count, require_not_negative
from pricdr.evaluation.metrics import Float64Array
from pricdr.models.base import SearchSpace, TargetMethod, Trained
from pricdr.models.chosen import Chosen
from pricdr.models.fitted import FittedModel
from pricdr.models.linear.closed_form import ones, popularity_tie_break
from pricdr.training.run_log import RunLog

CELLS: Final = 1 << 22
"""Similarities held at once, however many items there are."""


@dataclass(frozen=True, kw_only=True)
class ItemKNNConfig:
    """How many neighbours, and how much company they must have kept."""

    neighbours: int = 200
    shrinkage: float = 30.0
    """Added to the denominator of the cosine: a pair that met once is not a pair."""

    def __post_init__(self) -> None:
        require_count(neighbours=self.neighbours)
        require_not_negative(shrinkage=self.shrinkage)


@dataclass(frozen=True, kw_only=True)
class ItemKNN(TargetMethod):
    """Cosine of item columns with shrinkage, n_ij / (√(n_i n_j) + shrinkage); an item keeps its nearest neighbours.

    As Ferrari Dacrema et al. (RecSys 2019) tune it against the deep methods. Items without a rated neighbour, and
    ties, are ordered by popularity; a user without ratings gets what is popular.
    """

    name: ClassVar[str] = "itemknn"
    summary: ClassVar[str] = "items like those a user rated, by cosine"

    config: ItemKNNConfig = field(default_factory=ItemKNNConfig)
    space: ClassVar[SearchSpace] = {
        "neighbours": (20, 50, 100, 200, 500, 1000),
        "shrinkage": (0.0, 3.0, 10.0, 30.0, 100.0, 300.0),
    }

    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        model = FittedModel(
            method=self.name,
            users=target.users,
            items=target.items,
            user_vectors=ones(target.matrix).astype(np.float32),
            item_vectors=similarities(target.matrix, self.config),
            item_bias=popularity_tie_break(target.matrix, 1e-6),
            seen=target.matrix,
            in_release=np.zeros(len(target.users), dtype=bool),
        )
        return model, chosen


def similarities(ratings: CSR, config: ItemKNNConfig, *, cells: int = CELLS) -> CSR:
    """Return items x items: row i has item i's nearest neighbours and how near they are."""
    users = ones(ratings)
    items = users.T.tocsr()
    n_items = items.shape[0]
    size = max(1, cells // max(n_items, 1))
    norms = np.sqrt(np.diff(items.indptr))
    blocks: list[CSR] = []
    for start in range(0, n_items, size):
        # Sparse times sparse: only pairs of items that a user rated together are ever computed.
        met = (items[start : start + size] @ users).tocoo()
        own = met.row + start
        similar = met.data / (norms[own] * norms[met.col] + config.shrinkage)
        other = met.col != own
        blocks.append(_nearest(met.row[other], met.col[other], similar[other], met.shape, config.neighbours))
    if not blocks:
        return sp.csr_array(np.zeros((0, 0), dtype=np.float32))
    stacked: CSR = sp.vstack(blocks, format="csr")
    return stacked


def _nearest(rows: IntArray, columns: IntArray, values: Float64Array, shape: tuple[int, int], count: int) -> CSR:
    """Return the ``count`` largest values of each row; of equal ones those further left, so that runs repeat."""
    order = np.lexsort((columns, -values, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    first = np.searchsorted(rows, rows)
    kept = np.arange(len(rows)) - first < count
    entries = (values[kept].astype(np.float32), (rows[kept], columns[kept]))
    return sp.coo_array(entries, shape=shape).tocsr()
