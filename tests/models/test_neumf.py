import numpy as np
import pytest
import torch

from pricdr.errors import ParameterError
from pricdr.models.methods.factorisation import NeuMF, NeuMFConfig
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from pricdr.training.run_log import NO_LOG
from tests.models.contracts import TrainedContract

SMALL = NeuMFConfig(product_width=4, width=8, layers=3, dropout=0.1, negatives=3, regularisation=0.001)
QUICK = TrainingOptions(epochs=30, patience=30, batch=32, learning_rate=1e-2, weight_decay=1e-3, device="cpu")
METHOD = NeuMF(config=SMALL, options=QUICK)


class TestContract(TrainedContract):
    fit = staticmethod(lambda p, log=NO_LOG: METHOD.fit(p.target, validation=p.validation, log=log))
    run = staticmethod(lambda p: NeuMF(config=SMALL, options=QUICK).training_run(p.target))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def arrays(run):
    return {name: parameter.detach().double().numpy() for name, parameter in run.network.named_parameters()}


def test_without_the_networks_output_weights_it_is_gmf(planted):
    run = NeuMF(config=SMALL, options=QUICK).training_run(planted.target)
    with torch.no_grad():
        run.network.mlp_output.weight.zero_()
        run.network.product_output.uniform_(-2, 2)
    a = arrays(run)
    gmf = (a["product_users"] * a["product_output"]) @ a["product_items"].T + a["mlp_output.bias"]
    np.testing.assert_allclose(run.fitted_model().score(np.arange(48)), gmf[:48], atol=1e-5)


def test_without_gmfs_output_weights_it_is_a_network_over_both_vectors(planted):
    """Written out for one pair, as printed: layers over the concatenation [user; item]."""
    run = NeuMF(config=SMALL, options=QUICK).training_run(planted.target)
    with torch.no_grad():
        run.network.product_output.zero_()
    a = arrays(run)
    hidden = np.concatenate([a["mlp_users"][3], a["mlp_items"][7]])
    first = np.hstack([a["from_user.weight"], a["from_item.weight"]])
    hidden = np.maximum(first @ hidden + a["from_user.bias"], 0)
    assert len(hidden) == 16
    for layer in range(2):
        hidden = np.maximum(a[f"hidden.{layer}.weight"] @ hidden + a[f"hidden.{layer}.bias"], 0)
    assert len(hidden) == 4
    wanted = a["mlp_output.weight"][0] @ hidden + a["mlp_output.bias"][0]
    assert run.fitted_model().score(np.array([3]))[0, 7] == pytest.approx(wanted, abs=1e-6)


def test_the_loss_is_cross_entropy_of_the_rated_item_and_the_drawn_ones(planted, monkeypatch):
    config = NeuMFConfig(product_width=4, width=8, dropout=0.0, negatives=2, regularisation=0.0)
    run = NeuMF(config=config, options=QUICK).training_run(planted.target)
    drawn = torch.tensor([[5, 9]])
    monkeypatch.setattr(run.negatives, "draw", lambda users, count: drawn[:, :count])
    scores = run.fitted_model().score(run.user_of[:1].numpy())[0].astype(float)
    chance = 1 / (1 + np.exp(-scores))
    wanted = -(np.log(chance[run.item_of[0]]) + np.log(1 - chance[5]) + np.log(1 - chance[9])) / 3
    assert run.step(torch.tensor([0])).item() == pytest.approx(wanted, rel=1e-5)
    lengths = NeuMF(
        config=NeuMFConfig(product_width=4, width=8, dropout=0.0, regularisation=2.0), options=QUICK
    ).training_run(planted.target)
    assert lengths.step(torch.tensor([0])).item() > wanted


def test_users_without_ratings_are_all_served_alike(planted):
    scores = METHOD.fit(planted.target).score(np.arange(48, 60))
    np.testing.assert_allclose(scores, np.tile(scores[0], (12, 1)), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("product_width", 0),
        ("width", 0),
        ("layers", 0),
        ("layers", 8),
        ("negatives", 0),
        ("dropout", 1.0),
        ("dropout", float("nan")),
        ("regularisation", -1.0),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        NeuMFConfig(**{name: value})
