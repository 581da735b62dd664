"""Checkpoints are not trusted: one that does not fit the run is refused before anything is loaded."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from torch import nn

from pricdr.errors import InputError
from pricdr.training.checkpoints import Checkpoint, RunState

FINGERPRINT = {"fingerprint": "mine"}


def trained_for(epochs, path, network):
    """The checkpoint of a run of some epochs, without validation."""
    optimizer, state = torch.optim.AdamW(network.parameters()), RunState.fresh(network)
    for _ in range(epochs):
        network(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
        state = state.after(network, None)
    saved = Checkpoint(path, **FINGERPRINT)
    saved.save(state, network, optimizer)
    return saved


def network():
    torch.random.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))


@pytest.fixture
def checkpoint(tmp_path):
    return trained_for(3, tmp_path / "run.checkpoint", network())


def fresh():
    new = network()
    return new, torch.optim.AdamW(new.parameters())


def assert_refused(checkpoint, says=""):
    new, optimizer = fresh()
    before = {name: value.clone() for name, value in new.state_dict().items()}
    with pytest.raises(InputError) as raised:
        checkpoint.resume(new, optimizer)
    message = str(raised.value)
    assert str(checkpoint.path) in message
    assert says in message
    assert message.isprintable()
    assert all(torch.equal(value, before[name]) for name, value in new.state_dict().items())
    assert not optimizer.state_dict()["state"]


def test_a_checkpoint_resumes_where_the_run_stood(checkpoint):
    """With buffers of other types: batch normalisation counts its batches in a whole number."""
    new, optimizer = fresh()
    state = checkpoint.resume(new, optimizer)
    assert (state.epoch, state.stale, state.metric) == (3, 0, float("-inf"))
    assert set(optimizer.state_dict()["state"]) == set(range(6))
    assert all(torch.equal(value, state.best[name]) for name, value in new.state_dict().items())
    assert new[1].num_batches_tracked == 3


def test_a_unit_that_never_fired_has_moments_of_zero(tmp_path):
    dead = network()
    torch.nn.init.zeros_(dead[2].weight)
    new, optimizer = fresh()
    assert trained_for(1, tmp_path / "run", dead).resume(new, optimizer).epoch == 1
    assert not optimizer.state_dict()["state"][0]["exp_avg_sq"].any()


def run_of(epoch, stale, metric):
    return lambda t: t.update(run=torch.tensor([epoch, stale, metric], dtype=torch.float64))


def full(name, value):
    return lambda t: t.update({name: torch.full_like(t[name], value)})


NAN, INF = float("nan"), float("inf")
IMPOSSIBLE_RUNS = {
    "half an epoch": (2.5, 0, 0.1),
    "epoch zero": (0, 0, 0.1),
    "no number of epochs": (NAN, 0, 0.1),
    "infinitely many epochs": (INF, 0, 0.1),
    "more stale epochs than epochs": (2, 3, 0.1),
    "stale below zero": (2, -1, 0.1),
    "no metric": (2, 0, NAN),
    "an infinite metric": (2, 0, INF),
}
TENSORS = {
    "another tensor": (lambda t: t.update(extra=torch.zeros(1)), "'extra' does not belong"),
    "no run": (lambda t: t.pop("run"), "no tensor 'run'"),
    "no weights": (lambda t: t.pop("network/0.weight"), "no tensor 'network/0.weight'"),
    "no best weights": (lambda t: t.pop("best/2.bias"), "no tensor 'best/2.bias'"),
    "half an optimiser": (lambda t: t.pop("optimizer/1/exp_avg"), "no tensor"),
    "a parameter too many": (lambda t: t.update({"optimizer/6/step": torch.tensor(1.0)}), "does not belong"),
    "a parameter without a number": (lambda t: t.update({"optimizer/x/step": torch.tensor(1.0)}), "does not belong"),
    "another shape": (lambda t: t.update({"network/0.weight": torch.zeros(4, 3)}), "got torch.float32 of [4, 3]"),
    "another type": (lambda t: t.update({"best/0.bias": torch.zeros(3, dtype=torch.float64)}), "float64"),
    "moments of another shape": (lambda t: t.update({"optimizer/0/exp_avg": torch.zeros(1)}), "of [1]"),
    "a step of many": (lambda t: t.update({"optimizer/0/step": torch.zeros(2)}), "of [2]"),
    "nan weights": (full("network/0.weight", NAN), "finite"),
    "infinite best weights": (full("best/0.weight", INF), "finite"),
    "nan moments": (full("optimizer/0/exp_avg", NAN), "finite"),
    "squares below zero": (full("optimizer/0/exp_avg_sq", -1.0), "optimiser"),
    "no step yet": (full("optimizer/0/step", 0.0), "optimiser"),
    **{name: (run_of(*values), "is impossible") for name, values in IMPOSSIBLE_RUNS.items()},
    "a run of two": (lambda t: t.update(run=torch.zeros(2, dtype=torch.float64)), "of [2]"),
    "a run in whole numbers": (lambda t: t.update(run=torch.tensor([3, 0, 0])), "int64"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_what_does_not_fit_the_run_is_refused(checkpoint, name):
    change, says = TENSORS[name]
    tensors = load_file(checkpoint.path)
    change(tensors)
    save_file(tensors, checkpoint.path, metadata=FINGERPRINT)
    assert_refused(checkpoint, says)


def header(content):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda file: file.write_bytes(len(text).to_bytes(8, "little") + text)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"\xff" * 64),
        lambda file: file.write_bytes(file.read_bytes()[:-5]),
        lambda file: file.write_bytes(file.read_bytes() + b"more"),
        lambda file: file.write_bytes(bytes(100 << 20)),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), os.mkfifo(file)),
        header(b"[" * 100_000),
        header([1]),
        header({"__metadata__": "mine"}),
        header({"__metadata__": FINGERPRINT, "run": 5}),
        header({"__metadata__": FINGERPRINT, "run": {"dtype": "F64", "shape": [3], "data_offsets": [0, 9]}}),
    ],
)
def test_a_file_that_is_not_a_checkpoint_is_refused(checkpoint, spoil):
    spoil(checkpoint.path)
    assert_refused(checkpoint)


def test_the_fingerprint_is_read_from_the_metadata_only(checkpoint):
    """A tensor that is named like the fingerprint does not make a file a checkpoint of this run."""
    checkpoint.path.write_bytes(save({"mine": torch.zeros(1)}, metadata={"fingerprint": "yours"}))
    assert_refused(checkpoint, "another run")
