"""Recording steps does not change a training: tested on a GPU, and elsewhere with a fake recording."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from pricdr import Ratings
from pricdr.models.pricdr._networks import TwoTowers
from pricdr.models.pricdr._target_stage import TargetStage, TargetStageConfig
from pricdr.training.checkpoints import Checkpoint
from pricdr.training.loop import train
from pricdr.training.options import TrainingOptions
from pricdr.training.recorded import RecordedStep

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


class Tape:
    """A fake recording: it calls the recorded function again."""

    def __init__(self):
        self.again, self.replays = None, 0

    def replay(self):
        self.replays += 1
        self.again()


@pytest.fixture
def tapes(monkeypatch):
    made = []

    def new():
        made.append(Tape())
        return made[-1]

    @contextmanager
    def recording(tape):
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", new)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    monkeypatch.setattr(torch.cuda, "stream", recording)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "default_generators", (Generator(),))
    return made


class Generator:
    """A fake GPU generator, whose state a failed recording restores."""

    def clone_state(self):
        return "before"

    def graphsafe_set_state(self, state):
        self.state = state


def test_steps_are_recorded_and_replayed_except_for_batches_of_another_size(tapes):
    taken = []

    def take_step(batch):
        loss = torch.zeros(())

        def compute():
            taken.append(batch.tolist())
            loss.copy_(batch.sum())

        compute()
        if tapes and tapes[-1].again is None:
            tapes[-1].again = compute
        return loss

    step = RecordedStep(take_step, 2)
    losses = [step(torch.tensor([n, n])) for n in range(6)]
    assert [int(loss) for loss in losses] == [
        0,
        2,
        4,
        6,
        8,
        10,
    ]  # not the same memory
    assert len(tapes) == 1
    assert tapes[0].replays == 3  # after three warm-up steps
    assert int(step(torch.tensor([7]))) == 7
    assert tapes[0].replays == 3
    assert taken[-1] == [7]


def test_a_step_that_cannot_be_recorded_runs_unrecorded(tapes, monkeypatch):
    @contextmanager
    def refuse(tape):
        yield
        raise torch.OutOfMemoryError

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    step = RecordedStep(lambda batch: batch.sum(), 2)
    assert [int(step(torch.tensor([n, n]))) for n in range(6)] == [0, 2, 4, 6, 8, 10]
    assert len(tapes) == 1  # tried once
    assert torch.cuda.default_generators[0].state == "before"


@pytest.fixture
def stage(rng):
    rows, columns = np.nonzero(rng.random((100, 60)) < 0.1)
    ratings = Ratings.from_triples([f"u{r:02d}" for r in rows], [f"i{c:02d}" for c in columns])

    def build():
        config = TargetStageConfig(hidden=8, width=4, other_items=1000)
        return TargetStage(TwoTowers, ratings, config, TrainingOptions(device="cuda"))

    return build


def _trained(stage, epochs, **how):
    options = TrainingOptions(epochs=epochs, batch=16, device="cuda")
    result = train(stage.network, how.pop("step", stage.step), stage.examples, options, **how)
    weights = torch.cat([weights.flatten() for weights in stage.network.state_dict().values()])
    return [epoch.loss for epoch in result.history], weights


@on_a_gpu
def test_a_recorded_training_equals_an_unrecorded_one(stage):
    assert stage().has_fixed_shapes
    losses, weights = _trained(stage(), 6)
    recorded, same = _trained(stage(), 6, fixed_shapes=True)
    assert recorded == losses
    assert torch.equal(same, weights)


@on_a_gpu
def test_a_resumed_recorded_training_ends_with_the_same_weights(stage, tmp_path):
    whole = _trained(stage(), 6, fixed_shapes=True)[1]
    checkpoint = Checkpoint(tmp_path / "run", fingerprint="one")
    _trained(stage(), 3, fixed_shapes=True, checkpoint=checkpoint)
    assert torch.equal(_trained(stage(), 6, fixed_shapes=True, checkpoint=checkpoint)[1], whole)


@on_a_gpu
def test_a_step_that_reads_from_the_gpu_is_not_recorded_but_still_trains(stage):
    before = torch.cuda.current_stream()

    def waits(run):
        def step(batch):
            loss = run.step(batch)
            assert loss.item() > 0
            return loss

        return step

    first, second = stage(), stage()
    losses, weights = _trained(first, 6, step=waits(first))
    same_losses, same = _trained(second, 6, step=waits(second), fixed_shapes=True)
    assert same_losses == losses
    assert torch.equal(same, weights)
    assert torch.cuda.current_stream() == before


@on_a_gpu
def test_training_works_without_memory_for_a_recording(stage):
    losses, weights = _trained(stage(), 6)
    short = stage()

    def step(batch):
        loss = short.step(batch)
        if torch.cuda.is_current_stream_capturing():
            torch.empty(1 << 60, dtype=torch.uint8, device="cuda")
        return loss

    same_losses, same = _trained(short, 6, step=step, fixed_shapes=True)
    assert same_losses == losses
    assert torch.equal(same, weights)
