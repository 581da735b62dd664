from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.errors import ParameterError
from pricdr.models.methods.crossdomain import DARec, DARecConfig
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from tests.models.contracts import PlaintextContract, trained

SMALL = DARecConfig(hidden=16, width=16, dropout=0.0, entry_dropout=0.2)
QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, device="cpu")
METHOD = DARec(config=SMALL, options=QUICK)
EVERYONE = np.arange(60)


class TestContract(PlaintextContract):
    method = METHOD
    run = staticmethod(lambda p: DARec(config=SMALL, options=QUICK).training_run(p.domains))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def trained_with(planted, config, options):
    return trained(DARec(config=config, options=options).training_run(planted.domains), options)


@torch.no_grad()
def domains_recognised(run):
    """The domain classifier's accuracy and its cross-entropy, ln 2 = 0.69 at chance."""
    users = torch.arange(len(run.data.users))
    sides = ((run.network.source, run.source, True), (run.network.target, run.target, False))
    features = [(run.network.features(side, rows.batch(users)), first) for side, rows, first in sides]
    right = [((run.network.classifier(vectors) > 0) == first).float().mean() for vectors, first in features]
    errors = [run.network.classifier.errors(vectors, first=first, strength=0.0).mean() for vectors, first in features]
    return torch.stack(right).mean().item(), torch.stack(errors).mean().item()


@pytest.mark.slow
def test_the_reversal_leaves_the_domain_classifier_guessing():
    """A game has no fixed end: one seed in five stops while the classifier is ahead, so three decide."""
    many = Planted.pair(n_users=240, n_cold=0)
    config = DARecConfig(hidden=32, width=16, dropout=0.0, entry_dropout=0.2, reversal=0.0)

    def medians(config):
        runs = [replace(QUICK, epochs=60, learning_rate=5e-3, seed=seed) for seed in (1, 2, 3)]
        return np.median([domains_recognised(trained_with(many, config, options)) for options in runs], axis=0)

    right, error = medians(config)
    assert right > 0.9
    assert error < 0.3
    right, error = medians(replace(config, reversal=10.0))
    assert 0.35 < right < 0.65
    assert error > 0.65


def test_warm_users_are_scored_from_their_target_row_and_cold_ones_from_their_source_row(planted):
    run = trained_with(planted, SMALL, QUICK)
    scores = run.fitted_model().score(EVERYONE)
    network, users = run.network, torch.arange(60)
    with torch.no_grad():
        from_a, from_b = (
            network.target.last(network.target.hidden(network.features(side, rows.batch(users))))
            for side, rows in ((network.source, run.source), (network.target, run.target))
        )
    np.testing.assert_allclose(scores[:48], from_b[:48], atol=1e-4)
    np.testing.assert_allclose(scores[48:], from_a[48:], atol=1e-4)


def test_a_domain_without_ratings_of_a_user_teaches_nothing(planted):
    """A cold user's empty target row is no row of zeros: nothing that only the target reads learns from it."""
    run = DARec(config=SMALL, options=QUICK).training_run(planted.domains)
    run.step(torch.arange(48, 60)).backward()
    for name, parameter in run.network.target.named_parameters():
        assert parameter.grad.abs().sum() == 0, name
    assert run.network.source.last.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 0),
        ("width", 0),
        ("dropout", 1.0),
        ("entry_dropout", float("nan")),
        ("source", -1.0),
        ("transfer", float("inf")),
        ("reversal", float("nan")),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        DARecConfig(**{name: value})
