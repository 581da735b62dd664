"""One step of training: from a batch to its loss, its gradients, and the weights after it."""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from pricdr.training.distributed import processes
from pricdr.training.options import TrainingOptions
from pricdr.training.recorded import RecordedStep

Step: TypeAlias = Callable[[Tensor], Tensor]
"""A batch of examples, by number, to its loss; where processes train together, to this one's summand of it."""


def steps_of(
    network: nn.Module, step: Step, options: TrainingOptions, *, fixed_shapes: bool = False
) -> tuple[torch.optim.Optimizer, Step]:
    """Return a network's optimiser, and what moves its weights by a batch and returns the loss before that.

    ``fixed_shapes`` says that steps on equally large batches differ in numbers alone, and that none asks a GPU for one:
    there they are recorded.
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
        together.add_up_gradients(network.parameters())
        optimizer.step()
        return loss.detach()

    return optimizer, RecordedStep(take_step, options.batch) if on_gpu and fixed_shapes else take_step
