"""What trained methods share: towers over sparse and dense rows, examples, and one network made into a model."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from pricdr.arrays import Float32Array
from pricdr.data.splits import HeldOut
from pricdr.models.base import Method, Trained
from pricdr.models.fitted import Chosen, FittedModel
from pricdr.models.fold_in import Tower
from pricdr.models.training_data import TrainingData
from pricdr.training.loop import TrainableNetwork, TrainingOptions, arrays_identity, seeded, train_network
from pricdr.training.rows import Bags
from pricdr.training.run_log import RunLog

_AT_ONCE: Final = 4096  # users or items per block, where all of them go through a tower
_CHANCES = 2**16  # chances are rounded to so many parts when units are left out on a processor


class Dropout(nn.Module):
    """``nn.Dropout`` at a third of its time on a processor.

    torch draws a number for each unit there, which took longer than all matrix products; 64 bits do for four units.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, units: Tensor) -> Tensor:
        """Return the units with a share of them zero, and the rest scaled so that expected sums stay the same."""
        left_out = round(self.share * _CHANCES)
        if not self.training or left_out == 0:
            return units
        if units.device.type != "cpu":
            return dropout(units, self.share)
        count = units.numel()
        draws = torch.randint(-(2**63), 2**63 - 1, (-(-count // 4),)).view(torch.int16)[:count].view(units.shape)
        kept = draws >= left_out - _CHANCES // 2
        return units * (kept * (_CHANCES / (_CHANCES - left_out)))


class SparseTower(nn.Module):
    """n → hidden → width over sparse rows: the first layer is a weighted sum of rows of its weights."""

    def __init__(self, n: int, hidden: int, width: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(n, hidden).uniform_(-1, 1) / math.sqrt(n))
        self.rest = nn.Sequential(nn.ReLU(), Dropout(dropout), nn.Linear(hidden, width))

    def forward(self, rows: Bags) -> Tensor:
        """Return one vector per row."""
        # A sparse row times the first layer is a weighted sum of that layer's rows: no dense row is ever made.
        vectors: Tensor = self.rest(rows.times(self.first))
        return vectors


def tower_of(module: nn.Module) -> Tower:
    """Return the weights of a trained tower, to compute with them where there is no torch."""
    layers: Any = module.rest if isinstance(module, SparseTower) else module
    first = module.first if isinstance(module, SparseTower) else layers[0].weight.T
    bias = torch.zeros(first.shape[1]) if isinstance(module, SparseTower) else layers[0].bias
    return Tower(*map(numbers, (first, bias, layers[-1].weight.T, layers[-1].bias)))


def in_blocks(count: int, rows_of: Callable[[Tensor], Tensor], device: torch.device) -> Tensor:
    """Return ``rows_of`` the numbers 0 … count − 1, computed for some of them at a time and put together."""
    return torch.cat([rows_of(numbers) for numbers in torch.split(torch.arange(count, device=device), _AT_ONCE)])


def dense_tower(n: int, hidden: int, width: int, dropout: float) -> nn.Sequential:
    """Return n → hidden → width over dense rows."""
    return nn.Sequential(nn.Linear(n, hidden), nn.ReLU(), Dropout(dropout), nn.Linear(hidden, width))


def log_odds(counts: Tensor, users: int) -> Tensor:
    """Return the log-odds of each item being rated, from how many users did: the score where a user is unknown."""
    # Half a rating more: an item that nobody rated has finite log-odds.
    share = (counts + 0.5) / (users + 1)
    return torch.log(share / (1 - share))


class TrainingRun(TrainableNetwork, Protocol):
    """The only network of a method, which is trained and turned into a model."""

    def fitted_model(self) -> FittedModel:
        """Return the model of the network in its current state."""


class NetworkMethod(Method):
    """A method of one network, which its run trains."""

    config: Any
    options: TrainingOptions
    _run: ClassVar[Callable[..., TrainingRun]]

    def training_run(self, data: TrainingData) -> TrainingRun:
        """Return the network for these data, not trained yet."""
        return type(self)._run(data, self)

    def _train(self, data: TrainingData, *, validation: HeldOut | None, chosen: Chosen, log: RunLog) -> Trained:
        run = self.training_run(data)
        state = train_network(run, self.options, validation=validation, epochs=chosen.epochs, log=log)
        return run.fitted_model(), chosen if validation is None else Chosen(epochs={log.network: state.best_epoch})


class NetworkRun(nn.Module, ABC):
    """The network of a method that has one, with the data and the settings it is trained by."""

    config: Any
    examples: Tensor

    def __init__(self, data: TrainingData, method: NetworkMethod) -> None:
        super().__init__()
        self.data, self.method = data, method
        self.config, self.device = method.config, method.options.torch_device()
        self.identity = f"{method.name} {method.config!r} {arrays_identity(*data.arrays())}"
        self.prepare()
        with seeded(method.options.seed, self.device):
            self.build()
        self.to(self.device)

    @property
    def network(self) -> nn.Module:
        """Return what is trained: itself."""
        return self

    @abstractmethod
    def prepare(self) -> None:
        """Bring the data to the device."""

    @abstractmethod
    def build(self) -> None:
        """Make the layers, as they are before training."""


def numbers(tensor: Tensor) -> Float32Array:
    """Return a tensor as an array in memory."""
    array: Float32Array = tensor.detach().cpu().numpy()
    return array
