"""``Factors``: what every fitted model here comes down to. Vectors for users and items, and a bias for items.

Training is over when these arrays exist: scoring, recommending and evaluating need numpy alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import CSR, Ids, IntArray
from pricdr.errors import InputError, require_count

Float32Array = npt.NDArray[np.float32]


class Basis(Enum):
    """What a user's recommendations rest on."""

    HISTORY = "history"
    RELEASE = "release"
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
class Factors:
    """score(u, i) = ⟨user vector, item vector⟩ + item bias."""

    method: str
    users: Ids
    items: Ids
    user_vectors: Float32Array
    item_vectors: Float32Array
    item_bias: Float32Array
    seen: CSR
    """What each user rated in training: never recommended again."""
    in_release: npt.NDArray[np.bool_]
    """Which users have a release row that the model used."""

    def __post_init__(self) -> None:
        shapes = (self.user_vectors.shape[0], self.item_vectors.shape[0], self.item_bias.shape[0])
        if shapes != (len(self.users), len(self.items), len(self.items)):
            raise InputError(f"arrays of {shapes} do not fit {len(self.users)} users and {len(self.items)} items")
        if not all(np.isfinite(part).all() for part in (self.user_vectors, self.item_vectors, self.item_bias)):
            raise InputError("a model must consist of finite numbers")

    def __repr__(self) -> str:
        """Sizes only: who rated what is nobody's business."""
        return f"Factors({self.method}, {len(self.users)} users x {len(self.items)} items)"

    def score(self, users: IntArray) -> Float32Array:
        """Scores of all items for users at these positions, one row each."""
        scores: Float32Array = self.user_vectors[users] @ self.item_vectors.T
        scores += self.item_bias
        return scores

    def basis(self, user: int) -> Basis:
        """What the recommendations of the user at this position rest on."""
        if not self.user_vectors.shape[1]:
            return Basis.POPULARITY
        history = bool(self.seen.indptr[user + 1] > self.seen.indptr[user])
        if self.in_release[user]:
            return Basis.BOTH if history else Basis.RELEASE
        return Basis.HISTORY if history else Basis.POPULARITY

    def popularity(self) -> Float32Array:
        """How often each item was rated in training."""
        return np.bincount(self.seen.indices, minlength=len(self.items)).astype(np.float32)

    def recommend(self, users: Sequence[str], k: int = 10) -> list[Recommendation]:
        """The ``k`` best unseen items of each user, best first; users the model never met get what is popular.

        Fewer than ``k`` where a user has rated almost everything.
        """
        require_count(k=k)
        position = {user: at for at, user in enumerate(self.users)}
        found: list[Recommendation] = []
        for user in users:
            at = position.get(user)
            if at is None:
                scores, basis = self.popularity(), Basis.POPULARITY
            else:
                scores, basis = self.score(np.array([at]))[0], self.basis(at)
                scores[self.seen.indices[self.seen.indptr[at] : self.seen.indptr[at + 1]]] = -np.inf
            # by score, ties by position: the same list every time
            best = np.lexsort((np.arange(len(scores)), -scores))[:k]
            found += [
                Recommendation(user, self.items[item], float(scores[item]), rank, basis)
                for rank, item in enumerate(best.tolist(), 1)
                if np.isfinite(scores[item])
            ]
        return found
