"""Checkpoints of a training: one that resumes gives a network of the same shapes, finite, that can go on training."""

from pathlib import Path
from random import Random

import torch
from torch import nn

from pricdr.training.checkpoints import Checkpoint, State
from tests.fuzz.cases import Files, Kind, Seed, require
from tests.fuzz.mutations import mutate_bytes
from tests.fuzz.tensor_files import mutate_tensors

_FILE = "run.checkpoint"
_FINGERPRINT = "f" * 64


def _network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))


def _optimizer(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)


def _step(network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    network(torch.ones(3, 5)).square().mean().backward()
    optimizer.step()


def make_seeds(folder: Path) -> list[Seed]:
    """Runs of one to four epochs, with validation and without."""
    seeds = []
    for metric in (None, 0.25):
        network = _network()
        optimizer = _optimizer(network)
        state = State.fresh(network)
        for epoch in range(1, 5):
            _step(network, optimizer)
            state = state.after(network, metric)
            path = folder / f"{epoch} {metric}"
            Checkpoint(path, fingerprint=_FINGERPRINT).save(state, network, optimizer)
            seeds.append(Seed(path.name, {_FILE: path.read_bytes()}, epoch))
    return seeds


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change the arrays, their header, or bytes."""
    content, spare = seed.files[_FILE], other.files[_FILE]
    if rng.random() < 0.75:
        return {_FILE: mutate_tensors(rng, content, spare)}
    return {_FILE: mutate_bytes(rng, content, spare)}


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Resume, look at everything the training would go on with, and take a step."""
    network = _network()
    shapes = {name: (value.shape, value.dtype) for name, value in network.state_dict().items()}
    optimizer = _optimizer(network)
    state = Checkpoint(folder / _FILE, fingerprint=_FINGERPRINT).resume(network, optimizer)
    for what, weights in (("network", network.state_dict()), ("best network", state.best)):
        require({n: (v.shape, v.dtype) for n, v in weights.items()} == shapes, f"a {what} of other shapes or types")
        require(all(bool(torch.isfinite(v).all()) for v in weights.values()), f"a {what} that is not finite")
    # An epoch below 0 would be trained for as long as it takes to reach the last one.
    require(0 <= state.epoch < 2**53 and 0 <= state.stale <= state.epoch, f"epochs that are none: {state.epoch}")
    require(state.metric == state.metric and state.metric < float("inf"), f"a metric nothing can beat: {state.metric}")
    slots = [value for slot in optimizer.state_dict()["state"].values() for value in slot.values()]
    require(all(bool(torch.isfinite(value).all()) for value in slots), "an optimiser that is not finite")
    # Weights that huge but finite numbers break in this step are for the training loop to refuse, as it does.
    _step(network, optimizer)
    require({n: (v.shape, v.dtype) for n, v in network.state_dict().items()} == shapes, "other shapes after a step")


KIND = Kind(make_seeds, mutate, judge)
