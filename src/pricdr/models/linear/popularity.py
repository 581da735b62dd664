"""Popularity: the control beside every claim."""

from dataclasses import dataclass

import numpy as np

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.base import UNRECORDED, TargetMethod
from pricdr.models.fitted import Factors
from pricdr.training.loop import Recording


@dataclass(frozen=True, kw_only=True)
class Popularity(TargetMethod):
    """Items by how often they were rated, the same for everybody."""

    def fit(self, target: Ratings, *, validation: HeldOut | None = None, recording: Recording = UNRECORDED) -> Factors:
        """Count the ratings of each item."""
        counts = np.bincount(target.matrix.indices, minlength=len(target.items)).astype(np.float32)
        none = np.zeros((0,), dtype=np.float32)
        return Factors(
            method="popularity",
            users=target.users,
            items=target.items,
            user_vectors=np.broadcast_to(none, (len(target.users), 0)),
            item_vectors=np.broadcast_to(none, (len(target.items), 0)),
            item_bias=counts,
            seen=target.matrix,
            in_release=np.zeros(len(target.users), dtype=bool),
        )
