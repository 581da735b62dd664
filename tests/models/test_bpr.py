import numpy as np
import pytest
import torch

from pricdr.data.ratings import Ratings
from pricdr.errors import ParameterError
from pricdr.models.methods.factorisation import BPR, BPRConfig
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from pricdr.training.run_log import NO_LOG
from tests.models.contracts import TrainedContract

SMALL = BPRConfig(width=8, negatives=2, regularisation=0.001)
QUICK = TrainingOptions(epochs=30, patience=30, batch=32, learning_rate=2e-2, weight_decay=0.0, device="cpu")
METHOD = BPR(config=SMALL, options=QUICK)


class TestContract(TrainedContract):
    fit = staticmethod(lambda p, log=NO_LOG: METHOD.fit(p.target, validation=p.validation, log=log))
    run = staticmethod(lambda p: BPR(config=SMALL, options=QUICK).training_run(p.target))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def test_one_step_of_gradient_descent_is_the_printed_one():
    """P_u += lr (z (Q_i - Q_j) - reg P_u) and so on, with z = sigma(-(s_ui - s_uj)) and the old P_u for both items."""
    rate, reg = 0.1, 0.3
    two = Ratings.from_triples(["a", "b"], ["x", "y"]).select(items=("x", "y", "z"))
    network = BPR(config=BPRConfig(width=2), options=QUICK).training_run(two).network
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

    network.loss(torch.tensor([user]), torch.tensor([[i, j]]), reg).backward()
    torch.optim.SGD(network.parameters(), lr=rate).step()
    found = (network.users, network.items, network.item_bias[:, 0])
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left.detach().numpy(), right, rtol=1e-5)


def test_the_loss_is_the_mean_over_triples():
    users, items = tuple("abc"), tuple("uvwxyz")
    ratings = Ratings.from_triples(list(users), list(items[:3])).select(items=items)
    network = BPR(config=BPRConfig(width=4), options=QUICK).training_run(ratings).network
    users, items = torch.tensor([0, 2]), torch.tensor([[1, 0, 3, 5], [4, 2, 0, 1]])
    single = [network.loss(users[[k]], items[[k]][:, [0, c]], 0.2).item() for k in range(2) for c in (1, 2, 3)]
    assert network.loss(users, items, 0.2).item() == pytest.approx(np.mean(single), rel=1e-5)


def test_negatives_are_drawn_anew_in_every_batch(planted):
    run = BPR(config=SMALL, options=QUICK).training_run(planted.target)
    assert run.step(torch.arange(40)).item() != run.step(torch.arange(40)).item()


def test_users_without_ratings_get_what_suits_everybody(planted):
    model = METHOD.fit(planted.target)
    warm = np.diff(planted.target.matrix.indptr) > 0
    cold = np.flatnonzero(~warm)
    np.testing.assert_allclose(
        model.score(cold), np.tile(model.score(np.flatnonzero(warm)).mean(0), (12, 1)), atol=1e-4
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("width", 0), ("width", 2.5), ("negatives", 0), ("regularisation", -0.1), ("regularisation", float("nan"))],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        BPRConfig(**{name: value})
