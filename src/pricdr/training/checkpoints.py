"""Checkpoints of training runs, and finished networks that other trainings reuse; each file is replaced atomically.

A fingerprint covers the data, the settings, the seed and what picked the epoch. So a network stored under it is exactly
the one that training would produce.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Final

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


@dataclass(frozen=True)
class RunState:
    """The state of a run after some epochs."""

    epoch: int
    stale: int  # epochs since the best one
    metric: float  # the best metric so far
    best: Weights  # the weights of the best epoch

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
    """For other trainings. If this is ``path``, nothing is written before: in short trainings that costs too much."""

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
            _require_fit(tensors, network)
        except (SafetensorError, OSError, ValueError, RecursionError) as error:
            reason = f": {error}" if isinstance(error, InputError) else ""
            raise InputError(f"{self.path} is not a checkpoint that can be resumed{reason}") from error
        device = next(network.parameters()).device
        best = {name: tensors[f"best/{name}"].to(device) for name in network.state_dict()}
        network.load_state_dict({name: tensors.get(f"network/{name}", value) for name, value in best.items()})
        slots: dict[int, Weights] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                _, index, slot = name.split("/")
                slots.setdefault(int(index), {})[slot] = value if slot == "step" else value.to(device)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
        epoch, stale, metric = tensors["run"].tolist()
        return RunState(int(epoch), int(stale), metric, best)

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


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """Where the networks of a training are kept: while it runs, and finished, for other trainings."""

    running: Path | None = None  # where the paths of files for single networks begin
    finished: Path | None = None  # a folder; a training whose network is there has nothing left to do
    shared: Collection[str] | None = None  # the names of the networks that are kept there; None for all of them
    earlier: Collection[Path] = ()  # folders of finished networks of other runs, to start from
    required: str | None = None  # where a shared network must be found, as errors call that place
    reused: list[Path] = field(default_factory=list)  # the files of other runs that were used

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the checkpoint of the network called ``label`` (a few words) in this training."""
        name, shared = f"{fingerprint}.safetensors", self.shared is None or label in self.shared
        for folder in self.earlier:
            if (folder / name).exists():
                self.reused.append(folder / name)
                return Checkpoint(folder / name, fingerprint=fingerprint, finished=folder / name)
        if self.required is not None and shared:
            raise InputError(
                f"{self.required} has no network of this training: data, settings, seed or epochs differ, or it was "
                "trained by an older version"
            )
        finished = self.finished / name if self.finished is not None and shared else None
        running = self.running and self.running.with_name(f"{self.running.name}.{label.replace(' ', '.')}")
        path = running or finished
        assert path is not None, "checkpoints of no place"
        return Checkpoint(path, fingerprint=fingerprint, finished=finished)


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


def _require_fit(tensors: Weights, network: nn.Module) -> None:
    """Refuse tensors that no run of this network can have left, by their names, types, shapes or values."""
    weights = network.state_dict()
    fitting = {"run": torch.zeros(3, dtype=torch.float64)} | {f"best/{name}": weights[name] for name in weights}
    if len(tensors) > len(fitting):  # a finished network is without what only a further epoch needs
        fitting |= {f"network/{name}": weights[name] for name in weights}
        for index, parameter in enumerate(network.parameters()):
            if f"optimizer/{index}/step" in tensors:  # one that never had a gradient has nothing
                fitting[f"optimizer/{index}/step"] = torch.ones(())
                fitting |= {f"optimizer/{index}/{slot}": parameter for slot in ("exp_avg", "exp_avg_sq")}
    for name in sorted(fitting.keys() ^ tensors.keys()):
        wrong = "there is no tensor {!r:.60}" if name in fitting else "the tensor {!r:.60} does not belong in it"
        raise InputError(wrong.format(name))
    for name, value in fitting.items():
        tensor, slot = tensors[name], name.rpartition("/")[2] if name.startswith("optimizer/") else ""
        if tensor.dtype != value.dtype or tensor.shape != value.shape:
            got = f"got {tensor.dtype} of {list(tensor.shape)}"
            raise InputError(f"{name} must be {value.dtype} of {list(value.shape)}, {got}")
        if name != "run" and not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{name} has a value that is not a finite number")
        if slot in ("step", "exp_avg_sq") and bool((tensor < (slot == "step")).any()):
            raise InputError(f"{name} has a value that an optimiser cannot reach")
    epoch, stale, metric = tensors["run"].tolist()
    whole = 1 <= epoch < 2**53 and 0 <= stale <= epoch and epoch.is_integer() and stale.is_integer()
    if not whole or not -float("inf") <= metric < float("inf"):
        raise InputError(f"a run of {epoch!r} epochs, {stale!r} of them without a gain on {metric!r}, is impossible")
