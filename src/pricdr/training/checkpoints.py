"""A training run that can be killed: everything the next epoch needs, in one file, replaced in one step."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from pricdr.errors import InputError
from pricdr.files import replace_file

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class State:
    """Where a run stands after so many epochs."""

    epoch: int
    stale: int
    """Epochs since the best one."""
    metric: float
    best: Weights

    @classmethod
    def fresh(cls, network: nn.Module) -> "State":
        """Before the first epoch."""
        return cls(0, 0, float("-inf"), _copy(network))

    def after(self, network: nn.Module, metric: float | None) -> "State":
        """One epoch later; without a metric the newest weights are the best."""
        if metric is None:
            return replace(self, epoch=self.epoch + 1, best=_copy(network))
        if metric > self.metric:
            return State(self.epoch + 1, 0, metric, _copy(network))
        return replace(self, epoch=self.epoch + 1, stale=self.stale + 1)


class Checkpoint:
    """A file that a run is saved to after every epoch, and resumed from; it belongs to one configuration."""

    def __init__(self, path: Path, *, fingerprint: str) -> None:
        self.path = path
        self._fingerprint = fingerprint

    def save(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Replace the file by where the run stands now."""
        tensors = {f"network/{name}": value for name, value in network.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in state.best.items()}
        for index, slots in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{index}/{name}": torch.as_tensor(value) for name, value in slots.items()}
        # Numbers as tensors too: floats in text would lose bits.
        tensors["run"] = torch.tensor([state.epoch, state.stale, state.metric], dtype=torch.float64)
        content = save(
            {name: value.detach().cpu().contiguous() for name, value in tensors.items()},
            metadata={"fingerprint": self._fingerprint},
        )
        replace_file(self.path, content)

    def resume(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> State:
        """Put network and optimiser where the file says; a fresh state where there is no file."""
        if not self.path.exists():
            return State.fresh(network)
        tensors = self._read()
        device = next(network.parameters()).device
        network.load_state_dict(_part(tensors, "network/"))
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in _part(tensors, "optimizer/").items():
            index, _, slot = name.partition("/")
            slots.setdefault(int(index), {})[slot] = value if slot == "step" else value.to(device)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
        epoch, stale, metric = tensors["run"].tolist()
        best = {name: value.to(device) for name, value in _part(tensors, "best/").items()}
        return State(int(epoch), int(stale), metric, best)

    def _read(self) -> Weights:
        try:
            content = self.path.read_bytes()
            header = int.from_bytes(content[:8], "little")
            if self._fingerprint.encode() not in content[8 : 8 + header]:
                raise InputError(f"{self.path} belongs to another run: data, release or configuration differ")
            return load(content)
        except (SafetensorError, OSError, OverflowError) as error:
            raise InputError(f"{self.path} is not a checkpoint that can be resumed") from error


def _copy(network: nn.Module) -> Weights:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _part(tensors: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
