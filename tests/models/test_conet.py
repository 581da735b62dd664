import numpy as np
import pytest
import torch

from pricdr.data.pairs import DomainPair
from pricdr.errors import ParameterError
from pricdr.models.methods.crossdomain import CoNet, CoNetConfig
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from tests.models.contracts import PlaintextContract

SMALL = CoNetConfig(width=16, dropout=0.0, negatives=3)
QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, weight_decay=1e-2, device="cpu")
METHOD = CoNet(config=SMALL, options=QUICK)
EVERYONE = np.arange(60)


class TestContract(PlaintextContract):
    method = METHOD
    run = staticmethod(lambda p: CoNet(config=SMALL, options=QUICK).training_run(p.domains))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def test_the_layers_are_the_printed_ones(planted):
    """One pair written out: both towers over [user; item], and the same H from either to the other."""
    run = CoNet(config=SMALL, options=QUICK).training_run(planted.domains)
    p = {name: value.detach().double().numpy() for name, value in run.network.named_parameters()}
    user, item = 3, 7
    rated = planted.source.matrix.indices[planted.source.matrix.indptr[user] : planted.source.matrix.indptr[user + 1]]
    a = np.concatenate([p["users"][user], p["source.items"][rated].mean(axis=0)])
    b = np.concatenate([p["users"][user], p["target.items"][item]])
    for layer in ("first", "second"):
        (a, b), h = (a, b), p[f"cross_{layer}"]
        a, b = (
            np.maximum(p[f"{side}.{layer}.weight"] @ own + p[f"{side}.{layer}.bias"] + h @ other, 0)
            for side, own, other in (("source", a, b), ("target", b, a))
        )
    b = np.maximum(p["target.third.weight"] @ b + p["target.third.bias"], 0)
    counts = np.bincount(planted.target.matrix.indices, minlength=40) + 0.5
    wanted = p["target.last.weight"] @ b + p["target.last.bias"] + np.log(counts[item] / counts.mean() / 3)
    assert run.fitted_model().score(np.array([user]))[0, item] == pytest.approx(wanted[0], abs=1e-5)


def test_both_sides_of_an_example_belong_to_one_user(planted):
    """What one user rated in the source changes that user's scores alone: nobody is paired with somebody else."""
    matrix = planted.source.matrix
    others = np.repeat(EVERYONE, np.diff(matrix.indptr)) != 5
    without = DomainPair(planted.source.only(others), planted.target)
    scores = [
        CoNet(config=SMALL, options=QUICK).training_run(pair).fitted_model().score(EVERYONE)
        for pair in (planted.domains, without)
    ]
    changed = np.flatnonzero((scores[0] != scores[1]).any(axis=1))
    assert changed.tolist() == [5]


@pytest.mark.parametrize("name", ["cross_first", "cross_second"])
def test_the_cross_connections_learn_and_matter_at_prediction(planted, name):
    run = CoNet(config=SMALL, options=QUICK).training_run(planted.domains)
    run.network.train()
    # of the target's loss alone: the other side's own loss is no proof
    users = torch.arange(48)
    rated = run.target.batch(users)
    parts = run.network.user_parts(run.network.target, run.network.source, users, run.source.batch(users))
    run._loss(run.network.target, run.target, users, rated, parts).backward()
    cross = getattr(run.network, name)
    assert cross.grad.abs().sum() > 0
    before = run.fitted_model().score(EVERYONE)
    with torch.no_grad():
        cross.zero_()
    assert np.abs(run.fitted_model().score(EVERYONE) - before).max() > 1e-3


def test_sparsity_thins_the_cross_connections(planted):
    def total(sparsity):
        run = CoNet(config=CoNetConfig(width=8, dropout=0.0, sparsity=sparsity), options=QUICK).training_run(
            planted.domains
        )
        optimizer = torch.optim.Adam(run.network.parameters(), lr=1e-2)
        torch.manual_seed(0)
        for _ in range(30):
            optimizer.zero_grad()
            run.step(torch.arange(60)).backward()
            optimizer.step()
        return run.network.cross_first.abs().sum().item()

    assert total(1.0) < total(0.0) / 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("width", 3),
        ("negatives", 0),
        ("dropout", 1.0),
        ("dropout", float("nan")),
        ("source", -1.0),
        ("sparsity", float("inf")),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        CoNetConfig(**{name: value})
