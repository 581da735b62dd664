"""Networks that several arms train alike: the first to finish one leaves it to the others."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from pricdr.training.checkpoints import Checkpoint, State


@dataclass(frozen=True)
class SharedNetworks:
    """A folder of finished networks, by the fingerprint of their training: one that is there is not trained again."""

    folder: Path

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the checkpoint of this training, under whatever label an arm trains it."""
        return _FinishedNetwork(self.folder / f"{fingerprint}.safetensors", fingerprint=fingerprint)


class _FinishedNetwork(Checkpoint):
    """A checkpoint of the end alone: an experiment is not resumed in the middle of a network."""

    def after_epoch(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Write nothing: hundreds of epochs would cost more than they save."""

    def when_finished(self, state: State, network: nn.Module) -> None:
        """Leave the network to the others, without the optimiser, since no epoch follows."""
        self.save(state, network, None)
