"""The rivals that read the source in plaintext: what each one promises beyond the contract."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.models import DDTCDR, ETL, CoNet, CoNetConfig, DARec, DARecConfig, DDTCDRConfig, ETLConfig
from pricdr.models.training_data import TrainingData
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions
from tests.models.contracts import PlaintextContract, trained

QUICK = TrainingOptions(epochs=40, patience=40, batch=16, learning_rate=1e-2, device="cpu")
CONET = CoNet(config=CoNetConfig(width=16, dropout=0.0, negatives=3), options=replace(QUICK, weight_decay=1e-2))
SMALL_DDTCDR = DDTCDRConfig(width=8, hidden=16, dropout=0.0, entry_dropout=0.2, negatives=3, hide=0.3)
DAREC = DARecConfig(hidden=16, width=16, dropout=0.0, entry_dropout=0.2)
METHODS = {
    "conet": CONET,
    "ddtcdr": DDTCDR(config=SMALL_DDTCDR, options=QUICK),
    "darec": DARec(config=DAREC, options=QUICK),
    "etl": ETL(config=ETLConfig(width=16, entry_dropout=0.2, dropout=0.5, source=1.0), options=QUICK),
}
EVERYONE, WARM = np.arange(60), torch.arange(48)


def training(planted, name, **changed):
    """The training of a method on both domains, not begun yet, with some settings changed."""
    method = METHODS[name]
    return replace(method, config=replace(method.config, **changed)).training_run(planted.plaintext)


def contract(name):
    return type(name, (PlaintextContract,), {"method": METHODS[name]})


TestCoNet, TestDDTCDR, TestDARec, TestETL = map(contract, METHODS)


def test_conet_the_layers_are_the_printed_ones(planted):
    """One pair written out: both towers over [user; item], and the same H from either to the other."""
    run = training(planted, "conet")
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
    scores = [CONET.training_run(data).fitted_model().score(EVERYONE) for data in (planted.plaintext, without)]
    assert np.flatnonzero((scores[0] != scores[1]).any(axis=1)).tolist() == [5]


@pytest.mark.parametrize("name", ["cross_first", "cross_second"])
def test_conet_the_cross_connections_learn_and_matter_at_prediction(planted, name):
    run = training(planted, "conet", source=0.0)  # the other side's own loss is no proof
    run.step(WARM).backward()
    cross = getattr(run, name)
    assert cross.grad.abs().sum() > 0
    before = run.fitted_model().score(EVERYONE)
    with torch.no_grad():
        cross.zero_()
    assert np.abs(run.fitted_model().score(EVERYONE) - before).max() > 1e-3


def test_conet_sparsity_thins_the_cross_connections(planted):
    def total(sparsity):
        run = trained(training(planted, "conet", sparsity=sparsity), replace(QUICK, epochs=10))
        return run.cross_first.abs().sum().item()

    assert total(1.0) < total(0.0) / 2


def test_ddtcdr_the_map_is_learnt_and_stays_orthogonal(planted):
    run = training(planted, "ddtcdr")
    before = run.rotation().detach()
    after = trained(run, QUICK).rotation().detach()
    assert (after - before).abs().max() > 0.1
    assert (after @ after.T - torch.eye(8)).abs().max() < 1e-5


@pytest.mark.parametrize("hide", [0.0, 0.3])
def test_ddtcdr_the_gradient_goes_through_the_map(planted, hide):
    """Through the other network's share of the loss too, which the public code cuts off."""
    run = training(planted, "ddtcdr", hide=hide)
    run.step(torch.arange(60)).backward()
    assert run.skew.grad.abs().max() > 1e-6


def test_ddtcdr_the_score_is_the_printed_mixture(planted):
    """(1 − α) B(u, i) + α A(Xᵀ u, i), both networks written out; a cold user's u is X times its source vector."""
    run = training(planted, "ddtcdr", share=0.3).eval()
    scores = run.fitted_model().score(EVERYONE)
    with torch.no_grad():
        rotation = run.rotation()
        item = run.target.items(run.rows_b.columns)[7]
        own, lent = (
            side.users(domain.batch(torch.arange(60)))
            for side, domain in ((run.target, run.rows_b), (run.source, run.rows_a))
        )
        for user, vector in ((3, own[3]), (59, rotation.T @ lent[59])):
            outputs = [
                side.last(torch.relu(side.second(torch.relu(side.first(torch.cat([given, item]))))))
                for side, given in ((run.target, vector), (run.source, rotation @ vector))
            ]
            wanted = 0.7 * outputs[0] + 0.3 * outputs[1] + run.rows_b.log_odds[7]
            assert scores[user, 7] == pytest.approx(wanted.item(), abs=1e-5)


def by_hand(run, users):
    """The target's decoder on what is known of a source row, carried over, and of a target row."""
    from_a, from_b = (
        run.features(side, rows.batch(users), users)
        for side, rows in ((run.source, run.rows_a), (run.target, run.rows_b))
    )
    if hasattr(run, "transform"):  # ETL
        from_a, from_b = torch.relu(from_a) @ run.transform, torch.relu(from_b)
    decoder = run.target.decoder
    return [decoder.last(decoder.hidden(given)).detach() for given in (from_a, from_b)]


@pytest.mark.parametrize("name", ["darec", "etl"])
def test_warm_users_are_scored_from_their_target_row_and_cold_ones_from_their_source_row(planted, name):
    run = trained(training(planted, name), QUICK)
    scores, (from_a, from_b) = run.fitted_model().score(EVERYONE), by_hand(run, torch.arange(60))
    np.testing.assert_allclose(scores[:48], from_b[:48], atol=1e-4)
    np.testing.assert_allclose(scores[48:], from_a[48:], atol=1e-4)


@pytest.mark.parametrize("name", ["darec", "etl"])
def test_a_domain_without_ratings_of_a_user_teaches_nothing(planted, name):
    """A cold user's empty target row is no row of zeros: nothing that only the target reads learns from it."""
    run = training(planted, name)
    run.step(torch.arange(48, 60)).backward()
    for part, parameter in run.target.named_parameters():
        assert part.startswith("discriminator") or parameter.grad.abs().sum() == 0, part
    assert run.source.decoder.last.weight.grad.abs().sum() > 0


@torch.no_grad()
def domains_recognised(run):
    """The domain classifier's accuracy and its cross-entropy, ln 2 = 0.69 at chance."""
    users = torch.arange(len(run.data.users))
    sides = ((run.source, run.rows_a, True), (run.target, run.rows_b, False))
    features = [(run.features(side, rows.batch(users), users), first) for side, rows, first in sides]
    right = [((run.classifier(vectors) > 0) == first).float().mean() for vectors, first in features]
    errors = [run.classifier.errors(vectors, first=first, strength=0.0).mean() for vectors, first in features]
    return torch.stack(right).mean().item(), torch.stack(errors).mean().item()


@pytest.mark.slow
def test_darec_the_reversal_leaves_the_domain_classifier_guessing():
    """A game has no fixed end: one seed in five stops while the classifier is ahead, so three decide."""
    many = Planted.pair(n_users=240, n_cold=0).plaintext

    def medians(reversal, seeds):
        config = replace(DAREC, hidden=32, reversal=reversal)
        options = [replace(QUICK, epochs=60, learning_rate=5e-3, seed=seed) for seed in seeds]
        runs = [trained(DARec(config=config, options=one).training_run(many), one) for one in options]
        return np.median([domains_recognised(run) for run in runs], axis=0)

    right, error = medians(0.0, [1])
    assert right > 0.9
    assert error < 0.3
    right, error = medians(10.0, [1, 2, 3])
    assert 0.35 < right < 0.65
    assert error > 0.65


@torch.no_grad()
def astray(run):
    """How far z W Wᵀ and z Wᵀ W end from z, relative to z."""
    w = run.transform
    code_a = torch.relu(run.features(run.source, run.rows_a.batch(WARM), WARM))
    code_b = torch.relu(run.features(run.target, run.rows_b.batch(WARM), WARM))
    back = ((code_a, code_a @ w @ w.T), (code_b, code_b @ w.T @ w))
    return max(((code - again).abs().sum() / code.abs().sum()).item() for code, again in back)


def test_etl_the_transform_leads_there_and_back(planted):
    assert astray(trained(training(planted, "etl"), QUICK)) < 0.15
    assert astray(training(planted, "etl")) > 0.5
    assert astray(trained(training(planted, "etl", equivalence=0.0), QUICK)) > 0.5


def test_etl_the_discriminators_and_the_encoders_pull_against_each_other(planted):
    """Down the same gradient the discriminator gets better and the encoder makes it worse."""
    run = training(planted, "etl").eval()
    side = run.target

    def discriminator_error():
        torch.manual_seed(0)
        return run._discriminator_errors(side.discriminator, run.features(side, run.rows_b.batch(WARM), WARM)).mean()

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
    run = training(planted, "etl", source=0.0)
    run.step(WARM).backward()
    assert run.source.decoder.last.weight.grad.abs().sum() == 0
    assert run.source.encoder.first.grad.abs().sum() > 0
