"""Batches of sparse rows, and samples of items: of the distribution and the weight of all of them."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings, strategies as st

from pricdr.training import rows as sampling
from pricdr.training.losses import mean_cross_entropy
from pricdr.training.rows import SparseRows, sample_items

CPU = torch.device("cpu")
N = 40


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


def batch():
    matrix = sp.csr_array((np.random.default_rng(1).random((6, N)) < 0.1).astype(float))
    return matrix, SparseRows(matrix, CPU).batch(torch.arange(6))


@pytest.mark.parametrize("others", [5, N, 10**9])
def test_every_rated_item_is_in_the_sample_once_and_the_others_stand_for_all_the_rest(others):
    matrix, rated = batch()
    sample = sample_items(rated, N, others)
    own = sorted(set(matrix.indices.tolist()))
    assert sorted(sample.items[: len(own)].tolist()) == own
    assert len(set(sample.items.tolist())) == len(sample.items) == min(len(own) + others, N)
    assert sample.weights[: len(own)].tolist() == [1.0] * len(own)
    assert sample.weights.sum().item() == pytest.approx(N)
    assert torch.equal(sample.labels, torch.as_tensor(matrix.toarray()).float()[:, sample.items])


@pytest.mark.parametrize("listed", [10, 2])
def test_a_batch_that_rated_nearly_every_item_is_trained_on_all_of_them(monkeypatch, listed):
    monkeypatch.setattr(sampling, "LISTED", listed)
    for row in ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0]):
        sample = sample_items(SparseRows(sp.csr_array([row]), CPU).batch(torch.arange(1)), len(row), 10)
        assert sample.items.tolist() == list(range(len(row)))
        assert sample.weights.unique().tolist() == [1.0]


def test_the_expected_loss_is_that_of_all_items():
    matrix, rated = batch()
    torch.manual_seed(0)
    logits = torch.randn(6, N)
    exact = mean_cross_entropy(logits, torch.as_tensor(matrix.toarray()).float(), torch.ones(N)).item()
    losses = []
    for _ in range(1000):
        items, labels, weights = sample_items(rated, N, 4)
        losses.append(mean_cross_entropy(logits[:, items], labels, weights).item())
    spread = torch.tensor(losses)
    error = (spread.std() / len(losses) ** 0.5).item()
    assert error < 0.03 * exact
    assert abs(spread.mean().item() - exact) < 4 * error
