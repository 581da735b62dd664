"""The epoch loop: where it stops, what it keeps, and what it reports while it runs."""

import json
from dataclasses import replace
from itertools import count, repeat

import numpy as np
import pytest
import torch
from torch import nn

from pricdr.errors import ParameterError, TrainingError
from pricdr.training import run_log
from pricdr.training.checkpoints import Checkpoint, Checkpoints
from pricdr.training.loop import TrainingOptions, train_network
from pricdr.training.run_log import Epoch, RunLog
from tests.training.runs import ONE_ITEM, Run, line

FAST = TrainingOptions(
    epochs=200, patience=5, patience_steps=1, batch=16, learning_rate=0.1, weight_decay=0.0, device="cpu"
)


def test_training_finds_the_answer_and_logs_every_epoch(tmp_path):
    run = line()
    before = torch.random.get_rng_state()
    state = train_network(run, FAST, log=RunLog(file=tmp_path / "log.jsonl"))
    assert run.network.weight.item() == pytest.approx(3, abs=0.01)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, state.best_epoch + 1))
    assert lines[0]["loss"] > lines[-1]["loss"]
    assert torch.equal(torch.random.get_rng_state(), before)  # the global generator is restored


def test_training_stops_early_and_keeps_the_best_weights():
    run = line([5, 0, 1, 2, 3, 3, 3, 0])
    state = train_network(run, FAST, validation=ONE_ITEM)
    assert (state.best_epoch, state.epoch) == (2, 7)  # the second was the best, then five without an improvement
    second = line()
    train_network(second, replace(FAST, epochs=2))
    assert torch.equal(run.network.weight, second.network.weight)


def test_patience_lasts_a_number_of_steps_however_short_epochs_are():
    slow = replace(FAST, patience=2, patience_steps=40)  # four steps an epoch
    assert train_network(line(repeat(1)), slow, validation=ONE_ITEM).epoch == 1 + 10


def test_validation_sees_the_network_without_dropout_and_steps_see_it_with():
    network, stepped, validated = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5)), [], []
    run = Run(network, lambda rows: stepped.append(network.training) or network(torch.ones(len(rows), 4)).mean())
    run.scorer = lambda: validated.append(network.training) or line([0]).scorer()
    train_network(run, replace(FAST, epochs=3, batch=64), validation=ONE_ITEM)
    assert (stepped, validated) == ([True] * 3, [False] * 3)


@pytest.mark.parametrize(
    ("at", "breaks", "says", "kept"),
    [
        (10, lambda network, loss: loss * float("nan"), r"nan in epoch 3, step 2: try a lower learning rate", 2),
        # The loss is finite before every step; the last step of the epoch itself makes the weight infinite.
        (
            8,
            lambda network, loss: network.weight.register_hook(lambda g: g * float("inf")) and loss,
            "weights are no longer finite after epoch 2",
            1,
        ),
    ],
)
def test_a_training_that_breaks_stops_and_keeps_the_last_good_checkpoint(tmp_path, at, breaks, says, kept):
    run, calls = line(), count(1)
    step = run.step
    run.step = lambda rows: breaks(run.network, step(rows)) if next(calls) == at else step(rows)
    opened = []

    class Kept(Checkpoints):
        def open(self, label, fingerprint):
            opened.append(Checkpoint(tmp_path / "c", fingerprint=fingerprint))
            return opened[0]

    with pytest.raises(TrainingError, match=says):
        train_network(run, FAST, log=RunLog(checkpoints=Kept()))
    fresh = line().network
    assert opened[0].resume(fresh, torch.optim.AdamW(fresh.parameters())).epoch == kept
    assert np.isfinite(fresh.weight.item())


def test_impossible_options_and_devices_are_refused(monkeypatch):
    for wrong in ({"epochs": 0}, {"batch": 0}, {"patience": 0}, {"learning_rate": 0.0}):
        with pytest.raises(ParameterError):
            TrainingOptions(**wrong)
    for device in ("gpu", "cuda:", "cuda:00", "cuda:\u0661", "cuda:-1", "cuda:1000", "cpu\n"):
        with pytest.raises(ParameterError, match="device must be auto, cpu, mps, cuda or cuda:N"):
            TrainingOptions(device=device)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ParameterError, match="device cuda is not available on this machine"):
        TrainingOptions(device="cuda").torch_device()
    assert TrainingOptions(device="auto").torch_device() == torch.device("cpu")


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by a fixed number of seconds each time it is read."""

    def set_to(step: float) -> None:
        readings = count()
        monkeypatch.setattr(run_log.time, "monotonic", lambda: step * next(readings))

    return set_to


def recording():
    seen = []
    return RunLog(progress=lambda *report: seen.append(report)), seen


def test_the_bar_moves_inside_an_epoch_and_repeats_the_figures_of_the_last_one(clock):
    clock(1.0)
    log, seen = recording()
    assert list(log.batches(range(2), 0, 4)) == [0, 1]
    log.record(Epoch(1, 0.5, 0.25, 2.0), 4, best=0.3, best_epoch=1)
    figures = "loss 0.5, validation 0.2500 (best 0.3000 in epoch 1; ends after epoch 4 unless it gets better)"
    list(log.batches(range(2), 1, 4))
    list(replace(log, phase="choosing", network="source").batches(range(1), 0, 4))
    assert seen == [
        ("training", 0.0, 4, "epoch 1, batch 1 of 2"),
        ("training", 0.5, 4, "epoch 1, batch 2 of 2"),
        ("training", 1, 4, figures),
        ("training", 1.5, 4, f"epoch 2, batch 2 of 2, {figures}"),  # the end of the epoch before was just reported
        ("choosing source", 0.0, 4, "epoch 1, batch 1 of 1"),  # of another network: without those figures
    ]


@pytest.mark.parametrize(("step", "expected"), [(0.0001, 1), (0.001, 10), (0.01, 100)])
def test_ten_reports_a_second_are_enough(clock, step, expected):
    clock(step)
    log, seen = recording()
    list(log.batches(range(1000), 0, 4))
    assert seen[0][3] == "epoch 1, batch 1 of 1,000"
    assert abs(len(seen) - expected) <= expected / 10


def test_reports_inside_an_epoch_read_nothing_from_the_device(monkeypatch, clock):
    """Reading a loss stalls a GPU: the number of reads must not depend on the number of batches or reports."""
    clock(1.0)  # a report before every batch
    reads = []
    for name in ("cpu", "item", "tolist", "numpy", "__float__"):
        real = getattr(torch.Tensor, name)

        def counting(self, *arguments, real=real, name=name):
            reads.append(name)
            return real(self, *arguments)

        monkeypatch.setattr(torch.Tensor, name, counting)

    def reads_of(batch: int) -> tuple[int, int]:
        reads.clear()
        log, seen = recording()
        train_network(line(), replace(FAST, epochs=1, batch=batch), log=log)
        return len(reads), len(seen)

    one, many = reads_of(64), reads_of(2)
    assert (one[1], many[1]) == (2, 33)
    assert one[0] == many[0] > 0
