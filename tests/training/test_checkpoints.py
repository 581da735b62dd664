"""Checkpoints are not trusted: one that does not fit the run is refused before anything is loaded."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from torch import nn

from pricdr.errors import InputError
from pricdr.training.checkpoints import Checkpoint
from pricdr.training.loop import TrainingOptions, train

OPTIONS = TrainingOptions(epochs=3, batch=16, device="cpu")


def network():
    torch.random.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))


@pytest.fixture
def checkpoint(tmp_path):
    """The checkpoint of a run of three epochs."""
    trained, x = network(), torch.randn(64, 4)
    saved = Checkpoint(tmp_path / "run.checkpoint", fingerprint="mine")
    train(trained, lambda rows: (trained(x[rows]) ** 2).mean(), torch.arange(64), OPTIONS, checkpoint=saved)
    return saved


def fresh_run():
    fresh = network()
    before = {name: value.clone() for name, value in fresh.state_dict().items()}
    optimizer = torch.optim.AdamW(fresh.parameters())
    return fresh, before, optimizer


def assert_refused(checkpoint, says=""):
    fresh, before, optimizer = fresh_run()
    with pytest.raises(InputError) as raised:
        checkpoint.resume(fresh, optimizer)
    message = str(raised.value)
    assert str(checkpoint.path) in message
    assert says in message
    assert message.isprintable()
    assert all(torch.equal(value, before[name]) for name, value in fresh.state_dict().items())
    assert not optimizer.state_dict()["state"]


def test_a_checkpoint_resumes_where_the_run_stood(checkpoint):
    fresh, _, optimizer = fresh_run()
    state = checkpoint.resume(fresh, optimizer)
    assert (state.epoch, state.stale, state.metric) == (3, 0, float("-inf"))
    assert set(optimizer.state_dict()["state"]) == {0, 1, 2, 3}
    assert all(torch.equal(value, state.best[name]) for name, value in fresh.state_dict().items())


def run_of(epoch, stale, metric):
    return lambda t: t.update(run=torch.tensor([epoch, stale, metric], dtype=torch.float64))


def full(name, value):
    return lambda t: t.update({name: torch.full_like(t[name], value)})


NAN, INF = float("nan"), float("inf")
TENSORS = {
    "another tensor": (lambda t: t.update(extra=torch.zeros(1)), "'extra' does not belong"),
    "no run": (lambda t: t.pop("run"), "no tensor 'run'"),
    "no weights": (lambda t: t.pop("network/0.weight"), "no tensor 'network/0.weight'"),
    "no best weights": (lambda t: t.pop("best/2.bias"), "no tensor 'best/2.bias'"),
    "half an optimiser": (lambda t: t.pop("optimizer/1/exp_avg"), "no tensor"),
    "a fifth parameter": (lambda t: t.update({"optimizer/4/step": torch.tensor(1.0)}), "does not belong"),
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
    "half an epoch": (run_of(2.5, 0, 0.1), "is impossible"),
    "epoch zero": (run_of(0, 0, 0.1), "is impossible"),
    "epochs below zero": (run_of(-3, 0, 0.1), "is impossible"),
    "no number of epochs": (run_of(NAN, 0, 0.1), "is impossible"),
    "infinitely many epochs": (run_of(INF, 0, 0.1), "is impossible"),
    "more stale epochs than epochs": (run_of(2, 3, 0.1), "is impossible"),
    "stale below zero": (run_of(2, -1, 0.1), "is impossible"),
    "no metric": (run_of(2, 0, NAN), "is impossible"),
    "an infinite metric": (run_of(2, 0, INF), "is impossible"),
    "a run of two": (lambda t: t.update(run=torch.zeros(2, dtype=torch.float64)), "of [2]"),
    "a run in whole numbers": (lambda t: t.update(run=torch.tensor([3, 0, 0])), "int64"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_what_does_not_fit_the_run_is_refused(checkpoint, name):
    change, says = TENSORS[name]
    tensors = load_file(checkpoint.path)
    change(tensors)
    save_file(tensors, checkpoint.path, metadata={"fingerprint": "mine"})
    assert_refused(checkpoint, says)


def header(content):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda file: file.write_bytes(len(text).to_bytes(8, "little") + text)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"junk"),
        lambda file: file.write_bytes(b"\xff" * 64),
        lambda file: file.write_bytes(file.read_bytes()[:-5]),
        lambda file: file.write_bytes(file.read_bytes() + b"more"),
        lambda file: file.write_bytes(bytes(100 << 20)),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), os.mkfifo(file)),
        header(b"[" * 100_000),
        header([1]),
        header({"__metadata__": "mine"}),
        header({"__metadata__": {"fingerprint": "mine"}, "run": 5}),
        header(
            {"__metadata__": {"fingerprint": "mine"}, "run": {"dtype": "F64", "shape": [3], "data_offsets": [0, 9]}}
        ),
    ],
)
def test_a_file_that_is_not_a_checkpoint_is_refused(checkpoint, spoil):
    spoil(checkpoint.path)
    assert_refused(checkpoint)


def test_buffers_of_any_type_are_saved_too(tmp_path):
    """Batch normalisation counts its batches in a whole number."""
    trained, x = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)), torch.randn(64, 4)
    saved = Checkpoint(tmp_path / "run.checkpoint", fingerprint="mine")
    train(trained, lambda rows: (trained(x[rows]) ** 2).mean(), torch.arange(64), OPTIONS, checkpoint=saved)
    fresh = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    saved.resume(fresh, torch.optim.AdamW(fresh.parameters()))
    assert fresh[1].num_batches_tracked == 12
    assert all(torch.equal(value, trained.state_dict()[name]) for name, value in fresh.state_dict().items())


def test_the_fingerprint_is_read_from_the_metadata_only(checkpoint):
    """A tensor that is named like the fingerprint does not make a file a checkpoint of this run."""
    checkpoint.path.write_bytes(save({"mine": torch.zeros(1)}, metadata={"fingerprint": "yours"}))
    assert_refused(checkpoint, "another run")
