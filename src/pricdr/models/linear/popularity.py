"""Popularity: the control beside every claim."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models.base import TargetMethod, Trained
from pricdr.models.chosen import Chosen
from pricdr.models.fitted import FittedModel
from pricdr.training.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class Popularity(TargetMethod):
    """Items by how often they were rated, the same for everybody."""

    name: ClassVar[str] = "popularity"
    summary: ClassVar[str] = "items by how often they were rated: the control"

    def _train(self, target: Ratings, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        counts = np.bincount(target.matrix.indices, minlength=len(target.items)).astype(np.float32)
        none = np.zeros((0,), dtype=np.float32)  # vectors of length 0: nothing but the bias scores
        model = FittedModel(
            method=self.name,
            users=target.users,
            items=target.items,
            user_vectors=np.broadcast_to(none, (len(target.users), 0)),
            item_vectors=np.broadcast_to(none, (len(target.items), 0)),
            item_bias=counts,
            seen=target.matrix,
            in_release=np.zeros(len(target.users), dtype=bool),
        )
        return model, chosen
