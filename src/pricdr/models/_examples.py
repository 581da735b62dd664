"""Ratings as training examples beside drawn negatives: one rating at a time, or all ratings of a user."""

from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from pricdr.data.ratings import Ratings
from pricdr.training.rows import Bags, SparseRows
from pricdr.training.sampling import Negatives

MASKED: Final = -1e9
"""A user part that switches off every unit of a network over pairs (a ReLU follows): what is left is the item bias."""


class RatingExamples:
    """One domain's ratings, one by one, on the device."""

    def __init__(self, ratings: Ratings, device: torch.device) -> None:
        counts = np.diff(ratings.matrix.indptr)
        self.user_of = torch.as_tensor(np.repeat(np.arange(len(counts)), counts), device=device)
        self.item_of = torch.as_tensor(ratings.matrix.indices.astype(np.int64), device=device)
        self.numbers = torch.arange(len(ratings), device=device)
        self.negatives = Negatives(ratings.matrix, device)
        self._warm = torch.as_tensor(counts > 0, device=device)

    def with_mean_for_cold(self, vectors: Tensor) -> Tensor:
        """Return the vectors of all users; those of users without ratings were never trained and become the mean."""
        return torch.where(self._warm[:, None], vectors, vectors[self._warm].mean(dim=0))


class DomainExamples:
    """One domain's ratings by user, on the device."""

    def __init__(self, ratings: Ratings, negatives: int, device: torch.device) -> None:
        self._ratings, self._device = ratings, device
        self.rows = SparseRows(ratings.matrix, device)
        self.negatives = Negatives(ratings.matrix, device)
        counts = torch.bincount(self.rows.all().columns, minlength=len(ratings.items))
        # The log-odds of an example being a rating and not a draw, where only its item is known.
        self.log_odds = torch.log((counts + 0.5) / (counts + 0.5).mean() / negatives)

    @cached_property
    def columns(self) -> Bags:
        """Who rated each item."""
        return SparseRows(self._ratings.matrix.T.tocsr(), self._device).all()
