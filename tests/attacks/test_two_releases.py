"""Two releases: the same noise twice, and nearly the same ratings twice."""

import math

import numpy as np
import pytest

from pricdr.randomness import Secret
from tests.attacks.row_trials import (
    differencing_flawed,
    differencing_ours,
    noise_reuse_flawed,
    noise_reuse_ours,
)
from tests.attacks.target import Opened, item_names, neighbouring_ratings, private_release, settings

pytestmark = pytest.mark.statistical
EVERY = settings(16)
TRIALS = 6000


@pytest.mark.parametrize("setting", [EVERY[0]], ids=str)
def test_noise_used_twice_shows_who_gained_a_rating(setting, rng):
    assert noise_reuse_flawed(setting, trials=1000, rng=rng).right == 1000


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_fresh_noise_does_not(setting, rng):
    """Over one known E, which is more than two releases of ours share."""
    tally = noise_reuse_ours(setting, trials=TRIALS, rng=rng)
    assert not tally.refutes(setting.mu), tally


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_the_opened_mechanism_with_one_secret_for_both_would_be_caught(setting, rng):
    """The same attack on our own parts, misused: one noise for two releases, and the change stands bare."""
    with Secret() as secret, Secret() as noise:
        opened = Opened.draw(setting, item_names(setting.n_items(200)), secret)
        absent, present = opened.neighbours(200, rng)
        difference = opened.release(present, noise).astype(float) - opened.release(absent, noise)
    change = opened.signal(present) - opened.signal(absent)
    np.testing.assert_allclose(difference, change, atol=1e-5)


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_two_private_releases_of_ours_share_neither_noise_nor_item_rows(setting, rng):
    """Equal ratings published twice: the two matrices are as unlike as two of different ratings."""
    ratings, _ = neighbouring_ratings(setting, 64, rng)
    first, second = (private_release(setting, (ratings, ratings))(0).matrix.astype(float) for _ in range(2))
    correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    assert abs(correlation) < 6 / math.sqrt(first.shape[0])  # rows of one user share a signal: count users, not cells


def test_two_releases_cost_more_than_one_and_an_attack_shows_it(rng):
    tally = differencing_flawed(EVERY[0], trials=8000, rng=rng)
    assert tally.refutes(EVERY[0].mu), tally
    assert not tally.refutes(math.sqrt(2) * EVERY[0].mu), tally


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_two_releases_of_ours_stay_within_the_composed_guarantee(setting, rng):
    tally = differencing_ours(setting, trials=TRIALS, rng=rng)
    assert not tally.refutes(math.sqrt(2) * setting.mu), tally
