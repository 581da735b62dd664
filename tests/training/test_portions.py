"""Portions of a batch: the draws of a portion are those that a single process makes for the same rows."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from pricdr import synthetic_pair
from pricdr.data.synthetic import SyntheticConfig
from pricdr.models.inputs import Inputs
from pricdr.models.networks import Dropout
from pricdr.models.pricdr import _source_stage
from pricdr.models.pricdr._networks import TwoTowers
from pricdr.models.pricdr._source_stage import SourceStage, SourceStageConfig
from pricdr.models.pricdr._target_stage import TargetStage
from pricdr.training.distributed import Processes
from pricdr.training.options import TrainingOptions
from pricdr.training.portions import Portion, drawing_for
from pricdr.training.rows import SparseRows

CPU = torch.device("cpu")


@pytest.mark.parametrize("whole", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_portions_cover_all_rows_once_and_are_nearly_equal(whole, count):
    portions = [Processes(rank, count).portion(whole) for rank in range(count)]
    assert [row for portion in portions for row in range(whole)[portion.own]] == list(range(whole))
    sizes = [len(range(whole)[portion.own]) for portion in portions]
    assert max(sizes) - min(sizes) <= 1
    assert all(
        portion.is_all == (count == 1 or whole == len(range(whole)[portion.own])) for portion in portions if whole
    )


def test_a_portion_drops_the_same_entries_as_the_whole_batch():
    matrix = sp.csr_array((np.random.default_rng(2).random((30, 50)) < 0.3).astype(float))
    rows, batch = SparseRows(matrix, CPU), torch.randperm(30, generator=torch.Generator().manual_seed(0))[:11]
    torch.manual_seed(5)
    whole, after = rows.batch(batch).keep(0.4), torch.rand(1)
    for rank in range(3):
        portion = Processes(rank, 3).portion(11)
        torch.manual_seed(5)
        part = rows.portion(batch, portion).keep(0.4)
        assert torch.equal(torch.rand(1), after)  # the generator has advanced as far as in one process
        assert torch.equal(part.dense(50), whole.dense(50)[portion.own])
        assert part.weights.sum() == pytest.approx(
            float(whole.weights[(whole.row_of >= portion.own.start) & (whole.row_of < portion.own.stop)].sum()),
            rel=1e-6,
        )


def test_a_portion_drops_the_same_units_as_the_whole_batch():
    dropout, units = Dropout(0.3), torch.ones(9, 5)
    torch.manual_seed(7)
    whole, after = dropout(units), torch.rand(1)
    for rank in range(2):
        portion = Processes(rank, 2).portion(9)
        torch.manual_seed(7)
        with drawing_for(portion):
            assert torch.equal(dropout(units[portion.own]), whole[portion.own])
        assert torch.equal(torch.rand(1), after)
    torch.manual_seed(7)
    assert torch.equal(dropout(units), whole)  # outside of the block nothing has changed


def test_a_portion_of_all_rows_draws_like_a_single_process():
    with drawing_for(Portion(slice(0, 4), 4)):
        torch.manual_seed(1)
        inside = Dropout(0.5)(torch.ones(4, 4))
    torch.manual_seed(1)
    assert torch.equal(Dropout(0.5)(torch.ones(4, 4)), inside)


@pytest.mark.parametrize("plaintext", [False, True])
def test_losses_and_gradients_of_portions_add_up_to_those_of_the_batch(monkeypatch, plaintext):
    pair = synthetic_pair(SyntheticConfig(users=40, source_items=120, target_items=60))
    options = TrainingOptions(device="cpu", seed=3)
    config = SourceStageConfig(hidden=8, width=4, other_items=20, alignment=0.5, reconstruction=0.5)
    target = TargetStage(TwoTowers, pair.target, config, options)
    rows = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    source = pair.source.matrix if plaintext else rows
    stage = SourceStage(
        target, Inputs(pair.users, pair.target.items, pair.target.matrix, source, np.ones(40, bool)), config
    )
    stage.network.train()
    batch = torch.arange(7)  # the portions of three processes differ in size

    def loss_and_gradients(among: Processes) -> tuple[float, list[torch.Tensor]]:
        monkeypatch.setattr(_source_stage, "processes", lambda: among)
        torch.manual_seed(11)
        loss = stage.step(batch)
        return loss.item(), list(torch.autograd.grad(loss, list(stage.network.parameters())))

    loss, gradients = loss_and_gradients(Processes())
    parts = [loss_and_gradients(Processes(rank, 3)) for rank in range(3)]
    assert sum(part for part, _ in parts) == pytest.approx(loss, rel=1e-5)
    for whole, *portions in zip(gradients, *(gradients for _, gradients in parts), strict=True):
        torch.testing.assert_close(sum(portions), whole, rtol=1e-4, atol=1e-6)
        assert not torch.allclose(portions[0], whole)
