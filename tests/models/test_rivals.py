"""The rivals that read the source in plaintext: what each one promises beyond the contract."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.models.methods.crossdomain import (
    DDTCDR,
    ETL,
    CoNet,
    CoNetConfig,
    DARec,
    DARecConfig,
    DDTCDRConfig,
    ETLConfig,
)
from pricdr.models.training_data import TrainingData
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from tests.models.contracts import PlaintextContract, trained

QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, device="cpu")
CONET_SMALL = CoNetConfig(width=16, dropout=0.0, negatives=3)
CONET_QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, weight_decay=1e-2, device="cpu")
CONET_METHOD = CoNet(config=CONET_SMALL, options=CONET_QUICK)
EVERYONE = np.arange(60)


class TestCoNet(PlaintextContract):
    method = CONET_METHOD


def test_conet_the_layers_are_the_printed_ones(planted):
    """One pair written out: both towers over [user; item], and the same H from either to the other."""
    run = CONET_METHOD.training_run(planted.plaintext)
    p = {name: value.detach().double().numpy() for name, value in run.named_parameters()}
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


def test_conet_both_sides_of_an_example_belong_to_one_user(planted):
    """What one user rated in the source changes that user's scores alone: nobody is paired with somebody else."""
    matrix = planted.source.matrix
    others = np.repeat(EVERYONE, np.diff(matrix.indptr)) != 5
    without = TrainingData.plaintext(planted.target, planted.source.only(others))
    scores = [CONET_METHOD.training_run(data).fitted_model().score(EVERYONE) for data in (planted.plaintext, without)]
    changed = np.flatnonzero((scores[0] != scores[1]).any(axis=1))
    assert changed.tolist() == [5]


@pytest.mark.parametrize("name", ["cross_first", "cross_second"])
def test_conet_the_cross_connections_learn_and_matter_at_prediction(planted, name):
    run = CONET_METHOD.training_run(planted.plaintext)
    run.train()
    # of the target's loss alone: the other side's own loss is no proof
    users = torch.arange(48)
    rated = run.rows_b.batch(users)
    parts = run._user_parts(run.target, run.source, users, run.rows_a.batch(users))
    run._loss(run.target, run.rows_b, users, rated, parts).backward()
    cross = getattr(run, name)
    assert cross.grad.abs().sum() > 0
    before = run.fitted_model().score(EVERYONE)
    with torch.no_grad():
        cross.zero_()
    assert np.abs(run.fitted_model().score(EVERYONE) - before).max() > 1e-3


def test_conet_sparsity_thins_the_cross_connections(planted):
    def total(sparsity):
        run = CoNet(config=CoNetConfig(width=8, dropout=0.0, sparsity=sparsity), options=CONET_QUICK).training_run(
            planted.plaintext
        )
        optimizer = torch.optim.Adam(run.parameters(), lr=1e-2)
        torch.manual_seed(0)
        for _ in range(30):
            optimizer.zero_grad()
            run.step(torch.arange(60)).backward()
            optimizer.step()
        return run.cross_first.abs().sum().item()

    assert total(1.0) < total(0.0) / 2


DDTCDR_SMALL = DDTCDRConfig(width=8, hidden=16, dropout=0.0, entry_dropout=0.2, negatives=3, hide=0.3)
DDTCDR_METHOD = DDTCDR(config=DDTCDR_SMALL, options=QUICK)


class TestDDTCDR(PlaintextContract):
    method = DDTCDR_METHOD


def ddtcdr_trained_with(planted, **changed):
    return trained(
        DDTCDR(config=replace(DDTCDR_SMALL, **changed), options=QUICK).training_run(planted.plaintext),
        QUICK,
    )


def test_ddtcdr_the_map_is_learnt_and_stays_orthogonal(planted):
    before, after = (
        run.rotation().detach()
        for run in (
            DDTCDR_METHOD.training_run(planted.plaintext),
            ddtcdr_trained_with(planted),
        )
    )
    assert (after - before).abs().max() > 0.1
    assert (after @ after.T - torch.eye(8)).abs().max() < 1e-5


@pytest.mark.parametrize("hide", [0.0, 0.3])
def test_ddtcdr_the_gradient_goes_through_the_map(planted, hide):
    """Through the other network's share of the loss too, which the public code cuts off."""
    run = DDTCDR(config=replace(DDTCDR_SMALL, hide=hide), options=QUICK).training_run(planted.plaintext)
    run.step(torch.arange(60)).backward()
    assert run.skew.grad.abs().max() > 1e-6


def test_ddtcdr_the_score_is_the_printed_mixture(planted):
    """(1 − α) B(u, i) + α A(Xᵀ u, i), both networks written out; a cold user's u is X times its source vector."""
    run = DDTCDR(config=replace(DDTCDR_SMALL, share=0.3), options=QUICK).training_run(planted.plaintext)
    run.eval()
    scores = run.fitted_model().score(EVERYONE)
    network, log_odds = run, run.rows_b.log_odds
    with torch.no_grad():
        rotation = network.rotation()
        item = network.target.items(run.rows_b.columns)[7]
        own, lent = (
            side.users(domain.batch(torch.arange(60)))
            for side, domain in ((network.target, run.rows_b), (network.source, run.rows_a))
        )
        for user, vector in ((3, own[3]), (59, rotation.T @ lent[59])):
            outputs = [
                side.last(torch.relu(side.second(torch.relu(side.first(torch.cat([given, item]))))))
                for side, given in ((network.target, vector), (network.source, rotation @ vector))
            ]
            wanted = 0.7 * outputs[0] + 0.3 * outputs[1] + log_odds[7]
            assert scores[user, 7] == pytest.approx(wanted.item(), abs=1e-5)


DAREC_SMALL = DARecConfig(hidden=16, width=16, dropout=0.0, entry_dropout=0.2)
DAREC_METHOD = DARec(config=DAREC_SMALL, options=QUICK)
ETL_SMALL = ETLConfig(width=16, entry_dropout=0.2, dropout=0.5, source=1.0)
ETL_METHOD = ETL(config=ETL_SMALL, options=QUICK)


class TestDARec(PlaintextContract):
    method = DAREC_METHOD


def darec_trained_with(planted, config, options):
    return trained(DARec(config=config, options=options).training_run(planted.plaintext), options)


def darec_scores(network, users, rows_a, rows_b):
    """The target's decoder on what is extracted of each row."""
    sides = ((network.source, rows_a), (network.target, rows_b))
    return [network.target.last(network.target.hidden(network.features(side, rows))) for side, rows in sides]


def etl_scores(network, users, rows_a, rows_b):
    """The target's decoder on the source's code, carried over, and on the target's own."""
    code_a = torch.relu(network.features(network.source, rows_a, users))
    code_b = torch.relu(network.features(network.target, rows_b, users))
    return network.target.decode(code_a @ network.transform), network.target.decode(code_b)


@pytest.mark.parametrize(("name", "decoded"), [("darec", darec_scores), ("etl", etl_scores)])
def test_warm_users_are_scored_from_their_target_row_and_cold_ones_from_their_source_row(planted, name, decoded):
    method = {"darec": DAREC_METHOD, "etl": ETL_METHOD}[name]
    run = trained(method.training_run(planted.plaintext), QUICK)
    scores, users = run.fitted_model().score(EVERYONE), torch.arange(60)
    with torch.no_grad():
        from_a, from_b = decoded(run, users, run.rows_a.batch(users), run.rows_b.batch(users))
    np.testing.assert_allclose(scores[:48], from_b[:48], atol=1e-4)
    np.testing.assert_allclose(scores[48:], from_a[48:], atol=1e-4)


@pytest.mark.parametrize("name", ["darec", "etl"])
def test_a_domain_without_ratings_of_a_user_teaches_nothing(planted, name):
    """A cold user's empty target row is no row of zeros: nothing that only the target reads learns from it."""
    run = {"darec": DAREC_METHOD, "etl": ETL_METHOD}[name].training_run(planted.plaintext)
    run.step(torch.arange(48, 60)).backward()
    for part, parameter in run.target.named_parameters():
        assert part.startswith("discriminator") or parameter.grad.abs().sum() == 0, part
    assert run.source.last.weight.grad.abs().sum() > 0


@torch.no_grad()
def darec_domains_recognised(run):
    """The domain classifier's accuracy and its cross-entropy, ln 2 = 0.69 at chance."""
    users = torch.arange(len(run.data.users))
    sides = ((run.source, run.rows_a, True), (run.target, run.rows_b, False))
    features = [(run.features(side, rows.batch(users)), first) for side, rows, first in sides]
    right = [((run.classifier(vectors) > 0) == first).float().mean() for vectors, first in features]
    errors = [run.classifier.errors(vectors, first=first, strength=0.0).mean() for vectors, first in features]
    return torch.stack(right).mean().item(), torch.stack(errors).mean().item()


@pytest.mark.slow
def test_darec_the_reversal_leaves_the_domain_classifier_guessing():
    """A game has no fixed end: one seed in five stops while the classifier is ahead, so three decide."""
    many = Planted.pair(n_users=240, n_cold=0)
    config = DARecConfig(hidden=32, width=16, dropout=0.0, entry_dropout=0.2, reversal=0.0)

    def medians(config):
        runs = [replace(QUICK, epochs=60, learning_rate=5e-3, seed=seed) for seed in (1, 2, 3)]
        return np.median(
            [darec_domains_recognised(darec_trained_with(many, config, options)) for options in runs], axis=0
        )

    right, error = medians(config)
    assert right > 0.9
    assert error < 0.3
    right, error = medians(replace(config, reversal=10.0))
    assert 0.35 < right < 0.65
    assert error > 0.65


class TestETL(PlaintextContract):
    method = ETL_METHOD


def etl_trained_with(planted, **changed):
    return trained(ETL(config=replace(ETL_SMALL, **changed), options=QUICK).training_run(planted.plaintext), QUICK)


@torch.no_grad()
def etl_astray(run):
    """How far z W Wᵀ and z Wᵀ W end from z, relative to z."""
    users, w = torch.arange(48), run.transform
    code_a = torch.relu(run.features(run.source, run.rows_a.batch(users), users))
    code_b = torch.relu(run.features(run.target, run.rows_b.batch(users), users))
    back = ((code_a, code_a @ w @ w.T), (code_b, code_b @ w.T @ w))
    return max(((code - again).abs().sum() / code.abs().sum()).item() for code, again in back)


def test_etl_the_transform_leads_there_and_back(planted):
    run = etl_trained_with(planted)
    assert etl_astray(run) < 0.15
    assert etl_astray(ETL_METHOD.training_run(planted.plaintext)) > 0.5
    assert etl_astray(etl_trained_with(planted, equivalence=0.0)) > 0.5


def test_etl_the_discriminators_and_the_encoders_pull_against_each_other(planted):
    """Down the same gradient the discriminator gets better and the encoder makes it worse."""
    run = ETL_METHOD.training_run(planted.plaintext)
    run.eval()
    users, side = torch.arange(48), run.target

    def discriminator_error():
        features = run.features(side, run.rows_b.batch(users), users)
        torch.manual_seed(0)
        drawn = side.discriminator.errors(torch.randn_like(features), first=True, strength=0.0)
        return (drawn + side.discriminator.errors(features, first=False, strength=ETL_SMALL.adversarial)).mean()

    before = discriminator_error()
    before.backward()
    for module, better in ((side.discriminator, True), (side.encoder, False)):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.01 * parameter.grad
            assert (discriminator_error() < before) == better
            for parameter in module.parameters():
                parameter += 0.01 * parameter.grad


def test_etl_the_weight_is_on_what_is_restored_of_the_source(planted):
    """At 0 its decoder learns nothing, its encoder still does: it leads to the target."""
    run = ETL(config=replace(ETL_SMALL, source=0.0), options=QUICK).training_run(planted.plaintext)
    run.step(torch.arange(48)).backward()
    side = run.source
    assert side.last.weight.grad.abs().sum() == 0
    assert side.encoder.first.grad.abs().sum() > 0
