"""A small ReLU network over the sum of a user's and an item's part: what NeuMF, CoNet and DDTCDR score with.

The first layer of a network over [user; item] is the sum of a user's and an item's part, computed once for each.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float32Array, IntArray
from pricdr.errors import InputError
from pricdr.extras import TRAIN

if TYPE_CHECKING:
    from torch import Tensor

Layer = tuple[Float32Array, Float32Array]  # weights (out x in) and biases, as torch keeps them
MAX_SCORE: Final = 1e38  # sums up to here fit single precision
_CELLS_ON_GPU: Final = 1 << 27  # numbers in the first layer at once: half a GiB


@dataclass(frozen=True, eq=False)
class Interaction:
    """score(u, i) = w · ReLU(… ReLU(W (user part + item part)⁺ + b) …) + c, the first ReLU on the sum."""

    user_parts: Float32Array
    item_parts: Float32Array
    layers: tuple[Layer, ...]
    """The last one has a single output and no ReLU after it."""

    def __post_init__(self) -> None:
        widths = [self.user_parts.shape[1], *(len(bias) for _, bias in self.layers)]
        steps = zip(self.layers, pairwise(widths), strict=True)
        fits = all(weights.shape == (out, into) for (weights, _), (into, out) in steps)
        if self.item_parts.shape[1] != widths[0] or not fits or widths[-1] != 1 or not self.layers:
            raise InputError(f"layers of an interaction do not fit each other: {widths}")
        if not self.largest_score() <= MAX_SCORE:
            raise InputError(f"an interaction must consist of finite numbers and give scores of at most {MAX_SCORE:g}")

    def largest_score(self) -> float:
        """Return a bound on the size of a score, or of anything on the way to one; not finite where a number is not."""
        # A sum of parts far below zero is no harm: the first ReLU ends it.
        bound = largest(self.user_parts) + largest(self.item_parts)
        if bound <= MAX_SCORE:
            bound = max(0.0, _highest(self.user_parts) + _highest(self.item_parts))
        for weights, bias in self.layers:
            # Crude, but never too small: all inputs at their largest, all weights too.
            bound = weights.shape[1] * largest(weights) * bound + largest(bias)
        return bound

    def score(self, users: IntArray, items: slice | None = None) -> Float32Array:
        """Return the scores of all items, or of those in ``items``, for users at these positions."""
        parts = self._on_device[0][slice(None) if items is None else items]
        # One user at a time on a processor, so memory stays items x width.
        at_once = 1 if parts.device.type == "cpu" else max(1, _CELLS_ON_GPU // max(1, parts.numel()))
        scores = np.empty((len(users), len(parts)), dtype=np.float32)
        for start in range(0, len(users), at_once):
            scores[start : start + at_once] = self._output(users[start : start + at_once], parts)
        return scores

    def score_candidates(self, users: IntArray, candidates: IntArray) -> Float32Array:
        """Return the scores of a few items for each user."""
        return self._output(users, self._on_device[0][candidates])

    def _output(self, users: IntArray, item_parts: "Tensor") -> Float32Array:
        import torch  # seconds to load, and most models do without
        from torch.nn.functional import linear

        with torch.no_grad():
            own = torch.as_tensor(self.user_parts[users], device=item_parts.device)
            hidden = item_parts + own[:, None]
            for weights, bias in self._on_device[1]:
                hidden = linear(hidden.relu_(), weights, bias)
        scores: Float32Array = hidden[..., 0].cpu().numpy()
        return scores

    @cached_property
    def _on_device(self) -> "tuple[Tensor, list[tuple[Tensor, Tensor]]]":
        """The items' parts and the layers, on a GPU where there is one: a pair costs thousands of operations."""
        TRAIN.require()
        import torch

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        layers = [tuple(torch.as_tensor(part, device=device) for part in layer) for layer in self.layers]
        return torch.as_tensor(self.item_parts, device=device), layers  # type: ignore[return-value]


def largest(numbers: npt.NDArray[Any]) -> float:
    """Return the largest absolute value, 0 of nothing; nan or infinity where a number is not finite."""
    return max(_highest(numbers), -float(numbers.min(initial=0.0)))


def _highest(numbers: npt.NDArray[Any]) -> float:
    return float(numbers.max(initial=0.0))
