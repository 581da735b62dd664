from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.data.domains import DomainPair
from pricdr.errors import ParameterError
from pricdr.models.base import UNRECORDED
from pricdr.models.etl import ETL, ETLConfig, _Run
from pricdr.models.fitting import fit_network
from pricdr.testing.contracts import Planted, TrainedContract
from pricdr.training.loop import Recording, TrainingOptions

SMALL = ETLConfig(width=16, entry_dropout=0.2)
QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, device="cpu")
METHOD = ETL(config=SMALL, options=QUICK)
EVERYONE = np.arange(60)


class TestContract(TrainedContract):
    fit = staticmethod(
        lambda p, recording=UNRECORDED: METHOD.fit_plaintext(p.domains, validation=p.validation, recording=recording)
    )
    run = staticmethod(lambda p: _Run(p.domains, SMALL, QUICK))
    serves_cold_users = True


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def trained(planted, **changed):
    run = _Run(planted.domains, replace(SMALL, **changed), QUICK)
    nothing = Recording()
    fit_network(
        run.network,
        run.step,
        torch.arange(60),
        QUICK,
        scorer=run.scorer,
        identity="",
        validation=None,
        recording=nothing,
    )
    return run


@torch.no_grad()
def astray(run):
    """How far z W Wᵀ and z Wᵀ W end from z, relative to z."""
    users, w = torch.arange(48), run.network.transform
    code_a = torch.relu(run.network.features(run.network.source, run.source.batch(users), users))
    code_b = torch.relu(run.network.features(run.network.target, run.target.batch(users), users))
    back = ((code_a, code_a @ w @ w.T), (code_b, code_b @ w.T @ w))
    return max(((code - again).abs().sum() / code.abs().sum()).item() for code, again in back)


def test_the_transform_leads_there_and_back(planted):
    run = trained(planted)
    assert astray(run) < 0.15
    assert astray(_Run(planted.domains, SMALL, QUICK)) > 0.5
    assert astray(trained(planted, equivalence=0.0)) > 0.5


def test_the_discriminators_and_the_encoders_pull_against_each_other(planted):
    """Down the same gradient the discriminator gets better and the encoder makes it worse."""
    run = _Run(planted.domains, SMALL, QUICK)
    run.network.eval()
    users, side = torch.arange(48), run.network.target

    def told_apart():
        torch.manual_seed(0)
        return run._told_apart(side.discriminator, run.network.features(side, run.target.batch(users), users)).mean()

    before = told_apart()
    before.backward()
    for module, better in ((side.discriminator, True), (side.encoder, False)):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.01 * parameter.grad
            assert (told_apart() < before) == better
            for parameter in module.parameters():
                parameter += 0.01 * parameter.grad


def test_warm_users_are_reconstructed_and_cold_ones_transformed(planted):
    run = trained(planted)
    scores = run.factors().score(EVERYONE)
    network, users = run.network, torch.arange(60)
    with torch.no_grad():
        code_a = torch.relu(network.features(network.source, run.source.batch(users), users))
        code_b = torch.relu(network.features(network.target, run.target.batch(users), users))
        np.testing.assert_allclose(scores[:48], network.target.decode(code_b)[:48], atol=1e-4)
        np.testing.assert_allclose(scores[48:], network.target.decode(code_a @ network.transform)[48:], atol=1e-4)


def test_a_domain_without_ratings_of_a_user_teaches_nothing(planted):
    """A cold user's empty target row is no row of zeros: nothing that only the target reads learns from it."""
    run = _Run(planted.domains, SMALL, QUICK)
    run.step(torch.arange(48, 60)).backward()
    side = run.network.target
    for parameter in (*side.encoder.parameters(), *side.hidden.parameters(), *side.last.parameters()):
        assert parameter.grad.abs().sum() == 0
    assert run.network.source.last.weight.grad.abs().sum() > 0


def test_of_whom_nothing_is_known_gets_the_item_bias(planted):
    nothing = planted.source.only(np.repeat(EVERYONE, np.diff(planted.source.matrix.indptr)) != 59)
    model = METHOD.fit_plaintext(DomainPair(nothing, planted.target))
    assert not model.in_release[59]
    assert np.array_equal(model.score(np.array([59]))[0], model.item_bias)


def test_an_empty_source_is_no_reason_to_fail(planted):
    empty = planted.source.only(np.zeros(len(planted.source), dtype=bool))
    model = METHOD.fit_plaintext(DomainPair(empty, planted.target), validation=planted.validation)
    found = model.recommend(planted.target.users[:20], k=5)
    assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in found]) > 0.9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("width", 0),
        ("width", 1),
        ("dropout", 1.0),
        ("entry_dropout", float("nan")),
        ("equivalence", -1.0),
        ("adversarial", float("inf")),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        ETLConfig(**{name: value})
