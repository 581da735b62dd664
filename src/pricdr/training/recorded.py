"""A step of training that a GPU records once and replays: one call starts what were some seventy kernels.

A large GPU computes a step faster than a machine can start its kernels one by one. A recording repeats the same kernels
on the same memory: it takes steps of fixed shapes that never ask the GPU for a number. Random draws go on from where
the generator stands at each replay, so a recorded training is the one that was not recorded.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

_STEPS_BEFORE: Final = 3
"""Steps before the recording: kernels are compiled, libraries loaded and moments allocated in them."""


class RecordedStep:
    """Takes steps of a training by replaying one that was recorded; batches of another size, step by step."""

    def __init__(self, take_step: Callable[[Tensor], Tensor], batch: int) -> None:
        """Record ``take_step``, gradients, optimiser and all, for batches of this size."""
        self._take_step, self._size = take_step, batch
        self._steps_before = _STEPS_BEFORE
        self._recording: _Recording | None = None

    def __call__(self, batch: Tensor) -> Tensor:
        """Take a step and return the loss before it."""
        if len(batch) != self._size:
            return self._take_step(batch)
        with torch.cuda.device_of(batch):  # type: ignore[no-untyped-call]
            if self._steps_before == 0:
                self._recording = _recorded(self._take_step, batch)
            self._steps_before -= 1
            return self._take_step(batch) if self._recording is None else self._recording.replay(batch)


class _Recording(NamedTuple):
    """A recorded step, with the memory that it reads its batch from and writes its loss to."""

    graph: torch.cuda.CUDAGraph
    batch: Tensor
    loss: Tensor

    def replay(self, batch: Tensor) -> Tensor:
        """Take the step for a batch and return its loss."""
        self.batch.copy_(batch)
        self.graph.replay()
        return self.loss.clone()  # the next replay overwrites it


def _recorded(take_step: Callable[[Tensor], Tensor], batch: Tensor) -> _Recording | None:
    """Return a recorded step, which was not taken; None where it cannot be recorded."""
    graph, static = torch.cuda.CUDAGraph(), batch.clone()
    generator = torch.cuda.default_generators[batch.get_device()]
    before = generator.clone_state()
    try:
        # Inside the stream that is current: a recording that fails leaves torch on the one that it was made on.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
            loss = take_step(static)
    except RuntimeError:  # out of memory: a recording has its own. Whatever else it is, the step itself will say.
        generator.graphsafe_set_state(before)  # the generator would wait for the end of the recording, and draw nothing
        return None
    return _Recording(graph, static, loss)
