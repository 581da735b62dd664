"""People and rows that come after training get the vectors that training would have given them."""

from dataclasses import replace

import numpy as np
import pytest

from pricdr import FittedModel
from pricdr.data.ratings import Ratings
from pricdr.errors import InputError
from pricdr.models import BPR, DMF, Chosen, HeteroCDR, SourceStageConfig, Trust
from pricdr.models.fitted import UNTRUSTED, Basis
from pricdr.models.fold_in import LEAST_COMMON
from pricdr.models.gates import ndcg_of
from pricdr.models.methods.dmf import TargetStageConfig
from pricdr.testing.contracts import release_with_rows
from tests.models.contracts import QUICK
from tests.models.test_several import COLD, ITEMS, TASTES, USERS, made_up, released, tastes, world  # noqa: F401

FAST, TINY = replace(QUICK, batch=100, epochs=5), TargetStageConfig(hidden=32, width=16)
SMALL = HeteroCDR(config=SourceStageConfig(hidden=32, width=16, base="dmf"), options=replace(QUICK, batch=100))


@pytest.fixture(scope="module")
def first(tastes):  # noqa: F811
    """A release of the first 350 users."""
    return released(tastes, 20, noise=1.0, users=range(350))


@pytest.fixture(scope="module")
def model(world, first):  # noqa: F811
    target, validation = world
    return SMALL.fit(target, first, validation=validation)


def triples(ratings, users):
    rows, columns = ratings.matrix[users].nonzero()
    return [ratings.users[users[row]] for row in rows], [ratings.items[column] for column in columns]


def test_the_towers_give_every_user_the_vector_that_training_gave(model):
    again = model.encoders.user_vectors(model.seen, model.encoders.rows, model.chosen.trust)
    np.testing.assert_allclose(again, model.user_vectors, atol=1e-4)


@pytest.mark.parametrize("method", [DMF(config=TINY, options=FAST), SMALL], ids=lambda one: one.name)
def test_a_user_who_comes_later_is_served_as_one_with_the_same_history(world, first, method):  # noqa: F811
    target, validation = world
    given = first if method is SMALL else None
    fitted = method.fit(target, given, validation=validation)
    users, items = triples(target, [380 - COLD, 381 - COLD])  # warm users; as others with no row
    later = fitted.with_ratings(Ratings.from_triples([f"new {user}" for user in users], items))
    assert later.users == (*fitted.users, *sorted({f"new {user}" for user in users}))
    assert {one.basis for one in later.recommend([f"new {users[0]}"], k=5)} == {Basis.HISTORY}
    assert not {one.item for one in later.recommend([f"new {users[0]}"], k=50)} & set(items[: users.count(users[0])])
    known = later.encoders.user_vectors(later.seen[-2:], np.zeros((2, later.encoders.rows.shape[1])), UNTRUSTED)
    np.testing.assert_allclose(later.user_vectors[-2:, : known.shape[1]], known, atol=1e-5)
    assert np.array_equal(later.user_vectors[:USERS], fitted.user_vectors)


def test_cold_users_become_warm_by_their_first_ratings(model, world):  # noqa: F811
    """With half of what they liked; the other half is held out."""
    _, validation = world
    cold = validation.only(validation.users >= USERS - COLD)
    liked = Ratings.from_triples([model.users[user] for user in cold.users], [model.items[item] for item in cold.items])
    later = model.with_ratings(liked)
    assert (np.diff(later.seen.indptr) > 0).all()
    assert later.user_vectors.shape == model.user_vectors.shape
    assert not np.array_equal(later.user_vectors[cold.users], model.user_vectors[cold.users])


def test_a_newer_release_serves_users_who_joined_and_sharpens_the_rows_of_others(tastes):  # noqa: F811
    """Measured on items that neither the training nor its choices have seen."""
    rng, gains = np.random.default_rng(30), []
    for seed in range(3):
        scores = 2 * tastes @ rng.standard_normal((TASTES, ITEMS)) + rng.gumbel(size=(USERS, ITEMS))
        target, validation, test = made_up(np.argsort(-scores, axis=1)[:, :12], rng)
        model = SMALL.fit(target, released(tastes, 40 + seed, noise=1.5, users=range(350)), validation=validation)
        newer = released(tastes, 50 + seed, noise=1.5)
        later = model.with_release(newer)
        cold = [test.only(np.isin(test.users, range(*ends))) for ends in ((USERS - COLD, 350), (350, USERS))]
        gains.append([ndcg_of(later, part).mean() - ndcg_of(model, part).mean() for part in cold])
    sharpened, joined = np.mean(gains, axis=0)
    assert sharpened > 0
    assert joined > 0.1
    assert [one.sha256 for one in later.origin.releases][1:] == [newer.sha256()]
    assert {one.basis for one in later.recommend(["u399"], k=3)} == {Basis.RELEASE}


def test_of_several_releases_the_newer_one_follows_that_which_it_is_related_to(world, tastes):  # noqa: F811
    """The first lists nobody whom the newer one lists; the second is its elder."""
    target, _ = world
    given = [released(tastes, 60, users=range(0, 400, 2)), released(tastes, 61, users=range(1, 400, 2))]
    chosen = Chosen(epochs={"target": 2, "source": 2}, trust=Trust(0.0, 1.0))
    model = SMALL.fit(target, given, chosen=chosen)
    later = model.with_release(released(tastes, 62, users=range(1, 400, 2)))
    first, second = model.encoders.columns
    assert np.array_equal(later.encoders.rows[:, first], model.encoders.rows[:, first])
    assert not np.array_equal(later.encoders.rows[:, second], model.encoders.rows[:, second])


def test_more_releases_than_a_folder_takes_are_refused_when_saving(model, tmp_path, refused):
    many = replace(model, origin=replace(model.origin, releases=model.origin.releases * 513))
    assert "at most 512 releases" in refused(lambda: many.save(tmp_path / "model"))


def test_users_of_a_newer_release_alone_are_added(model, tastes):  # noqa: F811
    more = np.vstack([tastes, tastes[:20]])
    rng = np.random.default_rng(22)
    rows = more @ rng.standard_normal((4, 6)) + 0.3 * rng.standard_normal((USERS + 20, 6))
    names = (*model.users, *(f"joined{n:02d}" for n in range(20)))
    later = model.with_release(release_with_rows(rows.astype(np.float32), names))
    assert later.users == names
    assert later.in_release.sum() == USERS + 20


def test_a_folded_model_is_saved_whole_and_fits_no_split_any_more(model, tmp_path):
    later = model.with_ratings(Ratings.from_triples(["somebody"], [model.items[0]]))
    loaded = FittedModel.load(later.save(tmp_path / "model"))
    assert np.array_equal(loaded.user_vectors, later.user_vectors)
    assert np.array_equal(loaded.encoders.rows, later.encoders.rows)
    assert loaded.origin.trained_on not in (None, model.origin.trained_on)
    again = loaded.with_ratings(Ratings.from_triples(["somebody"], [model.items[1]]))
    assert again.seen[[-1]].indices.tolist() == [0, 1]


def test_what_cannot_be_folded_in_is_refused_with_a_reason(model, world, tastes, refused):  # noqa: F811
    target, validation = world
    some = Ratings.from_triples(["a"], [model.items[0]])
    alone = DMF(config=TINY, options=FAST).fit(target, validation=validation)
    newer = released(tastes, 23)
    few = released(tastes, 24, users=range(340, 400))
    noise, strangers = released(0 * tastes, 25), replace(newer, users=tuple(f"x{user}" for user in newer.users))
    private = replace(newer, certificate=newer.certificate.model_copy(update={"private": False}))
    for call, rule in (
        (lambda: model.with_ratings(Ratings.from_triples(["a"], ["unheard of"])), "none of the 1 rated items"),
        (lambda: BPR(options=FAST).fit(target, validation=validation).with_ratings(some), "method bpr keeps no towers"),
        (lambda: model.without_histories().with_ratings(some), "keeps no towers"),
        (lambda: alone.with_release(newer), "uses no release"),
        (lambda: model.with_release(few), f"lists 10 users whom the model has a row of, and {LEAST_COMMON} are needed"),
        (lambda: model.with_release(strangers), "lists 0 users whom the model has a row of"),
        (lambda: model.with_release(noise), "of other ratings or too noisy to follow, train again"),
        (lambda: model.with_release(private), "marked NOT PRIVATE"),
    ):
        assert rule in refused(call, InputError)
