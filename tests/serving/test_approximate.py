"""The approximate search: exact scores, no rated items, and nearly all of the exact answer."""

import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp

from pricdr.errors import MissingExtraError
from pricdr.models.fitted import FittedModel
from pricdr.serving import search as searches
from pricdr.serving.search import ApproximateSearch, ExactSearch, build_search, seen_items


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((50, 16))
    rated = rng.random((30, 6000)) < 0.01
    rated[0] = False
    return FittedModel(
        method="bpr",
        users=tuple(f"u{at}" for at in range(30)),
        items=tuple(f"i{at}" for at in range(6000)),
        user_vectors=(centres[rng.integers(0, 50, 30)] + 0.3 * rng.standard_normal((30, 16))).astype(np.float32),
        item_vectors=(centres[rng.integers(0, 50, 6000)] + 0.3 * rng.standard_normal((6000, 16))).astype(np.float32),
        item_bias=rng.standard_normal(6000).astype(np.float32),
        seen=sp.csr_array(rated.astype(np.float64)),
        in_release=np.zeros(30, dtype=bool),
    )


def test_it_finds_nearly_all_of_the_exact_answer(model):
    pytest.importorskip("faiss")
    users = np.arange(30)
    exact = ExactSearch(model).best(users, 10)

    def recall(search):
        found = search.best(users, 10)
        for user, (items, scores) in enumerate(found):
            np.testing.assert_allclose(scores, model.score(np.array([user]))[0, items], rtol=1e-5)
            assert (np.diff(scores) <= 0).all()
            assert not np.isin(items, seen_items(model, user)).any()
        return np.mean([np.isin(a, b).mean() for (a, _), (b, _) in zip(exact, found, strict=True)])

    default, whole = recall(ApproximateSearch(model)), recall(ApproximateSearch(model, 1.0))
    assert 0.5 < default <= whole
    assert whole > 0.99
    rated = np.ones((30, 6000))  # who has rated nearly everything gets the rest
    rated[:, 17] = 0
    search = ApproximateSearch(replace(model, seen=sp.csr_array(rated)), 1.0)
    assert search.best(np.array([3]), 10)[0][0].tolist() == [17]


def test_it_is_used_only_for_many_items_and_says_what_to_install(model, monkeypatch):
    assert isinstance(build_search(model, exact=False)[1], ExactSearch)
    monkeypatch.setattr(searches, "EXACT_UP_TO", 1000)
    assert isinstance(build_search(model, exact=True)[1], ExactSearch)
    if find_spec("faiss"):
        assert isinstance(build_search(model, exact=False)[1], ApproximateSearch)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"approximate searches need faiss: pip install 'faiss-cpu>=1.9'"):
        build_search(model, exact=False)
