import numpy as np
import pytest

from pricdr.data.splits import HeldOut
from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import ranks
from pricdr.models.fitted import Basis
from pricdr.models.methods.linear import EASE, EASEConfig, EASERelease, EASEReleaseConfig, Popularity
from pricdr.testing.contracts import Planted, RecommenderContract, release_with_rows

METHOD = EASERelease(config=EASEReleaseConfig(regularisation=5.0, weight=1.0))


class TestContract(RecommenderContract):
    fit = staticmethod(lambda p: METHOD.fit(p.target, p.release))
    serves_cold_users = True


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def ndcg(model, planted, cold):
    part = planted.validation.only((np.diff(planted.target.matrix.indptr) == 0) == cold)
    return per_user(ranks(model.score, part, planted.target.matrix)[0])["NDCG@10"].mean()


@pytest.mark.parametrize("cold", [False, True])
def test_it_beats_popularity_by_far(planted, cold):
    popular = Popularity().fit(planted.target)
    assert ndcg(METHOD.fit(planted.target, planted.release), planted, cold) > ndcg(popular, planted, cold) + 0.3


@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_it_is_the_printed_closed_form_on_target_and_centred_scaled_release(planted, shift, scale):
    rows = planted.release.matrix - planted.release.matrix.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1).mean()
    X = np.hstack([planted.target.matrix.toarray(), 2.0 * rows])
    P = np.linalg.inv(X.T @ X + 5.0 * np.eye(X.shape[1]))
    B = np.eye(X.shape[1]) - P / np.diag(P)
    moved = release_with_rows((scale * planted.release.matrix + shift).astype(np.float32), planted.release.users)
    method = EASERelease(config=EASEReleaseConfig(regularisation=5.0, weight=2.0))
    model = method.fit(planted.target, moved)
    np.testing.assert_allclose(model.score(np.arange(60)) + X[:, :40], (X @ B)[:, :40], atol=1e-4)


def test_users_of_the_release_alone_are_served_from_it(planted):
    warm = planted.target.select(users=planted.target.users[:48])
    model = METHOD.fit(warm, planted.release)
    found = model.recommend(list(planted.cold), k=5)
    assert {r.basis for r in found} == {Basis.RELEASE}
    assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in found]) > 0.9


def test_a_worthless_release_leaves_ease_on_the_target(planted):
    order = np.random.default_rng(3).permutation(60)
    model = METHOD.fit(planted.target, release_with_rows(planted.release.matrix[order], planted.release.users))
    alone = EASE(config=EASEConfig(regularisation=5.0)).fit(planted.target)
    np.testing.assert_array_equal(model.score(np.arange(60)), alone.score(np.arange(60)))
    assert not model.in_release.any()


@pytest.mark.parametrize("side", ["dense", "sparse"])
def test_cold_users_get_what_is_popular_where_their_rows_mislead(planted, side):
    """The rows of cold users say the opposite of what they like."""
    spoilt = planted.release.matrix.copy()
    spoilt[48:] = -spoilt[48:]
    target = planted.target if side == "dense" else planted.target.select(items=planted.target.items[:30])
    release = release_with_rows(spoilt, planted.release.users)
    good = planted.validation.negatives[:, :10] < 30
    assert side == "dense" or good.all()
    held_out = HeldOut(planted.validation.users, planted.validation.items, planted.validation.negatives[:, :10])
    model = METHOD.fit(target, release, validation=held_out)
    ungated = METHOD.fit(target, release)
    assert {model.basis(at) for at in range(48, 60)} == {Basis.POPULARITY}
    np.testing.assert_allclose(model.score(np.arange(48)), ungated.score(np.arange(48)), atol=1e-6)
    popular = Popularity().fit(target).recommend(list(planted.cold), k=5)
    assert [r.item for r in model.recommend(list(planted.cold), k=5)] == [r.item for r in popular]
    kept = METHOD.fit(target, planted.release, validation=held_out)
    assert {kept.basis(at) for at in range(48, 60)} == {Basis.RELEASE}


def test_a_release_over_other_users_is_refused(planted):
    with pytest.raises(InputError, match="another user list"):
        METHOD.fit(planted.target, release_with_rows(planted.release.matrix, tuple(f"x{i}" for i in range(60))))


@pytest.mark.parametrize("name", ["regularisation", "weight"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        EASEReleaseConfig(**{name: value})
