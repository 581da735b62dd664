import numpy as np
import pytest

from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.verdict import Verdict
from pricdr.models.fitted import Basis
from pricdr.models.methods.linear import (
    REGULARISATIONS,
    SCALES,
    Popularity,
    RidgeRelease,
    RidgeReleaseConfig,
    compare_with_ridge,
)
from pricdr.testing.contracts import Planted, RecommenderContract, release_with_rows

METHOD = RidgeRelease()


class TestContract(RecommenderContract):
    fit = staticmethod(lambda p: METHOD.fit(p.target, p.release, validation=p.validation))
    serves_cold_users = True


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def ordered(model):
    scores = model.score(np.arange(len(model.users)))
    return [np.lexsort((np.arange(scores.shape[1]), -row)).tolist() for row in scores]


def test_it_is_the_printed_ridge_regression(planted):
    """The rows of users with both, of length 1 and centred, against centred ratings over √popularity."""
    model = RidgeRelease(config=RidgeReleaseConfig(regularisation=7.0, scale=0.3)).fit(planted.target, planted.release)
    rows = planted.release.matrix - planted.release.matrix.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows -= rows[:48].mean(axis=0)
    ratings = planted.target.matrix.toarray()[:48]
    wanted = (ratings - ratings.mean(axis=0)) / np.sqrt(ratings.sum(axis=0) + 1)
    added = rows @ np.linalg.solve(rows[:48].T @ rows[:48] + 7.0 * np.eye(8), rows[:48].T @ wanted)
    added *= 0.3 / np.sqrt((added[:48] ** 2).mean())
    share = (ratings.sum(axis=0) + 0.5) / 49
    np.testing.assert_allclose(model.score(np.arange(60)), added + np.log(share / (1 - share)), atol=1e-4)


def test_no_users_by_items_matrix_is_kept(planted):
    model = METHOD.fit(planted.target, planted.release)
    assert model.user_vectors.shape == (60, 8)
    assert model.item_vectors.shape == (40, 8)


def test_it_says_that_no_history_was_used(planted):
    some = release_with_rows(planted.release.matrix[10:], planted.release.users[10:])
    model = METHOD.fit(planted.target, some)
    assert {model.basis(at) for at in range(10)} == {Basis.POPULARITY}
    assert {model.basis(at) for at in range(10, 60)} == {Basis.RELEASE}


@pytest.mark.parametrize("rows", ["noise", "shuffled"])
def test_a_worthless_release_leaves_what_is_popular(planted, rows):
    rng = np.random.default_rng(1)
    matrix = planted.release.matrix
    worthless = rng.standard_normal(matrix.shape).astype(np.float32) if rows == "noise" else rng.permutation(matrix)
    model = METHOD.fit(
        planted.target, release_with_rows(worthless, planted.release.users), validation=planted.validation
    )
    assert {model.basis(at) for at in range(60)} == {Basis.POPULARITY}
    assert ordered(model) == ordered(Popularity().fit(planted.target))


def test_rows_that_mislead_cold_users_leave_what_is_popular(planted):
    """There is evidence for users with history, but validation shows no gain for those without."""
    spoilt = planted.release.matrix.copy()
    spoilt[48:] = -spoilt[48:]
    model = METHOD.fit(planted.target, release_with_rows(spoilt, planted.release.users), validation=planted.validation)
    assert ordered(model) == ordered(Popularity().fit(planted.target))


def test_users_of_the_release_alone_are_served_from_it(planted):
    model = METHOD.fit(planted.target.select(users=planted.target.users[:48]), planted.release)
    found = model.recommend(list(planted.cold), k=5)
    assert {r.basis for r in found} == {Basis.RELEASE}
    assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in found]) > 0.9


def test_a_release_over_other_users_is_refused(planted):
    with pytest.raises(InputError, match="another user list"):
        METHOD.fit(planted.target, release_with_rows(planted.release.matrix, tuple(f"x{i}" for i in range(60))))


def test_what_holds_without_validation_is_among_what_validation_may_choose():
    assert METHOD.config.regularisation in REGULARISATIONS
    assert METHOD.config.scale in SCALES


@pytest.mark.parametrize("name", ["regularisation", "scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        RidgeReleaseConfig(**{name: value})


def test_a_badly_trained_model_is_compared_with_ridge_on_validation(planted):
    """For warm and cold users apart: what is popular leaves unused what the rows hold, and ridge itself does not."""
    for model, helps in (
        (Popularity().fit(planted.target), Verdict.HELPS),
        (METHOD.fit(planted.target, planted.release, validation=planted.validation), Verdict.UNCLEAR),
    ):
        found = compare_with_ridge(model, planted.target, planted.release, planted.validation)
        assert [(one.stratum, one.users, one.ridge_helps) for one in found] == [
            ("warm", 48, helps),
            ("cold", 12, helps),
        ]
        assert all((one.ridge > one.model + 0.2) == (helps is Verdict.HELPS) for one in found)
    warm_alone = planted.validation.only(slice(48))
    assert [one.stratum for one in compare_with_ridge(model, planted.target, planted.release, warm_alone)] == ["warm"]
