"""A step of training that a GPU records once and replays: one call starts what were some sixty kernels.

A large GPU computes a step faster than a machine can start its kernels one by one. A recording repeats the same kernels
on the same memory: it takes steps of fixed shapes that never ask the GPU for a number. Random draws go on from where
the generator stands at each replay, so a recorded training is the one that was not recorded.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

_STEPS_BEFORE: Final = 3
"""Steps before the recording: kernels are compiled, libraries loaded and moments allocated in them."""


class CapturedStep:
    """Takes steps of a training by replaying one that was recorded; batches of another size, step by step."""

    def __init__(self, take_step: Callable[[Tensor], Tensor], batch: int) -> None:
        """Record ``take_step``, gradients, optimiser and all, for batches of this size."""
        self._take_step, self._size = take_step, batch
        self._steps_before = _STEPS_BEFORE
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: Tensor
        self._loss: Tensor

    def __call__(self, batch: Tensor) -> Tensor:
        """Take a step and return the loss before it."""
        if len(batch) != self._size:
            return self._take_step(batch)
        if self._graph is None and self._steps_before:
            self._steps_before -= 1
            return self._take_step(batch)
        if self._graph is None:
            self._record(batch)
        assert self._graph is not None
        self._batch.copy_(batch)
        self._graph.replay()
        return self._loss.clone()  # the next replay overwrites it

    def _record(self, batch: Tensor) -> None:
        """Record a step; nothing is computed yet."""
        self._batch = batch.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._loss = self._take_step(self._batch)
        self._graph = graph
