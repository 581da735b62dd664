"""``Factors``: what every fitted model here comes down to. Vectors for users and items, and a bias for items.

Vectors may be dense or sparse (an item-kNN's user vector is the user's row of ratings); the methods with a network
over pairs add an :class:`Interaction`. Training is over when these arrays exist: scoring, recommending and evaluating
need numpy alone, and torch where there is an interaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.data.ratings import CSR, Ids, IntArray, Ratings
from pricdr.errors import InputError, printable, require_count
from pricdr.models.interaction import LARGEST_SCORE, Interaction, largest

Float32Array: TypeAlias = npt.NDArray[np.float32]
Vectors: TypeAlias = Any
"""One row each: a float32 array, or a sparse CSR matrix where rows are mostly zero."""


class Basis(Enum):
    """What a user's recommendations rest on."""

    HISTORY = "history"
    RELEASE = "release"
    """The source's data: its release, or, in a model that is not private, its ratings."""
    BOTH = "both"
    POPULARITY = "popularity"


class Recommendation(NamedTuple):
    """One recommended item."""

    user: str
    item: str
    score: float
    rank: int
    """From 1."""
    basis: Basis


@dataclass(frozen=True, eq=False)
class HistorySummary:
    """All that an exported model keeps of the histories it was trained on."""

    item_counts: Float32Array
    """How often each item was rated in training."""
    has_history: npt.NDArray[np.bool_]
    """Which users rated anything in training."""


@dataclass(frozen=True, eq=False)
class Factors:
    """score(u, i) = ⟨user vector, item vector⟩ + item bias (+ an interaction of the two)."""

    method: str
    users: Ids
    items: Ids
    user_vectors: Vectors
    item_vectors: Vectors
    item_bias: Float32Array
    seen: CSR
    """What each user rated in training: never recommended again. Empty in an exported model."""
    in_release: npt.NDArray[np.bool_]
    """Which users have a row of the source (a release's, or plaintext) that the model used."""
    interaction: Interaction | None = None
    uses_history: bool = True
    """False where a user's scores do not depend on the user's own ratings."""
    summary: HistorySummary | None = None
    """In an exported model, what stands for ``seen``."""

    def __post_init__(self) -> None:
        shapes = (self.user_vectors.shape[0], self.item_vectors.shape[0], self.item_bias.shape[0])
        if shapes != (len(self.users), len(self.items), len(self.items)):
            raise InputError(f"arrays of {shapes} do not fit {len(self.users)} users and {len(self.items)} items")
        if self.user_vectors.shape[1] != self.item_vectors.shape[1]:
            raise InputError(f"user and item vectors differ in length: {self.user_vectors.shape[1]} and others")
        per_user, per_item = [len(self.in_release)], [len(self.item_bias)]
        if self.interaction is not None:
            per_user.append(len(self.interaction.user_parts))
            per_item.append(len(self.interaction.item_parts))
        if self.summary is not None:
            per_user.append(len(self.summary.has_history))
            per_item.append(len(self.summary.item_counts))
        fits = self.seen.shape == (len(self.users), len(self.items))
        if not fits or {*per_user} != {len(self.users)} or {*per_item} != {len(self.items)}:
            raise InputError(f"the model's arrays do not fit {len(self.users)} users and {len(self.items)} items")
        self._require_scores()

    def _require_scores(self) -> None:
        """Refuse numbers that are not finite, or so large that a score could overflow."""
        width, interaction = self.user_vectors.shape[1], self.interaction
        products = largest(_numbers(self.user_vectors)) * largest(_numbers(self.item_vectors)) * width
        bound = products + largest(self.item_bias) + (0.0 if interaction is None else interaction.largest_score())
        if self.summary is not None:
            bound += largest(self.summary.item_counts)
        if not bound <= LARGEST_SCORE:
            raise InputError(
                f"a model must consist of finite numbers, and none of its scores may exceed {LARGEST_SCORE:g}"
            )

    def __repr__(self) -> str:
        """Sizes only: who rated what is nobody's business."""
        return f"Factors({printable(self.method)}, {len(self.users)} users x {len(self.items)} items)"

    def score(self, users: IntArray) -> Float32Array:
        """Scores of all items for users at these positions, one row each."""
        product = self.user_vectors[users] @ self.item_vectors.T
        scores = np.asarray(product.toarray() if sp.issparse(product) else product, dtype=np.float32)
        scores += self.item_bias
        return scores if self.interaction is None else scores + self.interaction.score(users)

    def score_candidates(self, users: IntArray, candidates: IntArray) -> Float32Array:
        """Scores of a few items for each user: row r of ``candidates`` for the user at ``users[r]``."""
        if sp.issparse(self.user_vectors) or sp.issparse(self.item_vectors):
            product = self.score(users)
            return np.take_along_axis(product, candidates, axis=1)
        scores = np.einsum("uw,ucw->uc", self.user_vectors[users], self.item_vectors[candidates])
        scores = np.asarray(scores + self.item_bias[candidates], dtype=np.float32)
        return scores if self.interaction is None else scores + self.interaction.score_candidates(users, candidates)

    def basis(self, user: int) -> Basis:
        """What the recommendations of the user at this position rest on."""
        if not self.user_vectors.shape[1] and self.interaction is None:
            return Basis.POPULARITY
        history = self.uses_history and bool(self._has_history()[user])
        if self.in_release[user]:
            return Basis.BOTH if history else Basis.RELEASE
        return Basis.HISTORY if history else Basis.POPULARITY

    def popularity(self) -> Float32Array:
        """How often each item was rated in training."""
        if self.summary is not None:
            return self.summary.item_counts.copy()
        return np.bincount(self.seen.indices, minlength=len(self.items)).astype(np.float32)

    def without_histories(self) -> "Factors":
        """Return the same model without the training ratings, which it then cannot leave out by itself.

        What stays was learnt from them all the same: it is neither anonymous nor differentially private.
        """
        if sp.issparse(self.user_vectors) or sp.issparse(self.item_vectors):
            raise InputError(
                f"a model of method {self.method} scores by the ratings themselves: it has no vectors without them"
            )
        summary = HistorySummary(self.popularity(), self._has_history())
        return replace(self, seen=sp.csr_array((len(self.users), len(self.items))), summary=summary)

    def recommend(self, users: Sequence[str], k: int = 10, *, seen: Ratings | None = None) -> list[Recommendation]:
        """The ``k`` best unseen items of each user, best first; users the model never met get what is popular.

        Fewer than ``k`` where a user has rated almost everything. What users rated in ``seen`` is left out too; an
        exported model knows of nothing else to leave out.
        """
        require_count(k=k)
        position = {user: at for at, user in enumerate(self.users)}
        also = None if seen is None else seen.select(users=tuple(dict.fromkeys(users)), items=self.items)
        listed = {} if also is None else {user: at for at, user in enumerate(also.users)}
        found: list[Recommendation] = []
        for user in users:
            at = position.get(user)
            if at is None:
                scores, basis = self.popularity(), Basis.POPULARITY
            else:
                scores, basis = self.score(np.array([at]))[0], self.basis(at)
                scores[_row(self.seen, at)] = -np.inf
            if also is not None:
                scores[_row(also.matrix, listed[user])] = -np.inf
            # by score, ties by position: the same list every time
            best = np.lexsort((np.arange(len(scores)), -scores))[:k]
            found += [
                Recommendation(user, self.items[item], float(scores[item]), rank, basis)
                for rank, item in enumerate(best.tolist(), 1)
                if np.isfinite(scores[item])
            ]
        return found

    def _has_history(self) -> npt.NDArray[np.bool_]:
        return np.diff(self.seen.indptr) > 0 if self.summary is None else self.summary.has_history


def _row(matrix: CSR, at: int) -> IntArray:
    columns: IntArray = matrix.indices[matrix.indptr[at] : matrix.indptr[at + 1]]
    return columns


def _numbers(vectors: Vectors) -> Float32Array:
    numbers: Float32Array = vectors.data if sp.issparse(vectors) else vectors
    return numbers
