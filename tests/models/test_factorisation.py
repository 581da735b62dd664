"""BPR and NeuMF: the printed formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.data.ratings import Ratings
from pricdr.models.fitted import NOTHING_CHOSEN
from pricdr.models.methods.factorisation import BPR, BPRConfig, NeuMF, NeuMFConfig
from pricdr.models.training_data import TrainingData
from pricdr.training.loop import TrainingOptions
from tests.models.contracts import TrainedContract

QUICK = TrainingOptions(epochs=30, patience=30, batch=32, learning_rate=2e-2, weight_decay=0.0, device="cpu")
BPR_METHOD = BPR(config=BPRConfig(width=8, negatives=2, regularisation=0.001), options=QUICK)
NEUMF_SMALL = NeuMFConfig(product_width=4, width=8, layers=3, dropout=0.1, negatives=3, regularisation=0.001)
NEUMF_METHOD = NeuMF(config=NEUMF_SMALL, options=replace(QUICK, learning_rate=1e-2, weight_decay=1e-3))


class TestBPR(TrainedContract):
    method = BPR_METHOD


class TestNeuMF(TrainedContract):
    method = NEUMF_METHOD


def test_bpr_one_step_of_gradient_descent_is_the_printed_one():
    """P_u += lr (z (Q_i - Q_j) - reg P_u) and so on, with z = sigma(-(s_ui - s_uj)) and the old P_u for both items."""
    rate, reg = 0.1, 0.3
    two = Ratings.from_triples(["a", "b"], ["x", "y"]).select(items=("x", "y", "z"))
    method = BPR(config=BPRConfig(width=2, regularisation=reg), options=QUICK)
    network = method.training_run(TrainingData.of(two))
    P, Q = np.array([[0.5, -1.0], [2.0, 3.0]]), np.array([[1.0, 0.2], [-0.3, 0.8], [4.0, 5.0]])
    b = np.array([0.4, -0.6, 7.0])
    with torch.no_grad():
        for parameter, values in ((network.users, P), (network.items, Q), (network.item_bias, b[:, None])):
            parameter.copy_(torch.as_tensor(values))
    user, i, j = 0, 0, 1
    z = 1 / (1 + np.exp(P[user] @ Q[i] + b[i] - P[user] @ Q[j] - b[j]))
    wanted = P.copy(), Q.copy(), b.copy()
    wanted[0][user] += rate * (z * (Q[i] - Q[j]) - reg * P[user])
    wanted[1][i] += rate * (z * P[user] - reg * Q[i])
    wanted[1][j] += rate * (-z * P[user] - reg * Q[j])
    wanted[2][i] += rate * (z - reg * b[i])
    wanted[2][j] += rate * (-z - reg * b[j])

    network.loss(torch.tensor([user]), torch.tensor([[i, j]])).backward()
    torch.optim.SGD(network.parameters(), lr=rate).step()
    found = (network.users, network.items, network.item_bias[:, 0])
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left.detach().numpy(), right, rtol=1e-5)


def test_bpr_the_loss_is_the_mean_over_triples():
    users, items = tuple("abc"), tuple("uvwxyz")
    ratings = Ratings.from_triples(list(users), list(items[:3])).select(items=items)
    method = BPR(config=BPRConfig(width=4, regularisation=0.2), options=QUICK)
    network = method.training_run(TrainingData.of(ratings))
    users, items = torch.tensor([0, 2]), torch.tensor([[1, 0, 3, 5], [4, 2, 0, 1]])
    single = [network.loss(users[[k]], items[[k]][:, [0, c]]).item() for k in range(2) for c in (1, 2, 3)]
    assert network.loss(users, items).item() == pytest.approx(np.mean(single), rel=1e-5)


@pytest.mark.parametrize("method", [BPR_METHOD, NEUMF_METHOD], ids=lambda method: method.name)
def test_users_without_ratings_are_all_served_alike_by_what_suits_everybody(planted, method):
    model = replace(method, options=replace(QUICK, epochs=3)).fit(planted.target, chosen=NOTHING_CHOSEN)
    warm, cold = np.split(model.score(np.arange(60)), [48])
    np.testing.assert_allclose(cold, np.tile(cold[0], (12, 1)), atol=1e-6)
    if method is BPR_METHOD:  # which has no network over the mean vector
        np.testing.assert_allclose(cold[0], warm.mean(0), atol=1e-4)


@pytest.fixture
def neumf(planted):
    """A training of NeuMF without dropout, not begun yet."""
    config = replace(NEUMF_SMALL, dropout=0.0, regularisation=0.0)
    return NeuMF(config=config, options=QUICK).training_run(TrainingData.of(planted.target))


def arrays(run):
    return {name: parameter.detach().double().numpy() for name, parameter in run.named_parameters()}


def test_neumf_without_the_networks_output_weights_it_is_gmf(neumf):
    with torch.no_grad():
        neumf.mlp_output.weight.zero_()
        neumf.product_output.uniform_(-2, 2)
    a = arrays(neumf)
    gmf = (a["product_users"] * a["product_output"]) @ a["product_items"].T + a["mlp_output.bias"]
    np.testing.assert_allclose(neumf.fitted_model().score(np.arange(48)), gmf[:48], atol=1e-5)


def test_neumf_without_gmfs_output_weights_it_is_a_network_over_both_vectors(neumf):
    """Written out for one pair, as printed: layers over the concatenation [user; item]."""
    with torch.no_grad():
        neumf.product_output.zero_()
    a = arrays(neumf)
    hidden = np.concatenate([a["mlp_users"][3], a["mlp_items"][7]])
    first = np.hstack([a["from_user.weight"], a["from_item.weight"]])
    hidden = np.maximum(first @ hidden + a["from_user.bias"], 0)
    assert len(hidden) == 16
    for layer in range(2):
        hidden = np.maximum(a[f"hidden.{layer}.weight"] @ hidden + a[f"hidden.{layer}.bias"], 0)
    assert len(hidden) == 4
    wanted = a["mlp_output.weight"][0] @ hidden + a["mlp_output.bias"][0]
    assert neumf.fitted_model().score(np.array([3]))[0, 7] == pytest.approx(wanted, abs=1e-6)


def test_neumf_the_loss_is_cross_entropy_of_the_rated_item_and_the_drawn_ones(neumf):
    """And half the regularisation times the squared lengths of the four vectors."""
    users, items = torch.tensor([0]), torch.tensor([[2, 5, 9]])
    chance = 1 / (1 + np.exp(-neumf.fitted_model().score(np.array([0]))[0].astype(float)))
    wanted = -(np.log(chance[2]) + np.log(1 - chance[5]) + np.log(1 - chance[9])) / 3
    assert neumf.loss(users, items).item() == pytest.approx(wanted, rel=1e-5)
    neumf.config = replace(neumf.config, regularisation=0.5)
    a = arrays(neumf)
    lengths = sum((a[f"{kind}_users"][0] ** 2).sum() for kind in ("product", "mlp"))
    lengths += sum((a[f"{kind}_items"][[2, 5, 9]] ** 2).sum() / 3 for kind in ("product", "mlp"))
    assert neumf.loss(users, items).item() == pytest.approx(wanted + 0.25 * lengths, rel=1e-5)
