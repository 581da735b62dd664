from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.errors import ParameterError
from pricdr.models.methods.crossdomain import DDTCDR, DDTCDRConfig
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from tests.models.contracts import PlaintextContract, trained

SMALL = DDTCDRConfig(width=8, hidden=16, dropout=0.0, entry_dropout=0.2, negatives=3, hide=0.3)
QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, device="cpu")
METHOD = DDTCDR(config=SMALL, options=QUICK)
EVERYONE = np.arange(60)


class TestContract(PlaintextContract):
    method = METHOD
    run = staticmethod(lambda p: DDTCDR(config=SMALL, options=QUICK).training_run(p.domains))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def trained_with(planted, **changed):
    return trained(DDTCDR(config=replace(SMALL, **changed), options=QUICK).training_run(planted.domains), QUICK)


def test_the_map_is_learnt_and_stays_orthogonal(planted):
    before, after = (
        run.network.rotation().detach()
        for run in (DDTCDR(config=SMALL, options=QUICK).training_run(planted.domains), trained_with(planted))
    )
    assert (after - before).abs().max() > 0.1
    assert (after @ after.T - torch.eye(8)).abs().max() < 1e-5


@pytest.mark.parametrize("hide", [0.0, 0.3])
def test_the_gradient_goes_through_the_map(planted, hide):
    """Through the other network's share of the loss too, which the public code cuts off."""
    run = DDTCDR(config=replace(SMALL, hide=hide), options=QUICK).training_run(planted.domains)
    run.step(torch.arange(60)).backward()
    assert run.network.skew.grad.abs().max() > 1e-6


def test_the_score_is_the_printed_mixture(planted):
    """(1 − α) B(u, i) + α A(Xᵀ u, i), both networks written out; a cold user's u is X times its source vector."""
    run = DDTCDR(config=replace(SMALL, share=0.3), options=QUICK).training_run(planted.domains)
    run.network.eval()
    scores = run.fitted_model().score(EVERYONE)
    network, log_odds = run.network, run.target.log_odds
    with torch.no_grad():
        rotation = network.rotation()
        item = network.target.items(run.target.columns)[7]
        own, lent = (
            side.users(domain.batch(torch.arange(60)))
            for side, domain in ((network.target, run.target), (network.source, run.source))
        )
        for user, vector in ((3, own[3]), (59, rotation.T @ lent[59])):
            outputs = [
                side.last(torch.relu(side.second(torch.relu(side.first(torch.cat([given, item]))))))
                for side, given in ((network.target, vector), (network.source, rotation @ vector))
            ]
            wanted = 0.7 * outputs[0] + 0.3 * outputs[1] + log_odds[7]
            assert scores[user, 7] == pytest.approx(wanted.item(), abs=1e-5)


def test_dropout_is_off_at_prediction(planted):
    run = DDTCDR(config=replace(SMALL, dropout=0.5), options=QUICK).training_run(planted.domains)
    run.network.eval()
    assert np.array_equal(run.fitted_model().score(EVERYONE), run.fitted_model().score(EVERYONE))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("hidden", 1),
        ("negatives", 0),
        ("share", 1.0),
        ("share", -0.1),
        ("hide", 1.0),
        ("dropout", float("nan")),
        ("entry_dropout", 1.0),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        DDTCDRConfig(**{name: value})
