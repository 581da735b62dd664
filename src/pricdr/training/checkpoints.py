"""Checkpoints of training runs, and finished networks that other trainings reuse; each file is replaced atomically.

A fingerprint covers the data, the settings, the seed and what picked the epoch. So a network stored under it is exactly
the one that training would produce.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from pricdr.errors import InputError
from pricdr.files import PRIVATE, replace_file
from pricdr.untrusted import Folder

Weights = dict[str, Tensor]
_MAX_HEADER: Final = 1 << 20
_DTYPES: Final = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The names that safetensors has for the types of weights and buffers."""
_SLOTS: Final = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps for each parameter that had a gradient: a number, and two tensors of the parameter's shape."""


@dataclass(frozen=True)
class RunState:
    """The state of a run after some epochs."""

    epoch: int
    stale: int
    """Epochs since the best one."""
    metric: float
    """The best metric so far."""
    best: Weights
    """The weights of the best epoch."""

    @property
    def best_epoch(self) -> int:
        """The epoch whose weights are kept; the last one without validation."""
        return self.epoch - self.stale

    @classmethod
    def fresh(cls, network: nn.Module) -> "RunState":
        """Return the state before the first epoch."""
        return cls(0, 0, float("-inf"), {name: value.clone() for name, value in network.state_dict().items()})

    def after(self, network: nn.Module, metric: float | None) -> "RunState":
        """Return the state one epoch later, which reuses the same weights; without a metric the newest are the best."""
        if metric is not None and not metric > self.metric:  # equal is not better: patience has to run out on a plateau
            return replace(self, epoch=self.epoch + 1, stale=self.stale + 1)
        for name, value in network.state_dict().items():
            self.best[name].copy_(value)  # over the old ones: a second copy would need more memory
        return RunState(self.epoch + 1, 0, self.metric if metric is None else metric, self.best)


@dataclass(frozen=True)
class Checkpoint:
    """The file that a run is saved to after every epoch and resumed from; it belongs to one configuration."""

    path: Path
    _: KW_ONLY
    fingerprint: str
    finished: Path | None = None
    """Where the finished network is kept for other trainings. If this is ``path``, nothing is written before: in a
    short training, writing every epoch would cost more than it saves."""

    def after_epoch(self, state: RunState, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Replace the file by the current state of the run."""
        if self.path != self.finished:
            self.save(state, network, optimizer)

    def when_finished(self, state: RunState, network: nn.Module) -> None:
        """Keep the network for other trainings, without the optimiser since no epoch follows."""
        if self.finished is not None and not self.finished.exists():
            replace(self, path=self.finished).save(state, network, None)

    def save(self, state: RunState, network: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
        """Write the run; without ``optimizer`` only the best weights are written, and no epoch can follow."""
        # Numbers as tensors too: floats in text would lose bits.
        tensors = {"run": torch.tensor([state.epoch, state.stale, state.metric], dtype=torch.float64)}
        tensors |= {f"best/{name}": value for name, value in state.best.items()}
        if optimizer is not None:
            tensors |= {f"network/{name}": value for name, value in network.state_dict().items()}
            for index, slots in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer/{index}/{name}": torch.as_tensor(value) for name, value in slots.items()}
        # Learnt from ratings: for their owner alone.
        replace_file(self.path, _chunks(tensors, {"fingerprint": self.fingerprint}), mode=PRIVATE)

    def resume(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> RunState:
        """Load the file into network and optimiser and return its state; a fresh state if there is no file."""
        if not self.path.exists():
            return RunState.fresh(network)
        try:
            tensors = self._read(network)
            state = _state(tensors)
            slots = _slots(tensors, network)
            best = _weights(tensors, "best/", network)
            weights = _weights(tensors, "network/", network) if tensors else best
            if tensors:
                raise InputError(f"the tensor {min(tensors)!r:.60} does not belong in it")
        except (SafetensorError, OSError, ValueError, RecursionError) as error:
            reason = f": {error}" if isinstance(error, InputError) else ""
            raise InputError(f"{self.path} is not a checkpoint that can be resumed{reason}") from error
        device = next(network.parameters()).device
        network.load_state_dict(weights)
        for moments in slots.values():
            moments |= {slot: value.to(device) for slot, value in moments.items() if slot != "step"}
        optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
        return replace(state, best={name: value.to(device) for name, value in best.items()})

    def _read(self, network: nn.Module) -> Weights:
        """Return the file's tensors, after checking in the header that they belong to this run."""
        # The network, its best copy and two moments of every parameter: a checkpoint is never larger.
        largest = _MAX_HEADER + 4 * sum(value.nbytes for value in network.state_dict().values())
        with Folder.opened(self.path.parent, "the folder of a checkpoint") as folder:
            content = folder.read(self.path.name, limit=largest)
        header = int.from_bytes(content[:8], "little")
        if header > _MAX_HEADER:
            raise InputError(f"its header has {header:,} bytes; at most {_MAX_HEADER:,} are allowed")
        described = json.loads(content[8 : 8 + header])
        metadata = described.get("__metadata__") if isinstance(described, dict) else None
        if not isinstance(metadata, dict) or metadata.get("fingerprint") != self.fingerprint:
            raise InputError("it belongs to another run: data, release or configuration differ")
        return load(content)


class Checkpoints(Protocol):
    """Provides the checkpoint of each network that a method trains."""

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the checkpoint of the network called ``label`` (a few words) in this training."""
        ...


@dataclass(frozen=True)
class CheckpointFiles:
    """Checkpoint files in one folder, named by their networks; those of another training are refused."""

    path: Path
    """The common beginning of their paths."""

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the checkpoint at ``path`` with the label as its suffix."""
        name = f"{self.path.name}.{label.replace(' ', '.')}"
        return Checkpoint(self.path.with_name(name), fingerprint=fingerprint)


@dataclass(frozen=True)
class FinishedNetworks:
    """A folder of finished networks; a training whose network is there has nothing left to do."""

    folder: Path

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the checkpoint of this training; the label does not matter."""
        path = self.path(fingerprint)
        return Checkpoint(path, fingerprint=fingerprint, finished=path)

    def path(self, fingerprint: str) -> Path:
        """Return the path of this training's network, whether it exists or not."""
        return self.folder / f"{fingerprint}.safetensors"


@dataclass(frozen=True, kw_only=True)
class StartingNetworks:
    """Checkpoints of a run that may start from networks of earlier runs, and keeps its own for later ones."""

    checkpoints: Checkpoints
    """The run's own."""
    names: Collection[str]
    """The networks that are kept."""
    earlier: Collection[FinishedNetworks]
    kept: FinishedNetworks
    required: str | None = None
    """If given, networks with these names must be found; errors use it as the name of the place."""
    reused: list[Path] = field(default_factory=list)
    """The files of earlier runs that were used."""

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the finished network of this training if there is one, or else the run's own checkpoint."""
        for networks in self.earlier:
            if networks.path(fingerprint).exists():
                self.reused.append(networks.path(fingerprint))
                return networks.open(label, fingerprint)
        if self.required is not None and label in self.names:
            raise InputError(
                f"{self.required} has no network of this training: data, settings, seed or epochs differ, or it was "
                "trained by an older version"
            )
        own = self.checkpoints.open(label, fingerprint)
        return replace(own, finished=self.kept.path(fingerprint)) if label in self.names else own


def _chunks(tensors: Weights, metadata: dict[str, str]) -> Iterator[bytes | memoryview]:
    """Yield a safetensors file in chunks: as one block it would be in memory three times."""
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for tensor in tensors.values():
        yield tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data


def _state(tensors: Weights) -> RunState:
    """Remove the run's epoch, stale epochs and best metric from the tensors; return them without weights."""
    numbers = _pop(tensors, "run", torch.float64, torch.Size([3]), finite=False)
    epoch, stale, metric = numbers.tolist()
    whole = 1 <= epoch < 2**53 and 0 <= stale <= epoch and epoch.is_integer() and stale.is_integer()
    if not whole or not -float("inf") <= metric < float("inf"):
        raise InputError(f"a run of {epoch!r} epochs, {stale!r} of them without a gain on {metric!r}, is impossible")
    return RunState(int(epoch), int(stale), metric, {})


def _weights(tensors: Weights, prefix: str, network: nn.Module) -> Weights:
    """Remove and return one tensor for each of the network's, of the same type and shape."""
    return {
        name: _pop(tensors, prefix + name, value.dtype, value.shape) for name, value in network.state_dict().items()
    }


def _slots(tensors: Weights, network: nn.Module) -> dict[int, Weights]:
    """Remove and return the optimiser's state of each parameter; one that never had a gradient has none."""
    slots: dict[int, Weights] = {}
    for index, parameter in enumerate(network.parameters()):
        names = {slot: f"optimizer/{index}/{slot}" for slot in _SLOTS}
        if not any(name in tensors for name in names.values()):
            continue
        slots[index] = {
            slot: _pop(tensors, name, torch.float32, torch.Size([]))
            if slot == "step"
            else _pop(tensors, name, parameter.dtype, parameter.shape)
            for slot, name in names.items()
        }
        if float(slots[index]["step"]) < 1 or bool((slots[index]["exp_avg_sq"] < 0).any()):
            raise InputError(f"{names['exp_avg_sq']} and its step must be values that an optimiser can reach")
    return slots


def _pop(tensors: Weights, name: str, dtype: torch.dtype, shape: torch.Size, *, finite: bool = True) -> Tensor:
    if name not in tensors:
        raise InputError(f"there is no tensor {name!r}")
    tensor = tensors.pop(name)
    if tensor.dtype != dtype or tensor.shape != shape:
        raise InputError(f"{name} must be {dtype} of {list(shape)}, got {tensor.dtype} of {list(tensor.shape)}")
    if finite and not bool(torch.isfinite(tensor).all()):
        raise InputError(f"{name} has a value that is not a finite number")
    return tensor
