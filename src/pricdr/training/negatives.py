"""Items a user has not rated, drawn on the device anew for every batch."""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from pricdr.data.csr import CSR

_SLOTS_PER_RATING: Final = 32
"""Size of the lookup table that rules out unrated pairs: about one in 32 of them is searched for needlessly."""
_ROUNDS: Final = 8
"""How often draws that hit a rated item are repeated; the few that remain are negligible and harmless."""


class Negatives:
    """Uniform draws among the items a user has not rated in training.

    Held-out items count as unrated: leaving them out would reveal to the model which they are.
    """

    def __init__(self, ratings: CSR, device: torch.device) -> None:
        n_users, self._n_items = ratings.shape
        rows = np.repeat(np.arange(n_users, dtype=np.int64), np.diff(ratings.indptr))
        self._rated = torch.as_tensor(rows * self._n_items + ratings.indices.astype(np.int64), device=device)
        self._slots = 1 << (_SLOTS_PER_RATING * max(len(self._rated), 1) - 1).bit_length()
        self._may_be_rated = torch.zeros(self._slots, dtype=torch.bool, device=device)
        self._may_be_rated[self._rated % self._slots] = True

    def draw(self, users: Tensor, count: int) -> Tensor:
        """Return ``count`` items for each of ``users``, one row each."""
        drawn = torch.randint(self._n_items, (len(users), count), device=users.device)
        for _ in range(_ROUNDS):
            rated = self._is_rated(users, drawn)
            # Only on a CPU: a GPU would have to stop for the answer.
            if users.device.type == "cpu" and not rated.any():
                break
            drawn = torch.where(rated, torch.randint(self._n_items, drawn.shape, device=users.device), drawn)
        return drawn

    def _is_rated(self, users: Tensor, items: Tensor) -> Tensor:
        # Each pair as one number, to search for it among the sorted rated pairs.
        keys = users[:, None] * self._n_items + items
        if users.device.type != "cpu":
            return self._among_rated(keys)
        # One table lookup rules out nearly every pair; only the rest is searched for.
        rated = self._may_be_rated[keys & (self._slots - 1)]
        rated[rated.clone()] = self._among_rated(keys[rated])
        return rated

    def _among_rated(self, keys: Tensor) -> Tensor:
        nearest = torch.searchsorted(self._rated, keys).clamp(max=max(len(self._rated) - 1, 0))
        rated: Tensor = self._rated[nearest] == keys
        return rated
