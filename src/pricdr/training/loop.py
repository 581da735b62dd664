"""Epochs, early stopping, logs and checkpoints."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from pricdr.blocks import Progress, silent
from pricdr.errors import ParameterError, PriCDRError, require_count, require_positive
from pricdr.training.checkpoints import Checkpoint, State

Step: TypeAlias = Callable[[Tensor], Tensor]
"""A batch of row numbers to the loss of that batch."""
Validate: TypeAlias = Callable[[], float]
"""The metric to stop by; larger is better."""


class TrainingError(PriCDRError):
    """Training went wrong; the last good checkpoint is kept."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How long and how fast to train; none of it changes what a network is."""

    epochs: int = 200
    patience: int = 20
    """Epochs without a better validation metric before stopping."""
    batch: int = 128
    learning_rate: float = 5e-4
    weight_decay: float = 1e-4
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        require_count(epochs=self.epochs, patience=self.patience, batch=self.batch)
        require_positive(learning_rate=self.learning_rate)

    def torch_device(self) -> torch.device:
        """The device, with ``auto`` settled."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ParameterError("device cuda was asked for, and there is none here: use cpu, or auto")
        name = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        return torch.device(name)


@dataclass(frozen=True)
class Epoch:
    """One line of a training log."""

    epoch: int
    loss: float
    metric: float | None
    seconds: float


def train(
    network: nn.Module,
    step: Step,
    rows: Tensor,
    options: TrainingOptions,
    *,
    validate: Validate | None = None,
    checkpoint: Checkpoint | None = None,
    log: Path | None = None,
    progress: Progress = silent,
) -> list[Epoch]:
    """Train ``network`` in place and leave it with its best weights (the last ones without ``validate``).

    Every epoch's randomness follows from the seed and its number alone. So a run that is killed and resumed from its
    checkpoint goes through the same batches and the same dropout, and ends with the same network.
    """
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
    state = State.fresh(network) if checkpoint is None else checkpoint.resume(network, optimizer)
    history: list[Epoch] = []
    with torch.random.fork_rng(devices=[rows.device] if rows.device.type == "cuda" else []):
        while state.epoch < options.epochs and state.stale < options.patience:
            started = time.perf_counter()
            torch.manual_seed(hash((options.seed, state.epoch)) & (2**63 - 1))
            loss = _run_epoch(network, step, rows, options, optimizer, state.epoch)
            metric = None if validate is None else _validated(network, validate)
            state = state.after(network, metric)
            history.append(Epoch(state.epoch, loss, metric, time.perf_counter() - started))
            if checkpoint is not None:
                checkpoint.save(state, network, optimizer)
            _append(log, history[-1])
            progress("training", state.epoch, options.epochs)
    network.load_state_dict(state.best)
    network.eval()
    return history


def _run_epoch(
    network: nn.Module,
    step: Step,
    rows: Tensor,
    options: TrainingOptions,
    optimizer: torch.optim.Optimizer,
    epoch: int,
) -> float:
    network.train()
    order = rows[torch.randperm(len(rows), device=rows.device)]
    total = torch.zeros((), device=rows.device)
    for number, start in enumerate(range(0, len(order), options.batch), 1):
        optimizer.zero_grad(set_to_none=True)
        loss = step(order[start : start + options.batch])
        if not math.isfinite(loss.item()):
            raise TrainingError(f"the loss became {loss.item()} in epoch {epoch + 1}, step {number}")
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += loss.detach()
    return float(total) / max(1, -(-len(order) // options.batch))


def _validated(network: nn.Module, validate: Validate) -> float:
    network.eval()
    with torch.no_grad():
        return validate()


def _append(log: Path | None, epoch: Epoch) -> None:
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(epoch.__dict__) + "\n")
