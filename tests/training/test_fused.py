"""Fused operations have the values and the gradients of their plain form."""

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, embedding_bag, normalize

from pricdr import Ratings
from pricdr.models.pricdr._networks import AutoEncoder, TwoTowers
from pricdr.models.pricdr._target_stage import TargetStage, TargetStageConfig
from pricdr.training.fused import all_items_loss, dropped_relu, unit_rows
from pricdr.training.options import TrainingOptions
from pricdr.training.rows import SparseRows
from pricdr.training.sparse_products import weighted_sums


@pytest.fixture
def ratings(rng):
    rows, columns = np.nonzero(rng.random((40, 60)) < 0.15)
    return Ratings.from_triples([f"u{r:02d}" for r in rows], [f"i{c:02d}" for c in columns])


@pytest.fixture
def rows(ratings):
    return SparseRows(ratings.matrix, torch.device("cpu"))


def _twice(*tensors):
    return [[tensor.clone().requires_grad_() for tensor in tensors] for _ in range(2)]


def _close(left, right):
    for one, two in zip(left, right, strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chance", [1.0, 0.3])
def test_a_sparse_product_is_an_embedding_bag(rows, chance):
    bags = rows.whole.keep(chance)
    (one,), (two,) = _twice(torch.randn(rows.shape[1], 7))
    product = weighted_sums(bags, one)
    plain = embedding_bag(bags.columns, two, bags.offsets, mode="sum", per_sample_weights=bags.weights)
    torch.testing.assert_close(product, plain)
    towards = torch.randn_like(product)
    product.backward(towards)
    plain.backward(towards)
    _close([one], [two])


def test_entries_by_column_are_those_by_row(rows):
    whole = rows.whole
    by_column = whole.transposed(rows.shape[1])
    dense = torch.zeros(rows.shape).index_put_((whole.row_of, whole.columns), whole.weights)
    again = torch.zeros(rows.shape).index_put_((by_column.columns, by_column.row_of), by_column.weights)
    assert torch.equal(dense, again)
    counts = torch.diff(by_column.offsets, append=torch.tensor([len(whole.columns)]))
    assert torch.equal(counts, torch.bincount(whole.columns, minlength=rows.shape[1]))


def test_dropped_entries_have_weight_zero_and_the_rest_is_scaled_up(rows):
    kept = rows.whole.keep(0.25)
    left = kept.weights > 0
    assert 0.1 < left.float().mean() < 0.45
    torch.testing.assert_close(kept.weights[left], 4 * rows.whole.weights[left])


def test_the_loss_of_all_items_is_their_cross_entropy(rows):
    rated = rows.batch(torch.arange(12))
    one, two = _twice(torch.randn(12, 5), torch.randn(rows.shape[1], 5), torch.randn(rows.shape[1]))
    fused = all_items_loss(*one, rated)
    logits = two[0] @ two[1].T + two[2]
    plain = binary_cross_entropy_with_logits(logits, rated.dense(rows.shape[1]), reduction="sum") / 12
    torch.testing.assert_close(fused, plain)
    (3 * fused).backward()
    (3 * plain).backward()
    _close(one, two)


def test_rows_of_length_one_have_the_gradient_of_their_definition():
    (one,), (two,) = _twice(torch.randn(9, 4))
    torch.testing.assert_close(unit_rows(one), normalize(two, dim=1))
    towards = torch.randn(9, 4)
    unit_rows(one).backward(towards)
    normalize(two, dim=1).backward(towards)
    _close([one], [two])
    assert not unit_rows(torch.zeros(2, 3)).any()


def test_negative_and_dropped_units_have_no_gradient():
    units = torch.randn(200, 50, requires_grad=True)
    out = dropped_relu(units, 0.5)
    out.backward(torch.ones_like(out))
    assert torch.equal(units.grad, 2.0 * (out > 0))
    assert 0.2 < (out > 0).float().mean() < 0.3
    torch.testing.assert_close(out[out > 0], 2 * units.detach()[out > 0])


@pytest.mark.parametrize("kind", [TwoTowers, AutoEncoder])
def test_training_on_all_items_equals_a_sample_of_all_items(ratings, kind):
    config = TargetStageConfig(hidden=8, width=4, dropout=0.0, entry_dropout=0.0, other_items=1000)
    grads = []
    for loss_of in (TargetStage.step, TargetStage.loss_of_all_items):
        stage = TargetStage(kind, ratings, config, TrainingOptions(device="cpu"))
        stage.network.train()
        loss = loss_of(stage, torch.arange(16))
        loss.backward()
        grads.append([loss.item(), *(parameter.grad for parameter in stage.network.parameters())])
    assert grads[0][0] == pytest.approx(grads[1][0], rel=1e-5)
    for one, two in zip(grads[0][1:], grads[1][1:], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
