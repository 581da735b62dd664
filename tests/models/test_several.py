"""Several releases: each is tested by itself, those that help together are used, and a model says which serve whom."""

from dataclasses import replace

import numpy as np
import pytest

from pricdr import FittedModel, Release
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError, ParameterError
from pricdr.models import Chosen, EASERelease, HeteroCDR, RidgeRelease, SourceStageConfig, Trust
from pricdr.models.gates import SIGNIFICANCE, ndcg_of
from pricdr.testing.contracts import release_with_rows
from tests.models.contracts import QUICK

USERS, ITEMS, TASTES, COLD = 400, 120, 4, 100
SMALL = HeteroCDR(config=SourceStageConfig(hidden=32, width=16, base="dmf"), options=replace(QUICK, batch=100))


@pytest.fixture(scope="module")
def tastes():
    return np.random.default_rng(1).standard_normal((USERS, TASTES))


def made_up(best, rng):
    """Return ratings of what users like best but for two items each, which are held out; the last have no history."""
    users, items = (tuple(f"{name}{n:03d}" for n in range(count)) for name, count in (("u", USERS), ("i", ITEMS)))
    pairs = [(users[u], items[i]) for u in range(USERS - COLD) for i in best[u, 2:]]
    others = np.array([rng.permutation(np.setdiff1d(np.arange(ITEMS), row))[:99] for row in best])
    target = Ratings.from_triples(*zip(*pairs, strict=True)).select(users, items)
    return target, *(HeldOut(np.arange(USERS), best[:, at], others) for at in (0, 1))


@pytest.fixture(scope="module")
def world(tastes):
    """Ratings by taste, and one item of each user that was held out."""
    rng = np.random.default_rng(2)
    scores = 2 * tastes @ rng.standard_normal((TASTES, ITEMS)) + rng.gumbel(size=(USERS, ITEMS))
    return made_up(np.argsort(-scores, axis=1)[:, :12], rng)[:2]


def released(rows, seed, *, noise=0.5, users=range(USERS)):
    """Return a release of the rows of these users, in directions of its own and with noise."""
    rng = np.random.default_rng(seed)
    mixed = rows @ rng.standard_normal((rows.shape[1], 6)) + noise * rng.standard_normal((len(rows), 6))
    return release_with_rows(mixed[list(users)].astype(np.float32), tuple(f"u{n:03d}" for n in users))


@pytest.fixture(scope="module")
def good(tastes):
    """Two releases that each know half of everybody's taste."""
    return released(tastes[:, :2], 3), released(tastes[:, 2:], 4)


def cold_ndcg(model, validation):
    return float(ndcg_of(model, validation.only(validation.users >= USERS - COLD)).mean())


@pytest.mark.parametrize("method", [RidgeRelease(), SMALL, EASERelease()], ids=lambda one: one.name)
def test_two_that_know_different_things_serve_newcomers_better_than_either(world, good, method):
    target, validation = world
    alone = [method.fit(target, release, validation=validation) for release in good]
    both = method.fit(target, good, validation=validation)
    assert both.chosen.used == (0, 1)
    assert cold_ndcg(both, validation) > max(cold_ndcg(model, validation) for model in alone) + 0.02
    assert both.in_release.shape == (USERS, 2)


def test_worthless_releases_beside_good_ones_are_not_used_and_cost_nothing(world, good, tastes):
    """What is used is chosen before a method trains, alike for all."""
    (target, validation), method = world, RidgeRelease()
    rng = np.random.default_rng(5)
    shuffled, noise = released(rng.permutation(tastes), 6), released(0 * tastes, 7)
    copy = release_with_rows(good[0].matrix + 1e-3, good[0].users)
    both = method.fit(target, good, validation=validation)
    model = method.fit(target, [shuffled, *good, noise, copy], validation=validation)
    p_values = np.array(model.chosen.evidence)
    assert (p_values[[1, 2, 4]] <= SIGNIFICANCE).all()
    assert (p_values[[0, 3]] > SIGNIFICANCE).all()
    assert set(model.chosen.used) <= {1, 2, 4}
    assert 2 in model.chosen.used
    assert cold_ndcg(model, validation) > cold_ndcg(both, validation) - 0.02


def test_a_model_says_which_release_serves_whom_also_after_it_was_saved(world, tastes, tmp_path):
    """Lists overlap: some users are in one of them, some in both, some in none."""
    target, validation = world
    lists = [[user for user in range(390) if user % 3 != left_out] for left_out in (0, 1)]
    first, second = (released(tastes, 8 + at, users=users) for at, users in enumerate(lists))
    model = RidgeRelease().fit(target, [first, second], validation=validation)
    loaded = FittedModel.load(model.save(tmp_path / "model"))
    for one in (model, loaded):
        groups = {numbers: set(np.flatnonzero(mask)) for numbers, mask in one.release_groups()}
        both, only_first, only_second = ({u for u in range(390) if u % 3 == rest} for rest in (2, 1, 0))
        assert groups == {(1, 2): both, (1,): only_first, (2,): only_second, (): set(range(390, 400))}
        assert [release.covers for release in one.origin.releases] == [(260, 400), (260, 400)]
        assert [release.certificate for release in one.origin.releases] == [first.certificate, second.certificate]
    assert loaded.origin == model.origin
    assert loaded.chosen == model.chosen


def test_what_was_chosen_is_followed(world, good):
    target, validation = world
    noise = released(np.zeros((USERS, 2)), 10)
    measured = SMALL.fit(target, [noise, *good], validation=validation)
    followed = SMALL.fit(target, [noise, *good], chosen=measured.chosen)
    assert followed.chosen.used == measured.chosen.used == (1, 2)
    assert followed.chosen.evidence == measured.chosen.evidence


def test_a_choice_not_to_trust_is_carried_over_whole(world, good):
    target, _ = world
    chosen = Chosen(epochs={"target": 1}, trust=Trust(0.0, 0.0), evidence=(0.005, 0.005), used=(0, 1))
    model = SMALL.fit(target, good, chosen=chosen)
    assert model.chosen == chosen
    ((numbers, everyone),) = model.release_groups()
    assert (numbers, everyone.all()) == ((), True)


def test_a_list_of_one_is_that_one(world, good):
    target, validation = world
    models = [SMALL.fit(target, release, validation=validation) for release in (good[0], [good[0]])]
    assert np.array_equal(*(model.user_vectors for model in models))


def _not_private(release):
    return replace(release, certificate=release.certificate.model_copy(update={"private": False}))


def _of_users(release):
    return replace(release, certificate=release.certificate.model_copy(update={"unit": "user"}))


def _strangers(release: Release) -> Release:
    return replace(release, users=tuple(f"x{user}" for user in release.users))


def test_more_releases_than_a_model_is_kept_with_are_refused_before_training(monkeypatch, world, good):
    monkeypatch.setattr("pricdr.models.base.MAX_RELEASES", 1)
    with pytest.raises(ParameterError, match="at most 1 releases, got 2"):
        RidgeRelease().fit(world[0], list(good), validation=world[1])


@pytest.mark.parametrize(
    ("spoil", "error", "rule"),
    [
        (lambda a, _: [a, a], ParameterError, "releases 1 and 2 are the same: give each once"),
        (lambda a, b: [a, _not_private(b)], InputError, "marked NOT PRIVATE"),
        (lambda a, b: [a, _of_users(b)], ParameterError, "different units (rating, user)"),
        (lambda a, b: [a, _strangers(b)], InputError, "none of the release's 400 users"),
        (lambda a, _: [replace(a, matrix=a.matrix + n) for n in range(17)], ParameterError, "16 sources, got 17"),
    ],
    ids=["twice", "not private", "another unit", "disjoint", "too many"],
)
def test_releases_that_cannot_be_used_together_are_refused(world, good, refused, spoil, error, rule):
    target, validation = world
    assert rule in refused(lambda: RidgeRelease().fit(target, spoil(*good), validation=validation), error)
