"""An interaction's network at work: a pair costs thousands of operations, so on a GPU where there is one."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import linear

from pricdr.data.ratings import IntArray
from pricdr.models.interaction import Float32Array, Layer

_CELLS_ON_GPU: Final = 1 << 27
"""Numbers in the first layer at once: half a GiB."""


class PairNetwork:
    """The items' parts and the layers, on the device."""

    def __init__(self, item_parts: Float32Array, layers: Sequence[Layer]) -> None:
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._items = self._put(item_parts)
        self._layers = [(self._put(weights), self._put(bias)) for weights, bias in layers]

    def score(self, user_parts: Float32Array) -> Float32Array:
        """Scores of all items; one user at a time on a processor, so memory stays items x width."""
        at_once = 1 if self._device.type == "cpu" else max(1, _CELLS_ON_GPU // max(1, self._items.numel()))
        scores = torch.empty(len(user_parts), len(self._items))
        for start in range(0, len(user_parts), at_once):
            users = self._put(user_parts[start : start + at_once])
            scores[start : start + at_once] = self._output(self._items + users[:, None])
        return scores.numpy()

    def score_candidates(self, user_parts: Float32Array, candidates: IntArray) -> Float32Array:
        """Scores of a few items for each user."""
        summed = self._items[torch.as_tensor(candidates, device=self._device)] + self._put(user_parts)[:, None]
        return self._output(summed).cpu().numpy()

    def _put(self, array: Float32Array) -> Tensor:
        return torch.as_tensor(array, device=self._device)

    @torch.no_grad()
    def _output(self, hidden: Tensor) -> Tensor:
        """Scores from sums of parts, which are overwritten."""
        for weights, bias in self._layers:
            hidden = linear(hidden.relu_(), weights, bias)
        return hidden[..., 0]
