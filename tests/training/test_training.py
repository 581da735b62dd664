import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pricdr.errors import ParameterError, TrainingError
from pricdr.training.checkpoints import Checkpoint
from pricdr.training.loop import TrainingOptions, train
from pricdr.training.losses import alignment, mean_cross_entropy, normalised_cross_entropy
from pricdr.training.rows import SparseRows
from pricdr.training.run_log import RunLog

CPU = torch.device("cpu")


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 15))
def test_sparse_batches_equal_the_dense_rows(seed, n, width):
    rng = np.random.default_rng(seed)
    dense = (rng.random((n, width)) < 0.4).astype(float)
    rows = SparseRows(sp.csr_array(dense), CPU)
    chosen = torch.as_tensor(rng.integers(0, n, 7))
    bags = rows.batch(chosen)
    assert np.array_equal(bags.dense(width).numpy(), dense[chosen])
    weights = torch.as_tensor(rng.standard_normal((width, 3)), dtype=torch.float32)
    scaled = dense / np.sqrt(np.maximum(dense.sum(axis=1, keepdims=True), 1))
    np.testing.assert_allclose(bags.times(weights).numpy(), scaled[chosen] @ weights.numpy(), atol=1e-5)


def test_dropping_entries_keeps_expected_sums():
    bags = SparseRows(sp.csr_array(np.ones((4000, 9))), CPU).all()
    torch.random.manual_seed(0)
    assert bags.keep(0.5).weights.sum() == pytest.approx(float(bags.weights.sum()), rel=0.03)
    assert bags.keep(1.0) is bags


def test_alignment_pairs_user_with_user():
    left, right = torch.randn(5, 3), torch.randn(5, 3)
    expected = sum(float(((left[u] - right[u]) ** 2).sum()) for u in range(5))
    assert float(alignment(left, right)) == pytest.approx(expected, rel=1e-5)
    for wrong in (torch.randn(5, 1, 3), torch.randn(1, 3), torch.randn(4, 3)):
        with pytest.raises(ValueError, match="do not pair"):
            alignment(left, wrong)


def test_losses_are_their_formulas():
    scores = torch.tensor([[0.2, -1.0, 3.0]])
    labels = torch.tensor([[1.0, 0.0, 1.0]])
    chance = 1 / (1 + np.exp(-scores.numpy()))
    expected = -(labels.numpy() * np.log(chance) + (1 - labels.numpy()) * np.log(1 - chance)).sum()
    assert float(mean_cross_entropy(scores, labels, torch.ones(3))) == pytest.approx(expected, rel=1e-5)
    cosines = torch.tensor([[0.5, 0.9, 1.0]])
    expected = -(np.log(0.5) + np.log(1 - 0.9) + np.log(1 - 1e-6))
    assert float(normalised_cross_entropy(cosines, labels)) == pytest.approx(expected, rel=1e-3)


def _line(seed=0):
    """A network of one weight, whose optimum is 3."""
    network = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        network.weight.fill_(0.0)
    x = torch.linspace(-1, 1, 64)[:, None]
    return network, (lambda rows: ((network(x[rows]) - 3 * x[rows]) ** 2).mean()), torch.arange(64)


FAST = TrainingOptions(
    epochs=200, patience=5, patience_steps=1, batch=16, learning_rate=0.1, weight_decay=0.0, device="cpu"
)


def test_training_finds_the_answer_and_logs_every_epoch(tmp_path):
    network, step, rows = _line()
    result = train(network, step, rows, FAST, log=RunLog(file=tmp_path / "log.jsonl"))
    assert network.weight.item() == pytest.approx(3, abs=0.01)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, result.epoch + 1))
    assert result.best_epoch == len(lines)
    assert lines[0]["loss"] > lines[-1]["loss"]


def test_training_stops_early_and_keeps_the_best_weights():
    network, step, rows = _line()
    metrics = iter([0.1, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2, 0.9])
    seen = []

    def validate():
        seen.append(network.weight.item())
        return next(metrics)

    result = train(network, step, rows, FAST, validate=validate)
    assert result.best_epoch == 2
    assert result.epoch == 7  # the second was the best, then five without an improvement
    assert network.weight.item() == pytest.approx(seen[1])


def test_patience_lasts_a_number_of_steps_however_short_epochs_are():
    network, step, rows = _line()
    slow = replace(FAST, patience=2, patience_steps=40)  # four steps an epoch
    assert train(network, step, rows, slow, validate=lambda: 0.5).epoch == 1 + 10


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    network, step, rows = _line()
    checkpoint = Checkpoint(tmp_path / "c", fingerprint="x")
    calls = []

    def breaking(batch):
        calls.append(1)
        loss = step(batch)
        return loss * float("nan") if len(calls) == 10 else loss

    with pytest.raises(TrainingError, match=r"nan in epoch 3, step 2: try a lower learning rate"):
        train(network, breaking, rows, FAST, checkpoint=checkpoint)
    fresh, _, _ = _line()
    state = checkpoint.resume(fresh, torch.optim.AdamW(fresh.parameters()))
    assert state.epoch == 2
    assert np.isfinite(fresh.weight.item())


def test_weights_that_become_infinite_in_the_last_step_are_not_kept(tmp_path):
    """The loss is finite before every step; the step itself makes the weight infinite."""
    network, step, rows = _line()
    checkpoint = Checkpoint(tmp_path / "c", fingerprint="x")
    calls = []

    def breaking(batch):
        calls.append(1)
        loss = step(batch)
        if len(calls) == 8:
            network.weight.register_hook(lambda gradient: gradient * float("inf"))
        return loss

    with pytest.raises(TrainingError, match="weights are no longer finite after epoch 2"):
        train(network, breaking, rows, FAST, checkpoint=checkpoint)
    fresh, _, _ = _line()
    assert checkpoint.resume(fresh, torch.optim.AdamW(fresh.parameters())).epoch == 1
    assert np.isfinite(fresh.weight.item())


def test_the_global_generator_is_restored():
    network, step, rows = _line()
    before = torch.random.get_rng_state()
    train(network, step, rows, FAST)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch": 0}, {"patience": 0}, {"learning_rate": 0.0}])
def test_impossible_options_are_refused(wrong):
    with pytest.raises(ParameterError):
        TrainingOptions(**wrong)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:00", "cuda:\u0661", "cuda:-1", "cuda:1000", "cpu\n"])
def test_a_device_that_torch_would_not_understand_is_refused(device):
    with pytest.raises(ParameterError, match="device must be auto, cpu, mps, cuda or cuda:N"):
        TrainingOptions(device=device)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ParameterError, match="device cuda is not available on this machine"):
        TrainingOptions(device="cuda").torch_device()
    assert TrainingOptions(device="auto").torch_device() == CPU
