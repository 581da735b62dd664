"""Our own kernels match torch's operations: on a GPU, or in Triton's interpreter (TRITON_INTERPRET=1)."""

import os

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from pricdr import Ratings
from pricdr.models import networks
from pricdr.models.pricdr import _target_stage
from pricdr.models.pricdr._networks import AutoEncoder, TwoTowers
from pricdr.models.pricdr._target_stage import TargetStage, TargetStageConfig
from pricdr.training import accelerated, fused, kernels, sparse_products
from pricdr.training.options import TrainingOptions
from pricdr.training.rows import RowSelection, SparseRows

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

pytestmark = pytest.mark.skipif(
    kernels.triton is None or not (DEVICE.type == "cuda" or INTERPRETED),
    reason="needs Triton, and a GPU or TRITON_INTERPRET=1",
)


@pytest.fixture(autouse=True)
def _kernels_are_used(monkeypatch):
    if INTERPRETED:
        for module in (fused, networks, _target_stage):
            monkeypatch.setattr(module, "kernels_for", lambda device: kernels)
    else:
        assert accelerated.kernels_for(DEVICE) is kernels


@pytest.fixture
def ratings(rng):
    # One item that nearly every user rated: its row is summed in pieces.
    chance = np.where(np.arange(60) == 7, 0.9, 0.05)
    rows, columns = np.nonzero(rng.random((300, 60)) < chance)
    return Ratings.from_triples([f"u{r:03d}" for r in rows], [f"i{c:02d}" for c in columns])


def _dense(bags, shape):
    return torch.zeros(shape, device=DEVICE).index_put_((bags.row_of, bags.columns), bags.weights)


def _close(one, two):
    torch.testing.assert_close(one, two, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("width", [7, 500, 600])
@pytest.mark.parametrize("picked", [False, True])
def test_hidden_units_and_their_gradient(ratings, width, picked):
    rows = SparseRows(ratings.matrix.T.tocsr(), DEVICE)
    kept, numbers = rows.whole.keep(0.3), torch.tensor([9, 7, 3], device=DEVICE)
    matrix = _dense(kept, rows.shape)
    table = torch.randn(rows.shape[1], width, device=DEVICE)
    one, two = table.clone().requires_grad_(), table.clone().requires_grad_()
    wide = sparse_products.hidden_units(kernels, RowSelection(kept, numbers) if picked else kept, one, 0.5)
    units = wide[:, :width]
    assert (wide[:, width] == 1).all()
    assert not wide[:, width + 1 :].any()
    plain = ((matrix[numbers] if picked else matrix) @ two).relu()
    mask = units.detach() > 0
    assert 0.3 < (mask.sum() / (plain > 0).sum()).item() < 0.7
    _close(units, 2 * plain * mask)
    towards = torch.randn_like(plain)
    units.backward(towards)
    (2 * plain * mask).backward(towards)
    _close(one.grad, two.grad)


def test_equal_seeds_drop_equal_units(ratings):
    whole = SparseRows(ratings.matrix, DEVICE).whole
    table = torch.randn(len(ratings.items), 5, device=DEVICE)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(sparse_products.hidden_units(kernels, whole, table, 0.5))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("width", [5, 200])
def test_rows_of_length_one(width):
    rows = torch.randn(37, width, device=DEVICE)
    rows[4] = 0
    one, two = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    unit, plain = fused.unit_rows(one), normalize(two, dim=1)
    _close(unit, plain)
    towards = torch.randn(37, width + 3, device=DEVICE)[:, :width]
    unit.backward(towards)
    plain.backward(towards)
    others = torch.arange(37) != 4
    _close(one.grad[others], two.grad[others])


def test_the_loss_of_all_items(ratings):
    rows = SparseRows(ratings.matrix, DEVICE)
    n, numbers = len(ratings.items), torch.arange(40, 10, -2, device=DEVICE)
    given = [torch.randn(size, device=DEVICE) for size in ((len(numbers), 6), (n, 6), (n,))]
    given[2] -= 12  # nearly all probabilities are tiny
    one, two = ([tensor.clone().requires_grad_() for tensor in given] for _ in range(2))
    loss = fused.all_items_loss(*one, RowSelection(rows.whole, numbers))
    labels = rows.batch(numbers).dense(n)
    plain = binary_cross_entropy_with_logits(two[0] @ two[1].T + two[2], labels, reduction="sum") / len(numbers)
    torch.testing.assert_close(loss, plain, rtol=1e-6, atol=0)
    (3 * loss).backward()
    (3 * plain).backward()
    for left, right in zip(one, two, strict=True):
        _close(left.grad, right.grad)


@pytest.mark.parametrize("kind", [TwoTowers, AutoEncoder])
def test_a_step_has_the_loss_and_the_gradients_of_torch(ratings, kind):
    config = TargetStageConfig(hidden=8, width=4, dropout=0.0, entry_dropout=0.0, other_items=1000)
    grads = []
    for loss_of in (TargetStage.loss_of_all_items, lambda stage, batch: stage.training_pass(batch).loss):
        stage = TargetStage(kind, ratings, config, TrainingOptions(device=DEVICE.type))
        stage.network.train()
        loss = loss_of(stage, torch.arange(0, 200, 3, device=DEVICE))
        loss.backward()
        grads.append([loss.detach(), *(parameter.grad for parameter in stage.network.parameters())])
    for one, two in zip(*grads, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
