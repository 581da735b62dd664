import torch

from pricdr.training.losses import pair_scores


def tables():
    torch.manual_seed(0)
    users = torch.randn(7, 4, dtype=torch.double, requires_grad=True)
    items = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    bias = torch.randn(9, dtype=torch.double, requires_grad=True)
    # A user, an item and a pair that occur twice, and some that never occur.
    return users, items, bias, torch.tensor([3, 0, 3, 6]), torch.tensor([[1, 1, 8], [0, 5, 1], [1, 2, 3], [8, 7, 1]])


def naive(users, items, bias, who, what):
    return (users[who][:, None] * items[what]).sum(2) + bias[what]


def test_scores_are_inner_products():
    users, items, bias, who, what = tables()
    assert torch.allclose(pair_scores(users, items, bias, who, what), naive(users, items, bias, who, what))


def test_gradients_are_those_of_the_inner_products():
    users, items, bias, who, what = tables()
    assert torch.autograd.gradcheck(lambda *vectors: pair_scores(*vectors, who, what), (users, items, bias))


def test_gradients_need_not_be_contiguous():
    *tensors, who, what = tables()
    gradients, expected = (
        torch.autograd.grad(scores(*tensors, who, what)[:, 1:].T.pow(2).sum(), tensors)
        for scores in (pair_scores, naive)
    )
    for left, right in zip(gradients, expected, strict=True):
        assert torch.allclose(left, right)
