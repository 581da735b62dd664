import torch

from pricdr.training.pair_scores import pair_scores


def tables():
    torch.manual_seed(0)
    users = torch.randn(7, 4, dtype=torch.double, requires_grad=True)
    items = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    # A user and an item that come twice, a pair that comes twice, and some that never come.
    return users, items, torch.tensor([3, 0, 3, 6]), torch.tensor([[1, 1, 8], [0, 5, 1], [1, 2, 3], [8, 7, 1]])


def test_scores_are_inner_products():
    users, items, who, what = tables()
    assert torch.allclose(pair_scores(users, items, who, what), (users[who][:, None] * items[what]).sum(2))


def test_gradients_are_those_of_the_inner_products():
    users, items, who, what = tables()
    assert torch.autograd.gradcheck(lambda left, right: pair_scores(left, right, who, what), (users, items))


def test_gradients_need_no_contiguous_weights():
    users, items, who, what = tables()
    pair_scores(users, items, who, what)[:, 1:].T.pow(2).sum().backward()
    found = users.grad.clone(), items.grad.clone()
    users.grad = items.grad = None
    (users[who][:, None] * items[what]).sum(2)[:, 1:].T.pow(2).sum().backward()
    assert torch.allclose(found[0], users.grad)
    assert torch.allclose(found[1], items.grad)
