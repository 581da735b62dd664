"""Ratings as examples beside drawn negatives: what the methods with a network over pairs train on."""

from functools import cached_property
from typing import Final

import torch

from pricdr.data.ratings import Ratings
from pricdr.training.negatives import Negatives
from pricdr.training.rows import Bags, SparseRows

SILENT: Final = -1e9
"""A user part that switches every unit of a network over pairs off: what is left is the item bias."""


class Examples:
    """One domain's ratings on the device."""

    def __init__(self, ratings: Ratings, negatives: int, device: torch.device) -> None:
        self._ratings, self._device = ratings, device
        self.rows = SparseRows(ratings.matrix, device)
        self.negatives = Negatives(ratings.matrix, device)
        counts = torch.bincount(self.rows.all().columns, minlength=len(ratings.items))
        # the log-odds of an example being a rating and not a draw, if only its item is known
        self.log_odds = torch.log((counts + 0.5) / (counts + 0.5).mean() / negatives)

    @cached_property
    def columns(self) -> Bags:
        """Who rated each item."""
        return SparseRows(self._ratings.matrix.T.tocsr(), self._device).all()
