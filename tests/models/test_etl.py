from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.errors import ParameterError
from pricdr.models.methods.crossdomain import ETL, ETLConfig
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from tests.models.contracts import PlaintextContract, trained

SMALL = ETLConfig(width=16, entry_dropout=0.2, dropout=0.5, source=1.0)
QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, device="cpu")
METHOD = ETL(config=SMALL, options=QUICK)
EVERYONE = np.arange(60)


class TestContract(PlaintextContract):
    method = METHOD
    run = staticmethod(lambda p: ETL(config=SMALL, options=QUICK).training_run(p.domains))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def trained_with(planted, **changed):
    return trained(ETL(config=replace(SMALL, **changed), options=QUICK).training_run(planted.domains), QUICK)


@torch.no_grad()
def astray(run):
    """How far z W Wᵀ and z Wᵀ W end from z, relative to z."""
    users, w = torch.arange(48), run.network.transform
    code_a = torch.relu(run.network.features(run.network.source, run.source.batch(users), users))
    code_b = torch.relu(run.network.features(run.network.target, run.target.batch(users), users))
    back = ((code_a, code_a @ w @ w.T), (code_b, code_b @ w.T @ w))
    return max(((code - again).abs().sum() / code.abs().sum()).item() for code, again in back)


def test_the_transform_leads_there_and_back(planted):
    run = trained_with(planted)
    assert astray(run) < 0.15
    assert astray(ETL(config=SMALL, options=QUICK).training_run(planted.domains)) > 0.5
    assert astray(trained_with(planted, equivalence=0.0)) > 0.5


def test_the_discriminators_and_the_encoders_pull_against_each_other(planted):
    """Down the same gradient the discriminator gets better and the encoder makes it worse."""
    run = ETL(config=SMALL, options=QUICK).training_run(planted.domains)
    run.network.eval()
    users, side = torch.arange(48), run.network.target

    def discriminator_error():
        features = run.network.features(side, run.target.batch(users), users)
        torch.manual_seed(0)
        drawn = side.discriminator.errors(torch.randn_like(features), first=True, strength=0.0)
        return (drawn + side.discriminator.errors(features, first=False, strength=SMALL.adversarial)).mean()

    before = discriminator_error()
    before.backward()
    for module, better in ((side.discriminator, True), (side.encoder, False)):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.01 * parameter.grad
            assert (discriminator_error() < before) == better
            for parameter in module.parameters():
                parameter += 0.01 * parameter.grad


def test_warm_users_are_reconstructed_and_cold_ones_transformed(planted):
    run = trained_with(planted)
    scores = run.fitted_model().score(EVERYONE)
    network, users = run.network, torch.arange(60)
    with torch.no_grad():
        code_a = torch.relu(network.features(network.source, run.source.batch(users), users))
        code_b = torch.relu(network.features(network.target, run.target.batch(users), users))
        np.testing.assert_allclose(scores[:48], network.target.decode(code_b)[:48], atol=1e-4)
        np.testing.assert_allclose(scores[48:], network.target.decode(code_a @ network.transform)[48:], atol=1e-4)


def test_a_domain_without_ratings_of_a_user_teaches_nothing(planted):
    """A cold user's empty target row is no row of zeros: nothing that only the target reads learns from it."""
    run = ETL(config=SMALL, options=QUICK).training_run(planted.domains)
    run.step(torch.arange(48, 60)).backward()
    side = run.network.target
    for parameter in (*side.encoder.parameters(), *side.hidden.parameters(), *side.last.parameters()):
        assert parameter.grad.abs().sum() == 0
    assert run.network.source.last.weight.grad.abs().sum() > 0


def test_the_weight_is_on_what_is_restored_of_the_source(planted):
    """At 0 its decoder learns nothing, its encoder still does: it leads to the target."""
    run = ETL(config=replace(SMALL, source=0.0), options=QUICK).training_run(planted.domains)
    run.step(torch.arange(48)).backward()
    side = run.network.source
    assert side.last.weight.grad.abs().sum() == 0
    assert side.encoder.first.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("width", 1),
        ("dropout", 1.0),
        ("entry_dropout", float("nan")),
        ("source", -1.0),
        ("equivalence", -1.0),
        ("adversarial", float("inf")),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        ETLConfig(**{name: value})
