from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.data.domains import DomainPair
from pricdr.errors import ParameterError
from pricdr.models.base import UNRECORDED
from pricdr.models.ddtcdr import DDTCDR, DDTCDRConfig, _Run
from pricdr.models.fitting import fit_network
from pricdr.testing.contracts import Planted, TrainedContract
from pricdr.training.loop import Recording, TrainingOptions

SMALL = DDTCDRConfig(width=8, hidden=16, dropout=0.0, entry_dropout=0.2, negatives=3, hide=0.3)
QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, device="cpu")
METHOD = DDTCDR(config=SMALL, options=QUICK)
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
    fit_network(
        run.network,
        run.step,
        torch.arange(60),
        QUICK,
        scorer=run.scorer,
        identity="",
        validation=None,
        recording=Recording(),
    )
    return run


def test_the_map_is_learnt_and_stays_orthogonal(planted):
    before, after = (run.network.rotation().detach() for run in (_Run(planted.domains, SMALL, QUICK), trained(planted)))
    assert (after - before).abs().max() > 0.1
    assert (after @ after.T - torch.eye(8)).abs().max() < 1e-5


@pytest.mark.parametrize("hide", [0.0, 0.3])
def test_the_gradient_goes_through_the_map(planted, hide):
    """Through the other network's share of the loss too, which the public code cuts off."""
    run = _Run(planted.domains, replace(SMALL, hide=hide), QUICK)
    run.step(torch.arange(60)).backward()
    assert run.network.skew.grad.abs().max() > 1e-6


def test_the_score_is_the_printed_mixture(planted):
    """(1 − α) B(u, i) + α A(Xᵀ u, i), both networks written out; a cold user's u is X times its source vector."""
    run = _Run(planted.domains, replace(SMALL, share=0.3), QUICK)
    run.network.eval()
    scores = run.factors().score(EVERYONE)
    network, log_odds = run.network, run.target.log_odds
    with torch.no_grad():
        rotation = network.rotation()
        item = network.target.items(run.target.columns)[7]
        own, lent = (
            side.users(domain.rows.batch(torch.arange(60)))
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
    run = _Run(planted.domains, replace(SMALL, dropout=0.5), QUICK)
    run.network.eval()
    assert np.array_equal(run.factors().score(EVERYONE), run.factors().score(EVERYONE))


def test_of_whom_nothing_is_known_gets_what_is_popular(planted):
    nothing = planted.source.only(np.repeat(EVERYONE, np.diff(planted.source.matrix.indptr)) != 59)
    model = METHOD.fit_plaintext(DomainPair(nothing, planted.target))
    assert not model.in_release[59]
    counts = np.bincount(planted.target.matrix.indices, minlength=40)
    assert (np.diff(counts[np.argsort(-model.score(np.array([59]))[0], kind="stable")]) <= 0).all()


def test_an_empty_source_is_no_reason_to_fail(planted):
    empty = planted.source.only(np.zeros(len(planted.source), dtype=bool))
    model = METHOD.fit_plaintext(DomainPair(empty, planted.target), validation=planted.validation)
    found = model.recommend(planted.target.users[:20], k=5)
    assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in found]) > 0.9


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
