import numpy as np
import pytest

from pricdr.errors import ParameterError
from pricdr.models.methods.linear import EASE, EASEConfig, Popularity
from pricdr.testing.contracts import Planted, RecommenderContract

METHOD = EASE(config=EASEConfig(regularisation=5.0))


class TestContract(RecommenderContract):
    fit = staticmethod(lambda p: METHOD.fit(p.target))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def test_it_is_the_printed_closed_form(planted):
    """B = I − P / diag(P): its diagonal is zero, and XB is the score of everything unrated."""
    X = planted.target.matrix.toarray()
    P = np.linalg.inv(X.T @ X + 5.0 * np.eye(40))
    B = np.eye(40) - P / np.diag(P)
    np.testing.assert_allclose(np.diag(B), 0, atol=1e-12)
    model = METHOD.fit(planted.target)
    np.testing.assert_allclose(model.score(np.arange(60)) + X, X @ B, atol=1e-4)


def test_users_without_ratings_get_exactly_what_is_popular(planted):
    found = METHOD.fit(planted.target).recommend([planted.cold[0]], k=40)
    popular = Popularity().fit(planted.target).recommend([planted.cold[0]], k=40)
    assert [r.item for r in found] == [r.item for r in popular]


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_settings_are_refused(value):
    with pytest.raises(ParameterError, match="regularisation"):
        EASEConfig(regularisation=value)
