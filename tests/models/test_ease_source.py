import numpy as np
import pytest

from pricdr.errors import ParameterError
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import ranks
from pricdr.models.fitted import Basis
from pricdr.models.methods.linear import EASE, EASEConfig, EASESource, EASESourceConfig, Popularity
from pricdr.testing.contracts import Planted, RecommenderContract

METHOD = EASESource(config=EASESourceConfig(regularisation=5.0, weight=0.5))


class TestContract(RecommenderContract):
    fit = staticmethod(lambda p: METHOD.fit_plaintext(p.target, p.source))
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
    assert (
        ndcg(METHOD.fit_plaintext(planted.target, planted.source), planted, cold) > ndcg(popular, planted, cold) + 0.3
    )


def test_it_is_the_printed_closed_form_on_both_domains_side_by_side(planted):
    X = np.hstack([planted.target.matrix.toarray(), 0.5 * planted.source.matrix.toarray()])
    P = np.linalg.inv(X.T @ X + 5.0 * np.eye(X.shape[1]))
    B = np.eye(X.shape[1]) - P / np.diag(P)
    model = METHOD.fit_plaintext(planted.target, planted.source)
    np.testing.assert_allclose(model.score(np.arange(60)) + X[:, :40], (X @ B)[:, :40], atol=1e-4)


def test_a_source_that_weighs_nothing_leaves_ease(planted):
    light = EASESource(config=EASESourceConfig(regularisation=5.0, weight=1e-6)).fit_plaintext(
        planted.target, planted.source
    )
    alone = EASE(config=EASEConfig(regularisation=5.0)).fit(planted.target)
    np.testing.assert_allclose(light.score(np.arange(60)), alone.score(np.arange(60)), atol=1e-4)


def test_it_says_what_a_recommendation_rests_on(planted):
    """User 0 has a history only, user 50 a source row only, user 51 nothing."""
    coo = planted.source.matrix.tocoo()
    model = METHOD.fit_plaintext(planted.target, planted.source.only(~np.isin(coo.row, [0, 51])))
    users = [planted.target.users[at] for at in (0, 1, 50, 51)]
    found = [model.recommend([user], k=5) for user in users]
    assert [r[0].basis for r in found] == [Basis.HISTORY, Basis.BOTH, Basis.RELEASE, Basis.POPULARITY]
    popular = Popularity().fit(planted.target).recommend([users[3]], k=5)
    assert [r.item for r in found[3]] == [r.item for r in popular]


@pytest.mark.parametrize("name", ["regularisation", "weight"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        EASESourceConfig(**{name: value})
