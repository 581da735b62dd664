"""Items a user has not rated, drawn on the device, fresh in every batch."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from pricdr.data.csr import CSR

_SLOTS_PER_RATING: Final = 32
"""Of the table that rules out pairs nobody rated: one in so many is searched for in vain."""
_ROUNDS: Final = 8
"""Draws that hit a rated item are drawn again so many times; what is left then is negligible and harmless."""


class Negatives:
    """Uniform draws among the items a user has not rated in training.

    Held-out items are unobserved like any other: leaving them out would tell the model which they are.
    """

    def __init__(self, ratings: CSR, device: torch.device) -> None:
        n_users, self._n_items = ratings.shape
        rows = np.repeat(np.arange(n_users, dtype=np.int64), np.diff(ratings.indptr))
        self._rated = torch.as_tensor(rows * self._n_items + ratings.indices.astype(np.int64), device=device)
        self._slots = 1 << (_SLOTS_PER_RATING * max(len(self._rated), 1) - 1).bit_length()
        self._taken = torch.zeros(self._slots, dtype=torch.bool, device=device)
        self._taken[self._rated % self._slots] = True

    def draw(self, users: Tensor, count: int) -> Tensor:
        """Return ``count`` items for each of ``users``, one row each."""
        drawn = torch.randint(self._n_items, (len(users), count), device=users.device)
        for _ in range(_ROUNDS):
            known = self._known(users, drawn)
            # Asked of a processor alone: a GPU would have to wait for the answer.
            if users.device.type == "cpu" and not known.any():
                break
            drawn = torch.where(known, torch.randint(self._n_items, drawn.shape, device=users.device), drawn)
        return drawn

    def _known(self, users: Tensor, items: Tensor) -> Tensor:
        # A pair as one number, so that a binary search among the rated pairs finds it.
        keys = users[:, None] * self._n_items + items
        if users.device.type != "cpu":
            return self._among_rated(keys)
        # One look into a table rules out nearly every pair; the others are searched for.
        known = self._taken[keys & (self._slots - 1)]
        known[known.clone()] = self._among_rated(keys[known])
        return known

    def _among_rated(self, keys: Tensor) -> Tensor:
        at = torch.searchsorted(self._rated, keys).clamp(max=max(len(self._rated) - 1, 0))
        known: Tensor = self._rated[at] == keys
        return known
