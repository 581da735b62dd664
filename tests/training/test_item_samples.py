import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pricdr.training.losses import mean_cross_entropy
from pricdr.training.rows import SparseRows, sample_items

CPU = torch.device("cpu")
N = 40


def batch():
    matrix = sp.csr_array((np.random.default_rng(1).random((6, N)) < 0.1).astype(float))
    return matrix, SparseRows(matrix, CPU).batch(torch.arange(6))


def test_every_rated_item_is_in_the_sample_once_with_weight_one():
    matrix, rated = batch()
    sample = sample_items(rated, N, 5)
    own = len(set(matrix.indices.tolist()))
    assert sorted(sample.items[:own].tolist()) == sorted(set(matrix.indices.tolist()))
    assert len(set(sample.items.tolist())) == len(sample.items) == own + 5
    assert sample.weights[:own].tolist() == [1.0] * own
    # The five others stand for all unrated items.
    assert sample.weights[own:].sum().item() == pytest.approx(N - own)


def test_labels_mark_rated_items():
    matrix, rated = batch()
    sample = sample_items(rated, N, 7)
    assert torch.equal(sample.labels, torch.as_tensor(matrix.toarray()).float()[:, sample.items])


@pytest.mark.parametrize("others", [N, 10**9])
def test_a_large_enough_sample_is_all_items(others):
    matrix, rated = batch()
    sample = sample_items(rated, N, others)
    assert sorted(sample.items.tolist()) == list(range(N))
    assert sample.weights.unique().tolist() == [1.0]
    assert sample.labels.sum().item() == matrix.nnz


def test_a_batch_that_rated_every_item_needs_no_others():
    rated = SparseRows(sp.csr_array([[1.0, 1.0, 1.0]]), CPU).batch(torch.arange(1))
    sample = sample_items(rated, 3, 4)
    assert sample.items.tolist() == [0, 1, 2]
    assert sample.weights.tolist() == [1.0, 1.0, 1.0]


def test_the_expected_loss_is_that_of_all_items():
    matrix, rated = batch()
    torch.manual_seed(0)
    logits = torch.randn(6, N)
    exact = mean_cross_entropy(logits, torch.as_tensor(matrix.toarray()).float(), torch.ones(N)).item()
    losses = []
    for _ in range(2000):
        items, labels, weights = sample_items(rated, N, 4)
        losses.append(mean_cross_entropy(logits[:, items], labels, weights).item())
    spread = torch.tensor(losses)
    error = (spread.std() / len(losses) ** 0.5).item()
    assert error < 0.02 * exact
    assert abs(spread.mean().item() - exact) < 4 * error
