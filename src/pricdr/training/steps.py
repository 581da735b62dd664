"""One training step: the loss of a batch, its gradients, and the update of the weights."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from pricdr.training.distributed import processes
from pricdr.training.options import TrainingOptions
from pricdr.training.recorded import RecordedStep

Step: TypeAlias = Callable[[Tensor], Tensor]
"""Maps a batch of example numbers to its loss, or to this process's share of the loss where several train together."""


def build_step(
    network: nn.Module, step: Step, options: TrainingOptions, *, fixed_shapes: bool = False
) -> tuple[torch.optim.Optimizer, Step]:
    """Return the optimiser of a network, and a function that takes one step and returns the loss before it.

    ``fixed_shapes`` promises that steps on batches of one size have the same shapes and never wait for a GPU; on a GPU
    such steps are recorded.
    """
    together, on_gpu = processes(), next(network.parameters()).is_cuda
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=options.learning_rate,
        weight_decay=options.weight_decay,
        fused=True,
        capturable=on_gpu and fixed_shapes,
    )

    def take_step(batch: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=options.bf16 and batch.device.type == "cuda"):
            loss = step(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        together.all_reduce_gradients(network.parameters())
        optimizer.step()
        return loss.detach()

    return optimizer, RecordedStep(take_step, options.batch) if on_gpu and fixed_shapes else take_step
