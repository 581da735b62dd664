"""Finished networks on disk, by the fingerprint of their training, so that no network is trained twice.

A fingerprint covers the data, the settings, the seed and what picked the epoch. So a network stored under it is exactly
the one that training would produce.
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
    """A folder of finished networks; a training whose network is there has nothing left to do."""

    folder: Path

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the checkpoint of this training; the label does not matter."""
        return _FinishedNetwork(self.path(fingerprint), fingerprint=fingerprint)

    def path(self, fingerprint: str) -> Path:
        """Return the path of this training's network, whether it exists or not."""
        return self.folder / f"{fingerprint}.safetensors"


class StartingNetworks:
    """Checkpoints of a run that may start from networks of earlier runs, and keeps its own for later ones."""

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

        With ``required``, a network with one of the names must be found; errors use it as the name of the place.
        """
        self._checkpoints, self._names, self._earlier, self._kept = checkpoints, names, earlier, kept
        self._required = required
        self.reused: list[Path] = []
        """The files of earlier runs that were used."""

    def open(self, label: str, fingerprint: str) -> Checkpoint:
        """Return the finished network of this training if there is one, or else the run's own checkpoint."""
        for networks in self._earlier:
            if networks.path(fingerprint).exists():
                self.reused.append(networks.path(fingerprint))
                return networks.open(label, fingerprint)
        if self._required is not None and label in self._names:
            raise InputError(
                f"{self._required} has no network of this training: data, settings, seed or epochs differ, or it was "
                "trained by an older version"
            )
        own = self._checkpoints.open(label, fingerprint)
        return own if label not in self._names else _KeptWhenFinished(own, self._kept.open(label, fingerprint))


class _FinishedNetwork(Checkpoint):
    """A checkpoint that is written only when the training is finished."""

    def after_epoch(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Write nothing: writing every epoch would cost more than it saves."""

    def when_finished(self, state: State, network: nn.Module) -> None:
        """Save the network, without the optimiser since no epoch follows."""
        if not self.path.exists():
            self.save(state, network, None)


class _KeptWhenFinished(Checkpoint):
    """A checkpoint like ``own`` that also saves the finished network to ``kept``."""

    def __init__(self, own: Checkpoint, kept: Checkpoint) -> None:
        self.path, self._own, self._kept = own.path, own, kept

    def after_epoch(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Save the current state of the run."""
        self._own.after_epoch(state, network, optimizer)

    def when_finished(self, state: State, network: nn.Module) -> None:
        """Save the finished network for other runs."""
        self._own.when_finished(state, network)
        self._kept.when_finished(state, network)

    def resume(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> State:
        """Continue where the run stopped."""
        return self._own.resume(network, optimizer)
