"""What is attacked is what ``publish`` does, with neighbours as far apart as the unit allows."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from pricdr import Bounds, Guarantee, Ledger, Ratings, publish
from pricdr.privacy.accounting import LATTICE_FACTOR
from pricdr.randomness import Secret, Simulation
from pricdr.strategies import JLT, SJLT
from tests.attacks.rows import residue_counts
from tests.attacks.target import Opened, Setting, item_names, neighbouring_ratings, publisher, settings
from tests.attacks.trials import coin_ratings, undo_seed
from tests.laws import ALPHA

EVERY = settings(16)
VALUES = Setting(strategy=JLT(dim=16), bounds=Bounds(rating_bound=5))


@pytest.mark.parametrize("setting", [*EVERY, VALUES], ids=str)
def test_the_opened_mechanism_publishes_what_publish_does(setting, any_seed):
    rng = np.random.default_rng(any_seed)
    ratings = rng.integers(1, 6, (30, 20)) * (rng.random((30, 20)) < 0.3).astype(float)
    release = publisher(setting, (ratings, ratings), insecure_seed=any_seed)(0)
    opened = Opened.draw(setting, item_names(20), Simulation(any_seed))
    again = opened.release(setting.bounds.steps(sp.csr_array(ratings)), Simulation(any_seed))
    assert np.array_equal(release.matrix, again)
    assert release.certificate.sigma == setting.sigma
    assert setting.mu == pytest.approx(release.certificate.mu * LATTICE_FACTOR, rel=1e-12)


@pytest.mark.parametrize("setting", [*EVERY, VALUES], ids=str)
def test_neighbours_are_as_far_apart_as_the_unit_allows_and_no_farther(setting, rng):
    with Secret() as secret:
        opened = Opened.draw(setting, item_names(setting.n_items(2000)), secret)
    absent, present = (opened.signal(world) for world in opened.neighbours(2000, rng))
    distance = np.linalg.norm(present - absent, axis=1) / setting.sigma * LATTICE_FACTOR
    assert distance.max() <= setting.mu * (1 + 1e-9)
    assert distance.mean() > 0.93 * setting.mu
    absent, present = neighbouring_ratings(setting, 32, rng)
    users, items = np.nonzero(absent != present)
    assert len(set(users)) == 1
    assert (len(items) == 1) == (setting.unit.value == "rating")
    assert (absent.shape[1] > absent.shape[0]) == setting.wide


def test_two_releases_in_a_ledger_cost_root_two(tmp_path):
    """The bound the differencing attack is held to is the one the certificate states."""
    setting = EVERY[0]
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=9, delta=1e-6))
    source = Ratings.from_triples(["a", "b"], ["x", "y"])
    for _ in range(2):
        release = publish(source, setting.guarantee, strategy=setting.strategy, ledger=ledger)
    assert release.certificate.ledger.mu_total * LATTICE_FACTOR == pytest.approx(math.sqrt(2) * setting.mu)


@pytest.mark.statistical
@pytest.mark.parametrize("setting", settings(64), ids=str)
def test_private_releases_end_in_bits_that_are_uniform_and_share_neither_noise_nor_item_rows(setting, rng):
    """Chi-square of the residues of the published grid steps; and two releases of equal ratings do not correlate."""
    ratings, other = neighbouring_ratings(setting, 64, rng)
    first, second = (publisher(setting, (ratings, other))(0) for _ in range(2))
    assert (first.certificate.private, first.certificate.noise.source) == (True, "secret")
    assert first.certificate.epsilon == 4
    for release in (first, publisher(setting, (ratings, other))(1)):
        steps = np.rint(release.matrix / release.certificate.grid).astype(np.int64)
        for modulus in (2, 16):
            assert stats.chisquare(residue_counts(steps, modulus)).pvalue > ALPHA
            assert stats.chisquare(residue_counts(2 * steps, modulus)).pvalue < ALPHA
    correlation = np.corrcoef(first.matrix.ravel(), second.matrix.ravel())[0, 1]
    assert abs(correlation) < 6 / math.sqrt(len(first.users))  # rows of one user share a signal: count users, not cells


@pytest.mark.parametrize("strategy", [JLT(dim=80), SJLT(dim=80)], ids=lambda s: s.name)
def test_a_seeded_release_gives_every_rating_away_and_says_it_is_not_private(strategy, rng):
    """Ours, with --insecure-seed: the seed regenerates E and the noise."""
    setting, (ratings, _, _) = Setting(strategy=strategy), coin_ratings(100, 60, rng)
    release = publisher(setting, (ratings, ratings), insecure_seed=7)(0)
    opened = Opened.draw(setting, item_names(60), Simulation(7))
    assert np.array_equal(np.rint(undo_seed(release.matrix, opened, 7)), ratings)
    assert not release.certificate.private
    assert not np.array_equal(np.rint(undo_seed(release.matrix, opened, 8)), ratings)
