"""A training step that is recorded once as a CUDA graph and replayed: one launch replaces some seventy.

A large GPU computes a step faster than the CPU can launch its kernels one by one. A graph repeats the same kernels on
the same memory, so the step needs fixed shapes and must never read a value from the GPU. Each replay continues the
random generator where it stands, so recording does not change the training.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor

_WARM_UP_STEPS: Final = 3
"""Steps before the recording, in which kernels are compiled, libraries loaded and the moments allocated."""


class RecordedStep:
    """Takes training steps by replaying a recorded one; batches of another size run unrecorded."""

    def __init__(self, take_step: Callable[[Tensor], Tensor], batch: int) -> None:
        """Wrap ``take_step``, including gradients and optimiser, to record it for batches of this size."""
        self._take_step, self._size = take_step, batch
        self._warm_up_left = _WARM_UP_STEPS
        self._recording: _Recording | None = None

    def __call__(self, batch: Tensor) -> Tensor:
        """Take a step and return the loss before it."""
        if len(batch) != self._size:
            return self._take_step(batch)
        with torch.cuda.device_of(batch):  # type: ignore[no-untyped-call]
            if self._warm_up_left == 0:
                self._recording = _record(self._take_step, batch)
            self._warm_up_left -= 1
            return self._take_step(batch) if self._recording is None else self._recording.replay(batch)


class _Recording(NamedTuple):
    """A recorded step, and the tensors that it reads its batch from and writes its loss to."""

    graph: torch.cuda.CUDAGraph
    batch: Tensor
    loss: Tensor

    def replay(self, batch: Tensor) -> Tensor:
        """Take the step for a batch and return its loss."""
        self.batch.copy_(batch)
        self.graph.replay()
        return self.loss.clone()  # the next replay overwrites it


def _record(take_step: Callable[[Tensor], Tensor], batch: Tensor) -> _Recording | None:
    """Record a step without taking it; return None if it cannot be recorded."""
    graph, static = torch.cuda.CUDAGraph(), batch.clone()
    generator = torch.cuda.default_generators[batch.get_device()]
    before = generator.clone_state()
    try:
        # Restores the current stream: a failed recording leaves torch on the stream of the recording.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
            loss = take_step(static)
    except RuntimeError:  # usually out of memory: a graph has its own pool. Any other error recurs in the step itself.
        generator.graphsafe_set_state(before)  # else it would stay in recording mode, and draw nothing
        return None
    return _Recording(graph, static, loss)
