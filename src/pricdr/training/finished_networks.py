"""Finished networks on disk, by the fingerprint of their training: what was trained once is not trained again.

A fingerprint covers the data, the settings, the seed and what picked the epoch. So a network that is found under it is
the very network that training would end with.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from pricdr.errors import InputError
from pricdr.training.checkpoints import Checkpoint, Checkpoints, State


@dataclass(frozen=True)
class FinishedNetworks:
    """A folder of finished networks; a training that finds its own there has nothing left to do."""

    folder: Path

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the checkpoint of this training, whatever it calls the network."""
        return _FinishedNetwork(self.path(fingerprint), fingerprint=fingerprint)

    def path(self, fingerprint: str) -> Path:
        """Return where the network of this training is, or would be."""
        return self.folder / f"{fingerprint}.safetensors"


class StartingNetworks:
    """The checkpoints of a run that may start from networks of earlier runs, and leaves its own to later ones."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        *,
        names: Collection[str],
        earlier: Collection[FinishedNetworks],
        kept: FinishedNetworks,
        required: str | None = None,
    ) -> None:
        """Look for networks in ``earlier``, and keep those with one of the ``names`` in ``kept``.

        ``required`` is what errors call the place where a network with one of the names must be found.
        """
        self._checkpoints, self._names, self._earlier, self._kept = checkpoints, names, earlier, kept
        self._required = required
        self.found: list[Path] = []
        """The files of earlier runs that were used."""

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return a finished network where there is one for this training, or else the run's own checkpoint."""
        for networks in self._earlier:
            if networks.path(fingerprint).exists():
                self.found.append(networks.path(fingerprint))
                return networks.open(label, fingerprint)
        if self._required is not None and label in self._names:
            raise InputError(
                f"{self._required} holds no network of this training: data, settings, seed or epochs differ, or it "
                "was trained by an older version"
            )
        own = self._checkpoints.open(label, fingerprint)
        return own if label not in self._names else _KeptWhenFinished(own, self._kept.open(label, fingerprint))


class _FinishedNetwork(Checkpoint):
    """A checkpoint of the end alone."""

    def after_epoch(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Write nothing: hundreds of epochs would cost more than they save."""

    def when_finished(self, state: State, network: nn.Module) -> None:
        """Leave the network to others, without the optimiser, since no epoch follows."""
        if not self.path.exists():
            self.save(state, network, None)


class _KeptWhenFinished(Checkpoint):
    """A checkpoint like ``own``, whose network is left to others in the end."""

    def __init__(self, own: Checkpoint, kept: Checkpoint) -> None:
        self.path, self._own, self._kept = own.path, own, kept

    def after_epoch(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Save the run where it stands."""
        self._own.after_epoch(state, network, optimizer)

    def when_finished(self, state: State, network: nn.Module) -> None:
        """Leave the network to others."""
        self._own.when_finished(state, network)
        self._kept.when_finished(state, network)

    def resume(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> State:
        """Go on where the run stopped."""
        return self._own.resume(network, optimizer)
