"""Our additive form and the paper's SVD form are the same mechanism, where the latter is correct."""

import numpy as np
import pytest
from scipy import stats

from tests.attacks.algorithm_one import additive_form, lifted, svd_form
from tests.laws import ALPHA

SHAPES = [(12, 30), (30, 12), (20, 20), (15, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_lift_adds_w_squared_in_every_user_direction(shape, rng):
    ratings = (rng.random(shape) < 0.3).astype(float)
    lift = lifted(ratings, 2.5)
    np.testing.assert_allclose(lift.T @ lift, ratings @ ratings.T + 2.5**2 * np.eye(shape[0]), atol=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_have_the_same_law(shape, rng):
    """Two-sample tests on linear and quadratic functions of the release, over many independent releases."""
    ratings, w, dim, draws = (rng.random(shape) < 0.3).astype(float), 3.0, 4, 3000
    forms = [
        np.stack([form(ratings, w=w, dim=dim, rng=rng) for _ in range(draws)]) for form in (svd_form, additive_form)
    ]
    direction = rng.standard_normal(shape[0])
    views = {
        "one coordinate": lambda y: y[:, 0, 0],
        "a direction": lambda y: np.einsum("u,ruk->rk", direction, y).ravel(),
        "a product of two users": lambda y: np.einsum("rk,rk->r", y[:, 0], y[:, 1]),
        "a norm": lambda y: np.einsum("rk,rk->r", y[:, 2], y[:, 2]),
        "the whole": lambda y: np.einsum("ruk,ruk->r", y, y),
    }
    for name, view in views.items():
        assert stats.ks_2samp(view(forms[0]), view(forms[1])).pvalue > ALPHA, name


@pytest.mark.statistical
def test_that_comparison_would_notice_a_scale_of_nine_tenths(rng):
    ratings = (rng.random((12, 30)) < 0.3).astype(float)
    right, wrong = (np.stack([additive_form(ratings, w=w, dim=4, rng=rng) for _ in range(3000)]) for w in (3.0, 2.7))
    totals = [np.einsum("ruk,ruk->r", y, y) for y in (right, wrong)]
    assert stats.ks_2samp(*totals).pvalue < ALPHA
