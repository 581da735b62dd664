"""The epoch loop: steps, early stopping, checkpoints and logs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import Tensor, nn

from pricdr.errors import TrainingError
from pricdr.randomness import Simulation
from pricdr.training.checkpoints import Checkpoint, State
from pricdr.training.options import TrainingOptions
from pricdr.training.run_log import NO_LOG, Epoch, RunLog

Step: TypeAlias = Callable[[Tensor], Tensor]
"""Maps a batch of example numbers to its loss."""
Validate: TypeAlias = Callable[[], float]
"""Returns the metric for early stopping; larger is better."""

_REMEDY: Final = "try a lower learning rate"


@dataclass(frozen=True)
class TrainingResult:
    """How a training went; the network itself has its best weights."""

    history: list[Epoch]
    """The epochs of this run, without those before a resumed checkpoint."""
    best_epoch: int
    """The epoch whose weights were kept; the last one without validation."""


def train(
    network: nn.Module,
    step: Step,
    examples: Tensor,
    options: TrainingOptions,
    *,
    validate: Validate | None = None,
    checkpoint: Checkpoint | None = None,
    log: RunLog = NO_LOG,
) -> TrainingResult:
    """Train ``network`` in place and leave it with its best weights (the last ones without ``validate``).

    The randomness of an epoch depends only on the seed and the number of the epoch. So a run that is killed and resumed
    from its checkpoint sees the same batches and the same dropout, and ends with the same network.
    """
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay, fused=True
    )
    state = State.fresh(network) if checkpoint is None else checkpoint.resume(network, optimizer)
    history: list[Epoch] = []
    steps = -(-len(examples) // options.batch)
    # Counted in steps too: on small data an epoch has few steps, and training starts on a plateau.
    patience = max(options.patience, -(-options.patience_steps // max(steps, 1)))
    with seeded(options.seed, examples.device):
        while state.epoch < options.epochs and state.stale < patience:
            started = time.perf_counter()
            torch.manual_seed(_epoch_seed(options.seed, state.epoch))
            loss = _run_epoch(network, optimizer, step, examples, options, state.epoch, log)
            metric = None if validate is None else _validated(network, validate)
            state = state.after(network, metric)
            history.append(Epoch(state.epoch, loss, metric, time.perf_counter() - started))
            if checkpoint is not None:
                checkpoint.after_epoch(state, network, optimizer)
            # After the checkpoint: if reporting is interrupted, the run can still resume from this epoch.
            log.record(history[-1], options.epochs, state.metric)
    if checkpoint is not None:
        checkpoint.when_finished(state, network)
    network.load_state_dict(state.best)
    network.eval()
    return TrainingResult(history, state.epoch - state.stale)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators inside the block, and restore them afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of one epoch, unrelated to those of other epochs and other seeds."""
    return int(Simulation(seed).generator(f"epoch {epoch}").integers(2**63))


def _run_epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    step: Step,
    examples: Tensor,
    options: TrainingOptions,
    epoch: int,
    log: RunLog,
) -> float:
    network.train()
    order = examples[torch.randperm(len(examples), device=examples.device)]
    bf16 = torch.autocast(order.device.type, torch.bfloat16, enabled=options.bf16 and order.is_cuda)
    losses = []
    for start in log.batches(range(0, len(order), options.batch), epoch, options.epochs):
        optimizer.zero_grad(set_to_none=True)
        with bf16:
            loss = step(order[start : start + options.batch])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.detach())
    # Checked once an epoch: reading each loss would stall a GPU. The checkpoint is still that of the epoch before.
    values = torch.stack(losses).float().cpu()
    broken = torch.nonzero(~torch.isfinite(values)).flatten().tolist()
    if broken:
        first = broken[0]
        raise TrainingError(f"the loss became {values[first]} in epoch {epoch + 1}, step {first + 1}: {_REMEDY}")
    # A loss is computed before its step, so the last step can still break the weights. The largest absolute value shows
    # that too (it is nan if any weight is), without a second copy of each parameter.
    largest = [
        torch.linalg.vector_norm(parameter.detach(), float("inf"))
        for parameter in network.parameters()
        if parameter.numel()
    ]
    if not bool(torch.isfinite(torch.stack(largest)).all()):
        raise TrainingError(f"the weights are no longer finite after epoch {epoch + 1}, step {len(losses)}: {_REMEDY}")
    return float(values.mean())


@torch.no_grad()
def _validated(network: nn.Module, validate: Validate) -> float:
    network.eval()
    return validate()
