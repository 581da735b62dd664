"""How a network is trained: options, the epoch loop, early stopping, checkpoints and logs."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pricdr.arrays import Float64Array, IntArray
from pricdr.data.splits import HeldOut
from pricdr.errors import (
    InputError,
    ParameterError,
    TrainingError,
    require_count,
    require_not_negative,
    require_positive,
    require_seed,
)
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.memory import require_memory
from pricdr.randomness import Simulation
from pricdr.training.checkpoints import RunState
from pricdr.training.run_log import NO_LOG, Epoch, RunLog


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a network is trained: epochs, batch size, optimiser, seed and device."""

    epochs: int = 400
    patience: int = 20
    """Epochs without a better validation metric before stopping."""
    patience_steps: int = 160
    """Patience lasts at least this many steps: on small data epochs are short, and training starts on a plateau."""
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    seed: int = 0
    device: str = "auto"
    bf16: bool = False
    """Multiply in bfloat16 on a GPU: faster, and slightly less exact."""

    def __post_init__(self) -> None:
        require_count(epochs=self.epochs, patience=self.patience, patience_steps=self.patience_steps, batch=self.batch)
        require_positive(learning_rate=self.learning_rate)
        require_not_negative(weight_decay=self.weight_decay)
        require_seed(seed=self.seed)
        if not re.fullmatch(r"auto|cpu|mps|cuda(:(0|[1-9][0-9]{0,2}))?", self.device):
            raise ParameterError(f"device must be auto, cpu, mps, cuda or cuda:N, got {self.device[:40]!r}")

    def torch_device(self) -> torch.device:
        """Return the torch device, with ``auto`` resolved; refuse one that this machine does not have."""
        if self.device.startswith("cuda"):
            number = int(self.device.partition(":")[2] or 0)
            if not torch.cuda.is_available() or number >= torch.cuda.device_count():
                raise ParameterError(f"device {self.device} is not available on this machine: use cpu or auto")
        if self.device == "mps" and not torch.backends.mps.is_available():
            raise ParameterError("device mps is not available on this machine: use cpu or auto")
        name = ("cuda" if torch.cuda.is_available() else "cpu") if self.device == "auto" else self.device
        return torch.device(name)


ScorePairs: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # maps users (b,) and items (b, c) to scores (b, c)

_REMEDY: Final = "try a lower learning rate"
_USERS_AT_ONCE: Final = 1024
_COPIES_TO_RESUME: Final = 10  # of the weights, while a checkpoint (four, twice) is loaded; training holds five


class TrainableNetwork(Protocol):
    """A network with everything its training needs."""

    @property
    def network(self) -> nn.Module:
        """The network whose parameters are trained."""

    @property
    def examples(self) -> Tensor:
        """What an epoch iterates over: numbers of users or of ratings."""

    @property
    def identity(self) -> str:
        """A text that identifies network, settings and data; checkpoints of any other training are refused."""

    def step(self, batch: Tensor, /) -> Tensor:
        """Return the loss of a batch of examples."""

    def scorer(self) -> ScorePairs:
        """Return the scores that validation uses; called once per validation, so compute what users share here."""


def train_network(
    run: TrainableNetwork,
    options: TrainingOptions,
    *,
    validation: HeldOut | None = None,
    epochs: Mapping[str, int] = MappingProxyType({}),
    log: RunLog = NO_LOG,
) -> RunState:
    """Train a network in place, leave it with the weights of its best epoch, and say how the run ended.

    NDCG@10 on validation picks that epoch. Without, it is the one that ``epochs`` names, or the last of the options.
    An epoch's randomness depends on its number and the seed alone, so a resumed run ends with the same network.
    """
    network, examples = run.network, run.examples
    if not len(examples):
        raise InputError("there is nothing to train on: the target has no rating")
    require_trainable(sum(weights.numel() for weights in network.parameters()))
    if validation is None and log.network in epochs:
        options = replace(options, epochs=epochs[log.network])
    shown = () if validation is None else (validation.users, validation.items, validation.negatives)
    held_out = arrays_identity(*shown) if shown else "none"
    # Everything that determines the network: what is trained, how, and what picks the epoch.
    fingerprint = hashlib.sha256(f"{run.identity} {options!r} {held_out}".encode()).hexdigest()
    checkpoint = None if log.checkpoints is None else log.checkpoints.open(log.label, fingerprint)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay, fused=True
    )
    state = RunState.fresh(network) if checkpoint is None else checkpoint.resume(network, optimizer)
    # Counted in steps too: on small data an epoch has few steps, and training starts on a plateau.
    patience = max(options.patience, -(-options.patience_steps // -(-len(examples) // options.batch)))

    def last_epoch() -> int:
        """Return the last epoch if none gets better than the best so far."""
        return options.epochs if validation is None else min(options.epochs, state.best_epoch + patience)

    with seeded(options.seed, examples.device):
        while state.epoch < options.epochs and state.stale < patience:
            started = time.perf_counter()
            # The seed of an epoch is unrelated to those of other epochs and other seeds.
            torch.manual_seed(int(Simulation(options.seed).generator(f"epoch {state.epoch}").integers(2**63)))
            loss = _run_epoch(run, optimizer, examples, options, state.epoch, last_epoch(), log)
            metric = None
            if validation is not None:
                network.eval()
                with torch.no_grad():
                    metric = float(ndcg_by_user(run.scorer(), validation, examples.device).mean())
            state = state.after(network, metric)
            if checkpoint is not None and checkpoint.path != checkpoint.finished:
                checkpoint.save(state, network, optimizer)
            # After the checkpoint: if reporting is interrupted, the run can still resume from this epoch.
            epoch = Epoch(state.epoch, loss, metric, time.perf_counter() - started)
            log.record(epoch, last_epoch(), best=state.metric, best_epoch=state.best_epoch)
    if checkpoint is not None:
        checkpoint.when_finished(state, network)
    network.load_state_dict(state.best)
    network.eval()
    return state


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's generators inside the block, and restore them afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _run_epoch(
    run: TrainableNetwork,
    optimizer: torch.optim.Optimizer,
    examples: Tensor,
    options: TrainingOptions,
    epoch: int,
    last_epoch: int,
    log: RunLog,
) -> float:
    run.network.train()
    order = examples[torch.randperm(len(examples), device=examples.device)]
    bf16 = torch.autocast(order.device.type, torch.bfloat16, enabled=options.bf16 and order.is_cuda)
    losses = []
    for start in log.batches(range(0, len(order), options.batch), epoch, last_epoch):
        optimizer.zero_grad(set_to_none=True)
        with bf16:
            loss = run.step(order[start : start + options.batch])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.detach())
    # Checked once an epoch: reading each loss would stall a GPU. The checkpoint is still that of the epoch before.
    values = torch.stack(losses).float().cpu()
    if broken := torch.nonzero(~torch.isfinite(values)).flatten().tolist():
        first = broken[0]
        raise TrainingError(f"the loss became {values[first]} in epoch {epoch + 1}, step {first + 1}: {_REMEDY}")
    # A loss is computed before its step, so the last step can still break the weights. The largest absolute value shows
    # that too (it is nan if any weight is), without a second copy of each parameter.
    sizes = [torch.linalg.vector_norm(part.detach(), float("inf")) for part in run.network.parameters() if part.numel()]
    if not bool(torch.isfinite(torch.stack(sizes)).all()):
        raise TrainingError(f"the weights are no longer finite after epoch {epoch + 1}, step {len(losses)}: {_REMEDY}")
    return float(values.mean())


def require_trainable(weights: int) -> None:
    """Refuse to train a network of this many weights if memory is too small."""
    require_memory(_COPIES_TO_RESUME * 4 * weights, f"training a network of {weights:,} weights")


@torch.no_grad()
def ndcg_by_user(score: ScorePairs, held_out: HeldOut, device: torch.device) -> Float64Array:
    """Return the NDCG@10 of each held-out item among its stored negatives, scored on the device in blocks."""

    def on_device(users: IntArray, candidates: IntArray) -> Float64Array:
        scores = score(*(torch.as_tensor(numbers, device=device) for numbers in (users, candidates)))
        if not bool(torch.isfinite(scores).all()):
            raise TrainingError(f"scores are no longer finite numbers: {_REMEDY}")
        return scores.double().cpu().numpy()

    return per_user(sampled_ranks(on_device, held_out, at_once=_USERS_AT_ONCE))["NDCG@10"]


def arrays_identity(*arrays: npt.NDArray[Any]) -> str:
    """Return the SHA-256 of the numbers, independent of the width of integers."""
    digest = hashlib.sha256()
    for array in arrays:
        wide = array.astype("<i8") if array.dtype.kind == "i" else array
        digest.update(np.ascontiguousarray(wide).tobytes() + b"\0")
    return digest.hexdigest()
