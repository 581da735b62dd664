"""The epoch loop: steps, early stopping, and what is recorded after each epoch."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from pricdr.errors import TrainingError
from pricdr.randomness import Simulation
from pricdr.training.checkpoints import Checkpoint, State
from pricdr.training.distributed import processes
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import NO_LOG, Epoch, RunLog
from pricdr.training.steps import Step, steps_of

Validate: TypeAlias = Callable[[], float]
"""The metric to stop by; larger is better."""


@dataclass(frozen=True)
class TrainingResult:
    """How a training went; the network itself is left with its best weights."""

    history: list[Epoch]
    """The epochs of this run; those before a checkpoint that was resumed are not among them."""
    best_epoch: int
    """The epoch whose weights were kept: the last one where there was no validation."""


def train(
    network: nn.Module,
    step: Step,
    examples: Tensor,
    options: TrainingOptions,
    *,
    fixed_shapes: bool = False,
    validate: Validate | None = None,
    checkpoint: Checkpoint | None = None,
    log: RunLog = NO_LOG,
) -> TrainingResult:
    """Train ``network`` in place and leave it with its best weights (the last ones without ``validate``).

    Every epoch's randomness follows from the seed and its number alone. So a run that is killed and resumed from its
    checkpoint goes through the same batches and the same dropout, and ends with the same network.

    ``fixed_shapes`` says that steps on equally large batches differ in numbers alone, and that none asks a GPU for one.
    """
    optimizer, take_step = steps_of(network, step, options, fixed_shapes=fixed_shapes)
    together = processes()
    state = State.fresh(network) if checkpoint is None else checkpoint.resume(network, optimizer)
    state = together.start_from_first(state, network, optimizer)
    history: list[Epoch] = []
    steps = -(-len(examples) // options.batch)
    # In steps too: on small data an epoch is a few steps, and training starts on a plateau.
    patience = max(options.patience, -(-options.patience_steps // max(steps, 1)))
    with seeded(options.seed, examples.device):
        while state.epoch < options.epochs and state.stale < patience:
            started = time.perf_counter()
            torch.manual_seed(_epoch_seed(options.seed, state.epoch))
            loss = _run_epoch(network, take_step, examples, options, state.epoch, log)
            metric = None if validate is None else _validated(network, validate, examples.device)
            state = state.after(network, metric)
            history.append(Epoch(state.epoch, loss, metric, time.perf_counter() - started))
            if checkpoint is not None:
                checkpoint.after_epoch(state, network, optimizer)
            # After the checkpoint: whoever is interrupted by what is reported here can resume from this epoch.
            log.record(history[-1], options.epochs, state.metric)
    if checkpoint is not None:
        checkpoint.when_finished(state, network)
    network.load_state_dict(state.best)
    network.eval()
    return TrainingResult(history, state.epoch - state.stale)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Start torch's generators at ``seed`` inside; outside they go on as if nothing had happened."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of one epoch, unrelated to those of other epochs and other seeds."""
    return int(Simulation(seed).generator(f"epoch {epoch}").integers(2**63))


def _run_epoch(
    network: nn.Module,
    take_step: Step,
    examples: Tensor,
    options: TrainingOptions,
    epoch: int,
    log: RunLog,
) -> float:
    network.train()
    order = examples[torch.randperm(len(examples), device=examples.device)]
    losses = []
    for start in log.batches(range(0, len(order), options.batch), epoch, options.epochs):
        losses.append(take_step(order[start : start + options.batch]))
    # Looked at once an epoch: asking after every step would make a GPU wait. The checkpoint is older than any of them.
    values = processes().add_up(torch.stack(losses).float()).cpu()
    broken = torch.nonzero(~torch.isfinite(values)).flatten().tolist()
    if broken:
        raise TrainingError(f"the loss became {values[broken[0]].item()} in epoch {epoch + 1}, step {broken[0] + 1}")
    # A loss is finite before the step it leads to: weights can still break in the last one.
    # The largest absolute value says it too (a nan counts), without a second copy of each parameter.
    largest = [
        torch.linalg.vector_norm(parameter.detach(), float("inf"))
        for parameter in network.parameters()
        if parameter.numel()
    ]
    if not bool(torch.isfinite(torch.stack(largest)).all()):
        raise TrainingError(f"the weights are no longer finite after epoch {epoch + 1}, step {len(losses)}")
    return float(values.mean())


def _validated(network: nn.Module, validate: Validate, device: torch.device) -> float:
    network.eval()
    with torch.no_grad():
        return processes().from_first(validate, device)
