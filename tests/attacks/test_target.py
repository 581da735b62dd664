"""What is attacked is what ``publish`` does: same numbers, same μ, and neighbours as far apart as the unit allows."""

import math

import numpy as np
import pytest

from pricdr import Bounds, Ledger, Ratings, publish
from pricdr.privacy.accounting import LATTICE_FACTOR
from pricdr.randomness import Secret, Simulation
from pricdr.strategies import JLT
from tests.attacks.target import (
    Opened,
    Setting,
    item_names,
    mixed,
    neighbouring_ratings,
    private_release,
    settings,
)

EVERY = settings(16)
VALUES = Setting(strategy=JLT(dim=16), bounds=Bounds(rating_bound=5))


@pytest.mark.parametrize("setting", [*EVERY, VALUES], ids=str)
def test_the_opened_mechanism_publishes_what_publish_does(setting, any_seed):
    rng = np.random.default_rng(any_seed)
    ratings = rng.integers(1, 6, (30, 20)) * (rng.random((30, 20)) < 0.3)
    users, items = item_names(30), item_names(20)
    rows, columns = np.nonzero(ratings)
    source = Ratings.from_codes(rows, columns, ratings[rows, columns].astype(float), users, items)
    release = publish(
        source,
        setting.guarantee,
        strategy=setting.strategy,
        users=users,
        items=items,
        bounds=setting.bounds,
        insecure_seed=any_seed,
    )
    opened = Opened.draw(setting, items, Simulation(any_seed))
    again = opened.release(setting.bounds.steps(source.matrix), Simulation(any_seed))
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


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_neighbours_differ_in_one_rating_or_in_one_user(setting, rng):
    absent, present = neighbouring_ratings(setting, 32, rng)
    users, items = np.nonzero(absent != present)
    assert len(set(users)) == 1
    assert (len(items) == 1) == (setting.unit.value == "rating")
    assert (absent.shape[1] > absent.shape[0]) == setting.wide


def test_each_user_comes_from_the_input_the_truth_says(rng):
    opened = Opened.draw(EVERY[0], item_names(40), Simulation(1))
    worlds = opened.neighbours(50, rng)
    truth = rng.random(50) < 0.5
    both = np.stack([world.toarray() for world in worlds])
    assert np.array_equal(mixed(worlds, truth).toarray(), both[truth.astype(int), np.arange(50)])
    assert np.abs(both[1] - both[0]).sum(axis=1).tolist() == [1] * 50


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_private_releases_are_private(setting, rng):
    release = private_release(setting, neighbouring_ratings(setting, 16, rng))(1)
    assert release.certificate.private
    assert release.certificate.noise.source == "secret"
    assert release.certificate.epsilon == 4


def test_two_releases_in_a_ledger_cost_root_two(tmp_path):
    """The bound the differencing attack is held to is the one the certificate states."""
    setting = EVERY[0]
    ledger = Ledger.create(tmp_path / "ledger", setting.guarantee.__class__(epsilon=9, delta=1e-6))
    source = Ratings.from_triples(["a", "b"], ["x", "y"])
    for _ in range(2):
        release = publish(source, setting.guarantee, strategy=setting.strategy, ledger=ledger)
    assert release.certificate.ledger.mu_total * LATTICE_FACTOR == pytest.approx(math.sqrt(2) * setting.mu)
