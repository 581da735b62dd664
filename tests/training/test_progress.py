"""Progress inside an epoch: reported before the first batch, and at most ten times a second."""

from itertools import count

import pytest
import torch
from torch import nn

from pricdr.training import run_log
from pricdr.training.loop import TrainingOptions, train
from pricdr.training.run_log import Epoch, RunLog


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by a fixed number of seconds each time it is read."""

    def set_to(step: float) -> None:
        readings = count()
        monkeypatch.setattr(run_log.time, "monotonic", lambda: step * next(readings))

    return set_to


def reports(log_of, batches: int, epoch: int, epochs: int = 4):
    seen = []
    log = log_of(lambda *report: seen.append(report))
    assert list(log.batches(range(batches), epoch, epochs)) == list(range(batches))
    return seen


def test_the_bar_moves_inside_an_epoch_and_says_which_batch(clock):
    clock(1.0)
    assert reports(lambda progress: RunLog(progress=progress), 4, epoch=0) == [
        ("training", 0.0, 4, "epoch 1, batch 1 of 4"),
        ("training", 0.25, 4, "epoch 1, batch 2 of 4"),
        ("training", 0.5, 4, "epoch 1, batch 3 of 4"),
        ("training", 0.75, 4, "epoch 1, batch 4 of 4"),
    ]
    # the end of the previous epoch has just been reported
    assert [done for _, done, *_ in reports(lambda progress: RunLog(progress=progress), 4, epoch=2)] == [
        2.25,
        2.5,
        2.75,
    ]


@pytest.mark.parametrize(("step", "expected"), [(0.0001, 1), (0.001, 10), (0.01, 100)])
def test_ten_reports_a_second_are_enough(clock, step, expected):
    clock(step)
    seen = reports(lambda progress: RunLog(progress=progress), 1000, epoch=0)
    assert seen[0][3] == "epoch 1, batch 1 of 1,000"
    assert abs(len(seen) - expected) <= expected / 10


def test_networks_and_phases_share_the_report_interval(clock):
    clock(0.001)
    seen = []
    log = RunLog(progress=lambda *report: seen.append(report))
    for network in ("target", "source"):
        list(log.in_phase("choosing").of_network(network).batches(range(50), 0, 4))
    assert [what for what, *_ in seen] == ["choosing target", "choosing source"]  # each reports that it has started


def test_the_figures_of_the_last_epoch_are_repeated_for_the_same_network_only(clock):
    clock(1.0)
    seen = []
    log = RunLog(progress=lambda *report: seen.append(report))
    log.record(Epoch(1, 0.5, 0.25, 2.0), 4, best=0.3, best_epoch=1)
    list(log.batches(range(2), 1, 4))
    list(log.of_network("source").batches(range(1), 0, 4))
    assert [note for *_, note in seen[1:]] == [
        "epoch 2, batch 2 of 2, loss 0.5, validation 0.2500 (best 0.3000 in epoch 1; ends after epoch 4 unless it "
        "gets better)",
        "epoch 1, batch 1 of 1",
    ]


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
        network, x, seen = nn.Linear(4, 1), torch.ones(64, 4), []
        log = RunLog(progress=lambda *report: seen.append(report))
        options = TrainingOptions(epochs=1, batch=batch, device="cpu")
        train(network, lambda rows: network(x[rows]).mean(), torch.arange(64), options, log=log)
        return len(reads), len(seen)

    assert reads_of(64)[1] == 2  # one batch, one epoch
    assert reads_of(2)[1] == 33
    assert reads_of(64)[0] == reads_of(2)[0] > 0
