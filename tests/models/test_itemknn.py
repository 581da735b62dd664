import numpy as np
import pytest

from pricdr.data.ratings import Ratings
from pricdr.errors import ParameterError
from pricdr.models.methods.linear import ItemKNN, ItemKNNConfig, Popularity, similarities
from pricdr.testing.contracts import Planted, RecommenderContract

METHOD = ItemKNN(config=ItemKNNConfig(neighbours=10, shrinkage=1.0))


class TestContract(RecommenderContract):
    fit = staticmethod(lambda p: METHOD.fit(p.target))


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


def some_ratings(seed=0, n_users=50, n_items=33):
    """Ratings from 1 to 5, whose values must not matter, and an item nobody rated."""
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((n_users, n_items - 1)) < 0.2)
    values = rng.integers(1, 6, len(rows)).astype(float)
    ids = tuple(f"u{u:02d}" for u in range(n_users)), tuple(f"i{i:02d}" for i in range(n_items))
    return Ratings.from_codes(rows, columns, values, *ids)


def brute_force(ratings, neighbours, shrinkage):
    X = (ratings.matrix.toarray() != 0).astype(float)
    counts = X.sum(axis=0)
    similar = (X.T @ X) / np.maximum(np.sqrt(np.outer(counts, counts)) + shrinkage, 1e-12)
    np.fill_diagonal(similar, 0)
    for row in similar:
        row[np.argsort(-row, kind="stable")[neighbours:]] = 0
    return similar


@pytest.mark.parametrize("cells", [1, 100, 1 << 22], ids=["item by item", "three items at once", "one block"])
@pytest.mark.parametrize(("neighbours", "shrinkage"), [(1, 0.0), (4, 5.0), (1000, 20.0)])
def test_it_is_the_brute_force_version(cells, neighbours, shrinkage):
    ratings, config = some_ratings(), ItemKNNConfig(neighbours=neighbours, shrinkage=shrinkage)
    model = ItemKNN(config=config).fit(ratings)
    similar = brute_force(ratings, neighbours, shrinkage)
    np.testing.assert_allclose(similarities(ratings.matrix, config, cells=cells).toarray(), similar, atol=1e-6)
    np.testing.assert_allclose(model.item_vectors.toarray(), similar, atol=1e-6)
    wanted = (ratings.matrix.toarray() != 0) @ similar.T
    np.testing.assert_allclose(model.score(np.arange(50)), wanted, atol=1e-5)
    assert np.diff(model.item_vectors.indptr).max() <= neighbours


def test_vectors_stay_sparse():
    model = METHOD.fit(some_ratings())
    assert model.user_vectors.nnz == len(some_ratings())
    assert model.item_vectors.nnz <= 33 * 10
    assert model.user_vectors.dtype == model.item_vectors.dtype == np.float32


def test_users_without_ratings_get_exactly_what_is_popular(planted):
    found = METHOD.fit(planted.target).recommend([planted.cold[0]], k=40)
    popular = Popularity().fit(planted.target).recommend([planted.cold[0]], k=40)
    assert [r.item for r in found] == [r.item for r in popular]


@pytest.mark.parametrize(
    ("name", "value"),
    [("neighbours", 0), ("shrinkage", -1.0), ("shrinkage", float("nan"))],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        ItemKNNConfig(**{name: value})
