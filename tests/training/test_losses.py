"""Losses and scores are their formulas."""

import numpy as np
import pytest
import torch

from pricdr.training.losses import alignment, mean_cross_entropy, normalised_cross_entropy, pair_scores


def test_alignment_pairs_user_with_user():
    left, right = torch.randn(5, 3), torch.randn(5, 3)
    expected = sum(float(((left[u] - right[u]) ** 2).sum()) for u in range(5))
    assert float(alignment(left, right)) == pytest.approx(expected, rel=1e-5)
    for wrong in (torch.randn(5, 1, 3), torch.randn(1, 3), torch.randn(4, 3)):
        with pytest.raises(ValueError, match="do not pair"):
            alignment(left, wrong)


def test_losses_are_their_formulas():
    scores = torch.tensor([[0.2, -1.0, 3.0]])
    labels = torch.tensor([[1.0, 0.0, 1.0]])
    chance = 1 / (1 + np.exp(-scores.numpy()))
    expected = -(labels.numpy() * np.log(chance) + (1 - labels.numpy()) * np.log(1 - chance)).sum()
    assert float(mean_cross_entropy(scores, labels, torch.ones(3))) == pytest.approx(expected, rel=1e-5)
    cosines = torch.tensor([[0.5, 0.9, 1.0]])
    expected = -(np.log(0.5) + np.log(1 - 0.9) + np.log(1 - 1e-6))
    assert float(normalised_cross_entropy(cosines, labels)) == pytest.approx(expected, rel=1e-3)


def tables():
    torch.manual_seed(0)
    users, items, bias = (
        torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in ((7, 4), (9, 4), (9,))
    )
    # A user, an item and a pair that occur twice, and some that never occur.
    return users, items, bias, torch.tensor([3, 0, 3, 6]), torch.tensor([[1, 1, 8], [0, 5, 1], [1, 2, 3], [8, 7, 1]])


def naive(users, items, bias, who, what):
    return (users[who][:, None] * items[what]).sum(2) + bias[what]


def test_pair_scores_and_their_gradients_are_those_of_inner_products():
    """Also where the gradient is not contiguous."""
    *tensors, who, what = tables()
    assert torch.allclose(pair_scores(*tensors, who, what), naive(*tensors, who, what))
    assert torch.autograd.gradcheck(lambda *vectors: pair_scores(*vectors, who, what), tensors)
    gradients, expected = (
        torch.autograd.grad(scores(*tensors, who, what)[:, 1:].T.pow(2).sum(), tensors)
        for scores in (pair_scores, naive)
    )
    assert all(torch.allclose(left, right) for left, right in zip(gradients, expected, strict=True))
