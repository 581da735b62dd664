"""A release serves cold users only if users whose rows were not fitted show a gain."""

from dataclasses import replace

import numpy as np
import pytest

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.models import (
    DMF,
    EASE,
    Chosen,
    EASEConfig,
    EASERelease,
    HeteroCDR,
    RidgeRelease,
    SourceStageConfig,
    SymmetricCDR,
    Trust,
)
from pricdr.models.base import ReleaseMethod
from pricdr.models.catalogue import METHODS, method_class
from pricdr.models.fitted import Basis
from pricdr.models.gates import select_newcomers
from pricdr.models.methods.hetero import SourceStage
from pricdr.models.methods.linear import EASEReleaseConfig, Popularity
from pricdr.models.training_data import TrainingData
from pricdr.testing.contracts import release_with_rows
from tests.models.contracts import PAPER, QUICK, bases, source_stage

SMALL = SourceStageConfig(base="dmf", hidden=16, width=8, dropout=0.0, entry_dropout=0.3, release_dropout=0.0)
JOINT = HeteroCDR(config=replace(SMALL, joint=True), options=QUICK)
EVERY_METHOD = (
    HeteroCDR(config=SMALL, options=QUICK),
    SymmetricCDR(config=SMALL, options=QUICK),
    PAPER,
    EASERelease(config=EASEReleaseConfig(regularisation=5.0)),
    RidgeRelease(),
)


@pytest.fixture
def inputs(planted):
    return TrainingData.of(planted.target, planted.release)


def test_every_method_that_reads_a_release_is_tested_here():
    reading = {name for name in METHODS if issubclass(method_class(name), ReleaseMethod)}
    assert reading == {method.name for method in EVERY_METHOD}


def test_cold_users_of_validation_with_a_row_are_newcomers(planted):
    some = release_with_rows(planted.release.matrix[:59], planted.release.users[:59])
    newcomers = select_newcomers(TrainingData.of(planted.target, some), planted.validation, seed=0)
    assert newcomers.held_out.users.tolist() == list(range(48, 59))
    assert not newcomers.stand_ins.any()


@pytest.mark.parametrize("n_cold", [0, 9])
def test_warm_users_stand_in_where_validation_has_fewer_than_ten_cold_ones(planted, inputs, n_cold):
    validation = planted.validation.only(planted.validation.users < 48 + n_cold)
    newcomers = select_newcomers(inputs, validation, seed=0)
    assert newcomers.stand_ins.sum() == 16  # a third of the users with a history
    assert not newcomers.stand_ins[48:].any()
    users = newcomers.held_out.users
    assert set(users.tolist()) == {*np.flatnonzero(newcomers.stand_ins).tolist(), *range(48, 48 + n_cold)}
    np.testing.assert_array_equal(newcomers.held_out.items, validation.items[np.isin(validation.users, users)])
    hidden = newcomers.hidden_from(inputs)
    assert (np.diff(hidden.ratings.indptr) == 0).tolist() == [
        bool(stands_in) or at >= 48 for at, stands_in in enumerate(newcomers.stand_ins)
    ]
    assert (select_newcomers(inputs, validation, seed=1).stand_ins != newcomers.stand_ins).any()


def test_without_validation_a_rating_of_each_stand_in_is_held_out(planted, inputs):
    held_out = select_newcomers(inputs, None, seed=0).held_out
    assert len(held_out) == 16
    rated = planted.target.matrix.toarray() > 0
    assert rated[held_out.users, held_out.items].all()
    assert not rated[held_out.users[:, None], held_out.negatives].any()
    assert all(len(set(row)) == len(row) == 34 for row in held_out.negatives.tolist())


def test_there_are_no_stand_ins_if_no_user_has_both(planted):
    cold = release_with_rows(planted.release.matrix[48:], planted.release.users[48:])
    for validation in (None, planted.validation.only(planted.validation.users < 48)):
        newcomers = select_newcomers(TrainingData.of(planted.target, cold), validation, seed=0)
        assert not len(newcomers.held_out)
        assert not newcomers.stand_ins.any()


@pytest.fixture(scope="module")
def popular():
    """A target where everybody likes the first items best, and rows that are pure noise."""
    rng = np.random.default_rng(0)
    liking = 1 / np.arange(1, 61)
    users = tuple(f"u{at:03d}" for at in range(160))
    items = tuple(f"i{at:02d}" for at in range(60))
    rated = [rng.choice(60, 6, replace=False, p=liking / liking.sum()) for _ in range(150)]
    names = [(users[at], items[item]) for at, row in enumerate(rated) for item in row[1:]]
    target = Ratings.from_triples(*zip(*names, strict=True)).select(users=users, items=items)
    negatives = np.array([rng.permutation(np.setdiff1d(np.arange(60), row))[:50] for row in rated])
    validation = HeldOut(np.arange(150), np.array([row[0] for row in rated]), negatives)
    noise = rng.standard_normal((160, 60)).astype(np.float32)
    return target, release_with_rows(noise, users), validation


@pytest.mark.parametrize("method", EVERY_METHOD, ids=lambda method: method.name)
def test_a_good_release_serves_cold_users_that_validation_never_saw(planted, method):
    warm = planted.validation.only(planted.validation.users < 48)
    ways = [{"validation": warm}] if method.options is not None else [{"validation": warm}, {"chosen": Chosen()}]
    for how in ways:
        model = method.fit(planted.target, planted.release, **how)
        assert model.chosen.trust.cold > 0
        found = model.recommend(list(planted.cold), k=5)
        assert {one.basis for one in found} == {Basis.RELEASE}
        assert np.mean([int(one.item[1:]) % 2 == int(one.user[1:]) % 2 for one in found]) > 0.8


ALONE = {
    "hetero": DMF(config=SMALL, options=QUICK),
    "ease-release": EASE(config=EASEConfig(regularisation=5.0)),
    "ridge-release": Popularity(),
}
"""What is left of a method without the release, where that is a method too."""


@pytest.mark.parametrize("rows", ["noise", "shuffled"])
@pytest.mark.parametrize("validated", [True, False])
@pytest.mark.parametrize("method", [*EVERY_METHOD, JOINT], ids=lambda method: f"{method.name} {method is JOINT}")
def test_a_worthless_release_leaves_the_model_of_the_target_alone(planted, method, validated, rows):
    rng, matrix = np.random.default_rng(1), planted.release.matrix
    worthless = rng.standard_normal(matrix.shape).astype(np.float32) if rows == "noise" else rng.permutation(matrix)
    # Without validation, what is set aside depends on who has a row: an earlier choice leaves other epochs out of it.
    how = {"validation": planted.validation} if validated else {"chosen": Chosen()}
    model = method.fit(planted.target, release_with_rows(worthless, planted.release.users), **how)
    assert model.chosen.trust == Trust(0.0, 0.0)
    assert not model.in_release.any()
    if method.name not in ALONE:
        return
    alone = ALONE[method.name].fit(planted.target, **(how if method.options is not None else {}))
    scores = [one.score(np.arange(60)) for one in (model, alone)]
    if method.name == "ridge-release":  # log-odds, in the order of popularity
        scores = [np.argsort(-one, axis=1, kind="stable") for one in scores]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("method", EVERY_METHOD, ids=lambda method: method.name)
def test_rows_that_can_only_be_memorised_leave_cold_users_popular_items(popular, monkeypatch, method):
    """Rows that say nothing and passed the evidence test: users they were fitted to would look well served by them.

    Networks are trained to the last epoch here: where the best of many is picked, chance has more to choose from, and
    that is what the evidence test is for.
    """
    monkeypatch.setattr("pricdr.models.gates.p_value", lambda inputs: 0.0)
    target, release, validation = popular
    if method.options is not None:
        method = replace(method, options=replace(method.options, epochs=12))
    for how in [{"chosen": Chosen()}, *([{"validation": validation}] if method.options is None else [])]:
        model = method.fit(target, release, **how)
        assert model.chosen.trust.cold == 0
        assert bases(model, range(150, 160)) == {Basis.POPULARITY}


@pytest.mark.parametrize("trust", [Trust(0.0, 0.0), Trust(1.0, 0.0)])
def test_the_papers_form_gives_popular_items_to_users_it_cannot_serve(planted, trust):
    model, served = (
        PAPER.fit(planted.target, planted.release, chosen=Chosen(epochs={"training": 2}, trust=given))
        for given in (trust, Trust(1.0, 1.0))
    )
    found, popular = (one.recommend(list(planted.cold), k=9) for one in (model, Popularity().fit(planted.target)))
    assert [one.item for one in found] == [one.item for one in popular]
    assert model.in_release.any() == (trust.warm > 0)
    some = np.arange(48)
    assert np.allclose(model.score(some), served.score(some), atol=1e-5) == (trust.warm > 0)


def test_stand_ins_are_trained_on_when_trust_is_settled(inputs):
    """Users who are left out to choose by are not left out of the deployed model."""
    stage = source_stage(inputs, EVERY_METHOD[0])
    newcomers = select_newcomers(inputs, None, seed=0)
    choosing = SourceStage(stage.target_stage, EVERY_METHOD[0].config, newcomers)
    assert (len(stage.examples), len(choosing.examples)) == (48, 32)
    assert choosing.identity != stage.identity  # their checkpoints are not interchangeable
