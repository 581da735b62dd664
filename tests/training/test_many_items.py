"""Beyond a million items a step touches only the items it is trained on, and no array is items x hidden units."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pricdr.data.ratings import Ratings
from pricdr.errors import InputError
from pricdr.models import PaperCDR
from pricdr.models.gates import select_newcomers
from pricdr.models.methods import paper
from pricdr.models.methods.dmf import TargetStage, TargetStageConfig, TwoTowers
from pricdr.models.training_data import SourceRows, TrainingData
from pricdr.training import rows as sampling
from pricdr.training.loop import TrainingOptions
from pricdr.training.rows import LISTED, SparseRows, sample_items

CPU = torch.device("cpu")
USERS, ITEMS, PER_USER, HIDDEN, WIDTH = 64, LISTED + 1, 5, 8, 2


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor that any operation allocates; views do not count."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        inputs = {leaf.untyped_storage().data_ptr() for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)}
        for leaf in tree_leaves(result):
            if torch.is_tensor(leaf) and leaf.untyped_storage().data_ptr() not in inputs:
                self.numbers = max(self.numbers, leaf.numel())
        return result


def matrix(users=USERS, items=ITEMS, per_user=PER_USER):
    columns = np.random.default_rng(1).integers(0, items, (users, per_user))
    ratings = sp.csr_array(
        (np.ones(columns.size), (np.repeat(np.arange(users), per_user), columns.ravel())), (users, items)
    )
    ratings.data[:] = 1  # an item may have been drawn twice
    return ratings


@pytest.fixture(scope="module")
def target():
    return Ratings(matrix(), *(tuple(map(str, range(count))) for count in (USERS, ITEMS)))


@pytest.fixture(scope="module")
def stage(target):
    config = TargetStageConfig(hidden=HIDDEN, width=WIDTH, other_items=100)
    return TargetStage(TwoTowers, TrainingData.of(target), config, TrainingOptions(device="cpu"))


def test_a_step_allocates_nothing_of_the_size_of_all_items_and_their_vectors_no_hidden_layer(stage):
    """Nor do the vectors depend on how items are cut into blocks."""
    with Largest() as largest:
        loss = stage.step(torch.arange(USERS))
    assert loss.requires_grad
    assert largest.numbers <= USERS * (USERS * PER_USER + 100)  # a score for each user and sampled item
    with Largest() as largest:
        vectors = stage.item_vectors()
    assert vectors.shape == (ITEMS, WIDTH)
    assert largest.numbers == ITEMS * WIDTH
    some = torch.as_tensor([0, 1, 4095, 4096, ITEMS - 1])
    stage.network.eval()
    with torch.no_grad():
        torch.testing.assert_close(vectors[some], stage.network.items(some, stage.columns.batch(some)))


def test_drawn_items_have_the_distribution_of_listed_ones(monkeypatch):
    """Distinct, not rated by the batch, weighted for all the rest, and uniformly distributed."""
    items, others = 60, 5
    rated = SparseRows(matrix(4, items, 2), CPU).batch(torch.arange(4))
    own = set(rated.columns.tolist())
    monkeypatch.setattr(sampling, "LISTED", 10)
    listed = torch.nonzero
    monkeypatch.setattr(torch, "nonzero", None)  # which listing would need
    torch.manual_seed(0)
    counts = torch.zeros(items)
    for _ in range(1000):
        sample = sample_items(rated, items, others)
        drawn = sample.items[len(own) :].tolist()
        assert len(set(drawn)) == len(drawn) == others
        assert not own & set(drawn)
        assert sample.weights[len(own) :].sum().item() == pytest.approx(items - len(own))
        counts[sample.items[len(own) :]] += 1
    monkeypatch.setattr(torch, "nonzero", listed)
    rest = counts[[item for item in range(items) if item not in own]]
    expected = 1000 * others / len(rest)
    # Chi-squared with about 50 degrees of freedom exceeds 110 about once in a million.
    assert float(((rest - expected) ** 2 / expected).sum()) < 110
    assert counts[sorted(own)].sum() == 0


def test_stand_ins_are_ranked_among_items_they_have_not_rated(monkeypatch):
    ratings = matrix(120, 400, 6)
    ids = tuple(map(str, range(400)))
    inputs = TrainingData(
        Ratings(ratings, ids[:120], ids), np.ones((120, 3), np.float32), (SourceRows(slice(0, 3), np.ones(120, bool)),)
    )
    monkeypatch.setattr(sampling, "LISTED", 10)
    held_out = select_newcomers(inputs, None, seed=1).held_out
    assert len(held_out) >= 24
    assert held_out.negatives.shape[1] == 99
    for user, item, negatives in zip(held_out.users, held_out.items, held_out.negatives, strict=True):
        rated = set(ratings.indices[ratings.indptr[user] : ratings.indptr[user + 1]].tolist())
        assert item in rated
        assert len(set(negatives.tolist())) == 99
        assert not rated & set(negatives.tolist())


def test_the_loss_over_all_items_is_refused_before_it_is_allocated(target, monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "1GB")
    inputs = TrainingData(target, np.ones((USERS, 4), np.float32), (SourceRows(slice(0, 4), np.ones(USERS, bool)),))
    with pytest.raises(InputError, match="the paper's loss over all 1,000,001 items needs about"):
        paper._PaperRun(inputs, PaperCDR(config=paper.PaperConfig(hidden=8, width=4)))
