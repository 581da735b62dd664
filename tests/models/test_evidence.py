"""The evidence test refuses worthless rows at its stated rate, and accepts weak signals."""

import numpy as np
import pytest

from pricdr import FittedModel
from pricdr.data.ratings import Ratings
from pricdr.models import EASERelease, RidgeRelease
from pricdr.models.fitted import UNTRUSTED
from pricdr.models.gates import PERMUTATIONS, SIGNIFICANCE, p_value
from pricdr.models.training_data import TrainingData
from pricdr.testing.contracts import release_with_rows

USERS, ITEMS, TASTES = 200, 80, 3


@pytest.fixture(scope="module")
def tastes():
    return np.random.default_rng(5).standard_normal((USERS, TASTES))


@pytest.fixture(scope="module")
def target(tastes):
    """Ratings by popularity and taste, three to twelve items per user."""
    rng = np.random.default_rng(6)
    scores = 1.5 * tastes @ rng.standard_normal((TASTES, ITEMS)) + 2 * rng.standard_normal(ITEMS)
    scores += rng.gumbel(size=scores.shape)
    pairs = [(u, i) for u in range(USERS) for i in np.argsort(-scores[u])[: rng.integers(3, 13)]]
    users, items = (tuple(f"{name}{n:03d}" for n in range(count)) for name, count in (("u", USERS), ("i", ITEMS)))
    return Ratings.from_triples([users[u] for u, _ in pairs], [items[i] for _, i in pairs]).select(users, items)


def inputs(target, matrix):
    return TrainingData.of(target, release_with_rows(matrix.astype(np.float32), target.users))


def released(tastes, rng, *, noise, dim=6):
    return tastes @ rng.standard_normal((TASTES, dim)) + noise * rng.standard_normal((USERS, dim))


def accepted(target, releases):
    return np.mean([p_value(inputs(target, matrix)) <= SIGNIFICANCE for matrix in releases])


@pytest.mark.parametrize("dim", [2, 60])
def test_noise_is_refused_at_the_stated_rate(target, dim):
    rng = np.random.default_rng(dim)
    # 200 draws at a rate of 1/200: five or more occur with probability 0.4 %, and seeds are fixed
    assert accepted(target, [rng.standard_normal((USERS, dim)) for _ in range(200)]) <= 4 / 200


def test_p_values_of_noise_are_uniform(target):
    rng = np.random.default_rng(8)
    p_values = [p_value(inputs(target, rng.standard_normal((USERS, 6))), permutations=19) for _ in range(400)]
    shares = np.array([np.mean(np.array(p_values) <= level) for level in (0.05, 0.25, 0.5, 0.75)])
    np.testing.assert_allclose(shares, (0.05, 0.25, 0.5, 0.75), atol=0.08)


def test_noise_whose_length_is_heavy_tailed_is_refused_too(target):
    """Rows of very different lengths: a few users must not decide."""
    rng = np.random.default_rng(9)
    releases = [rng.standard_normal((USERS, 6)) * rng.pareto(1, (USERS, 1)) for _ in range(200)]
    assert accepted(target, releases) <= 4 / 200


def test_shuffled_rows_are_refused_and_the_same_rows_in_order_are_accepted(target, tastes):
    rng = np.random.default_rng(10)
    releases = [released(tastes, rng, noise=0.5) for _ in range(100)]
    assert accepted(target, releases) == 1
    assert accepted(target, [rng.permutation(matrix) for matrix in releases]) <= 3 / 100


def test_weak_signals_are_accepted(target, tastes):
    """Noise of three and of four times the signal, from 200 users."""
    rng = np.random.default_rng(11)
    assert accepted(target, [released(tastes, rng, noise=3 * np.sqrt(TASTES)) for _ in range(50)]) > 0.95
    assert accepted(target, [released(tastes, rng, noise=4 * np.sqrt(TASTES)) for _ in range(50)]) > 0.75


def test_rows_without_content_and_too_few_users_are_no_evidence(target, planted):
    """Three users have six pairings: none can be rare."""
    assert p_value(inputs(target, np.zeros((USERS, 4)))) == p_value(inputs(target, np.ones((USERS, 4)))) == 1
    few, nobody = (
        TrainingData.of(planted.target, release_with_rows(planted.release.matrix[part], planted.release.users[part]))
        for part in (slice(3), slice(48, None))
    )
    assert p_value(few) > SIGNIFICANCE
    assert p_value(nobody) == 1


@pytest.mark.parametrize("method", [EASERelease(), RidgeRelease()], ids=lambda one: one.name)
def test_a_model_records_the_result_of_the_evidence_test(target, tastes, method, tmp_path):
    rng = np.random.default_rng(13)
    good, noise = released(tastes, rng, noise=0.5), rng.standard_normal((USERS, 6))
    for matrix, passes in ((good, True), (noise, False)):
        release = release_with_rows(matrix.astype(np.float32), target.users)
        model = method.fit(target, release)
        assert (model.chosen.evidence[0] <= SIGNIFICANCE) is passes
        assert passes or model.chosen.trust == UNTRUSTED
        # A choice that is carried over keeps its p-value: nothing is tested again.
        followed = method.fit(target, release, chosen=model.chosen)
        assert followed.chosen.evidence == model.chosen.evidence
        loaded = FittedModel.load(model.save(tmp_path / f"{passes}"))
        assert loaded.chosen == model.chosen


def test_it_is_repeatable_and_can_reach_its_level(target, tastes):
    strong = inputs(target, released(tastes, np.random.default_rng(12), noise=1))
    assert p_value(strong) == p_value(strong) == 1 / (1 + PERMUTATIONS) == SIGNIFICANCE
