"""Epochs, early stopping, logs and checkpoints."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from pricdr.errors import (
    ParameterError,
    PriCDRError,
    require_count,
    require_not_negative,
    require_positive,
    require_seed,
)
from pricdr.progress import Progress, silent
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

    epochs: int = 400
    patience: int = 20
    """Epochs without a better validation metric before stopping."""
    patience_steps: int = 160
    """Patience never lasts fewer steps: on small data epochs are short, and training starts on a plateau."""
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    seed: int = 0
    device: str = "auto"
    bf16: bool = False
    """Multiply in bfloat16, on a GPU: faster, and a little less exact."""

    def __post_init__(self) -> None:
        require_count(epochs=self.epochs, patience=self.patience, patience_steps=self.patience_steps, batch=self.batch)
        require_positive(learning_rate=self.learning_rate)
        require_not_negative(weight_decay=self.weight_decay)
        require_seed(seed=self.seed)
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", self.device):
            raise ParameterError(f"device must be auto, cpu, mps, cuda or cuda:N, got {self.device[:40]!r}")

    def torch_device(self) -> torch.device:
        """The device, with ``auto`` settled."""
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise ParameterError("device cuda was asked for, and there is none here: use cpu, or auto")
        name = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        return torch.device(name)


@dataclass
class Choices:
    """What validation settled, for training on everything by the same."""

    epochs: dict[str, int] = field(default_factory=dict)
    """The best epoch of each part of the training."""
    gates: tuple[float, float] | None = None
    """How far a source is trusted for users with and without history, where a method has gates."""
    not_made: str = ""
    """Why nothing could be set aside to choose by."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a run leaves behind while it goes on, and whom it tells."""

    checkpoint: Path | None = None
    """Replaced after every epoch, and resumed from where it exists."""
    log: Path | None = None
    """One JSON line per epoch."""
    progress: Progress = silent
    finished: Path | None = None
    """A folder of finished networks by what they were trained on; one that is there is not trained again."""
    choices: Choices | None = None
    """Filled in by a run with validation, followed by one without."""
    stage: str = ""
    """What comes before the part's name where everything is trained more than once."""
    part: str = "training"
    """What the log and the progress bar call it."""

    @property
    def label(self) -> str:
        """Stage and part."""
        return f"{self.stage} {self.part}".lstrip()

    def of_part(self, name: str) -> "Recording":
        """The recording of one part of a training in several; its checkpoint lies beside the others'."""
        return replace(self, checkpoint=self._beside(name), part=name)

    def of_stage(self, name: str) -> "Recording":
        """The recording of one of several trainings."""
        return replace(self, checkpoint=self._beside(name), stage=name)

    def _beside(self, name: str) -> Path | None:
        return None if self.checkpoint is None else self.checkpoint.with_name(f"{self.checkpoint.name}.{name}")


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
    recording: Recording = Recording(),  # noqa: B008 - frozen
) -> list[Epoch]:
    """Train ``network`` in place and leave it with its best weights (the last ones without ``validate``).

    Every epoch's randomness follows from the seed and its number alone. So a run that is killed and resumed from its
    checkpoint goes through the same batches and the same dropout, and ends with the same network.
    """
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay, fused=True
    )
    state = State.fresh(network) if checkpoint is None else checkpoint.resume(network, optimizer)
    history: list[Epoch] = []
    steps = -(-len(rows) // options.batch)
    patience = max(options.patience, -(-options.patience_steps // max(steps, 1)))
    with seeded(options.seed, rows.device):
        while state.epoch < options.epochs and state.stale < patience:
            started = time.perf_counter()
            torch.manual_seed(hash((options.seed, state.epoch)) & (2**63 - 1))
            loss = _run_epoch(network, step, rows, options, optimizer, state.epoch)
            metric = None if validate is None else _validated(network, validate)
            state = state.after(network, metric)
            history.append(Epoch(state.epoch, loss, metric, time.perf_counter() - started))
            if checkpoint is not None:
                checkpoint.save(state, network, optimizer)
            _append(recording, history[-1])
            recording.progress(recording.label, state.epoch, options.epochs, _note(history[-1], state))
    if recording.choices is not None and validate is not None:
        recording.choices.epochs[recording.part] = state.epoch - state.stale
    network.load_state_dict(state.best)
    network.eval()
    return history


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Torch's generators start at ``seed`` inside, and outside go on as if nothing had happened."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


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
    losses = []
    for start in range(0, len(order), options.batch):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(rows.device.type, torch.bfloat16, enabled=options.bf16 and rows.device.type == "cuda"):
            loss = step(order[start : start + options.batch])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.detach())
    # Looked at once an epoch: asking after every step would make a GPU wait. The checkpoint is older than any of them.
    values = torch.stack(losses).float().cpu()
    broken = torch.nonzero(~torch.isfinite(values)).flatten().tolist()
    if broken:
        raise TrainingError(f"the loss became {values[broken[0]].item()} in epoch {epoch + 1}, step {broken[0] + 1}")
    # A loss is finite before the step it leads to: weights can still break in the last one.
    if not all(bool(torch.isfinite(parameter).all()) for parameter in network.parameters()):
        raise TrainingError(f"the weights are no longer finite after epoch {epoch + 1}, step {len(losses)}")
    return float(values.mean())


def _validated(network: nn.Module, validate: Validate) -> float:
    network.eval()
    with torch.no_grad():
        return validate()


def _append(recording: Recording, epoch: Epoch) -> None:
    if recording.log is not None:
        with recording.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": recording.label, **epoch.__dict__}) + "\n")


def _note(epoch: Epoch, state: State) -> str:
    """How it goes, for a progress bar."""
    if epoch.metric is None:
        return f"loss {epoch.loss:.4g}"
    return f"loss {epoch.loss:.4g}, validation {epoch.metric:.4f} (best {state.metric:.4f})"
