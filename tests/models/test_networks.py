import pytest
import torch

from pricdr.models.methods.networks import Dropout, SparseTower
from pricdr.training.rows import Bags


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7])
def test_dropout_leaves_out_its_share_unit_by_unit_keeps_the_sum_and_is_for_training_alone(share):
    torch.manual_seed(0)
    units = torch.ones(9001, 9)  # odd: the last draw is not used up
    out = Dropout(share)(units)
    error = (share * (1 - share) / units.numel()) ** 0.5
    assert abs((out == 0).float().mean().item() - share) < 4 * error
    assert abs(out.mean().item() - 1) < 4 * error / (1 - share)
    assert out.unique().tolist() == pytest.approx([0, 1 / (1 - share)], rel=1e-4)
    assert (torch.corrcoef((out > 0).float().T) - torch.eye(9)).abs().max().item() < 5 / 9001**0.5
    assert torch.equal(Dropout(share).eval()(units), units)
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
