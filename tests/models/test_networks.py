import pytest
import torch

from pricdr.models.methods.networks import Dropout, SparseTower
from pricdr.training.rows import Bags


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7])
def test_dropout_leaves_out_its_share_and_keeps_the_sum(share):
    torch.manual_seed(0)
    units = torch.ones(300, 301)  # odd: the last draw is not used up
    out = Dropout(share)(units)
    left_out = (out == 0).float().mean().item()
    error = (share * (1 - share) / units.numel()) ** 0.5
    assert abs(left_out - share) < 4 * error
    assert abs(out.mean().item() - 1) < 4 * error / (1 - share)
    assert out.unique().tolist() == pytest.approx([0, 1 / (1 - share)], rel=1e-4)


def test_dropout_draws_every_unit_by_itself():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(4000, 8)) > 0).float()
    correlation = torch.corrcoef(kept.T) - torch.eye(8)
    assert correlation.abs().max().item() < 5 / 4000**0.5


def test_dropout_is_for_training_alone():
    units = torch.randn(3, 5)
    assert torch.equal(Dropout(0.5).eval()(units), units)
    assert torch.equal(Dropout(0.0)(units), units)


def test_gradients_pass_through_what_was_kept():
    units = torch.ones(50, 40, requires_grad=True)
    out = Dropout(0.5)(units)
    out.sum().backward()
    assert torch.equal(units.grad, out.detach())


def test_a_row_that_lost_all_its_entries_is_an_empty_row():
    tower = SparseTower(4, 3, 2, 0.0)
    nothing = Bags(torch.zeros(0, dtype=torch.long), torch.zeros(2, dtype=torch.long), torch.zeros(0), torch.zeros(0))
    assert torch.equal(tower(nothing), tower.rest(torch.zeros(2, 3)))
