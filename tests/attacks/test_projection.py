"""Attacks on the projection: row space of a thin SVD, sparse projections, discrete ones; and all of them on ours."""

import numpy as np
import pytest

from tests.attacks import flawed
from tests.attacks.algorithm_one import lifted, svd_form
from tests.attacks.evidence import contest
from tests.attacks.projection import row_space_residual
from tests.attacks.target import settings
from tests.attacks.trials import (
    lattice_flawed,
    projection_ours,
    random_worlds,
    residual_flawed,
    sparsity_flawed,
)

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("w", [1.0, 100.0, 100_000.0])
def test_a_thin_svd_tells_neighbours_apart_whatever_the_noise(w, rng):
    assert residual_flawed(w=w, trials=40, rng=rng).right == 40


def test_the_corrected_algorithm_resists_that_attack(rng):
    worlds = random_worlds((64, 24), rng)
    attack = row_space_residual(worlds)
    tally = contest(
        lambda world: svd_form(worlds[world], w=100_000.0, dim=16, rng=rng), {"": attack}, trials=100, rng=rng
    )[""]
    assert not tally.refutes(0.01)


def test_the_thin_lift_is_the_full_one_where_items_are_not_fewer(rng):
    ratings = random_worlds((20, 30), rng)[0]
    thin, full = flawed.thin_lift(ratings, 3.0), lifted(ratings, 3.0).T
    np.testing.assert_allclose(thin @ thin.T, full @ full.T, atol=1e-9)


def test_sjlt_with_one_entry_a_row_tells_neighbours_apart(rng):
    """q = 1/m, the order the paper prints."""
    tallies = sparsity_flawed(nonzeros=1, trials=100, rng=rng)
    assert {name: tally.right for name, tally in tallies.items()} == dict.fromkeys(tallies, 100)


@pytest.mark.parametrize("nonzeros", [5, 20, 50])
def test_sjlt_with_some_entries_a_row_tells_neighbours_apart(nonzeros, rng):
    tallies = sparsity_flawed(nonzeros=nonzeros, trials=40, rng=rng)
    assert tallies["Walsh sparsity"].right >= 39
    assert tallies["Walsh sparsity, D known"].right >= 39


@pytest.mark.parametrize("nonzeros", [200, 230])
def test_sjlt_with_many_entries_a_row_is_safe_only_while_its_signs_are_secret(nonzeros, rng):
    tallies = sparsity_flawed(nonzeros=nonzeros, trials=40, rng=rng)
    assert not tallies["Walsh sparsity"].refutes(0.01)
    assert tallies["Walsh sparsity, D known"].right >= 39


@pytest.mark.parametrize("density", [0.02, 0.1, 1 / 3, 0.5, 0.7, 0.9, 1.0])
def test_the_references_fjlt_tells_neighbours_apart_at_every_density(density, rng):
    assert lattice_flawed(density=density, trials=20, rng=rng).right == 20


@pytest.mark.parametrize("setting", settings(32), ids=str)
def test_none_of_these_attacks_exceeds_what_our_guarantee_allows(setting, rng):
    """A complete success, 100 of 100, would have been allowed with probability 10^-18."""
    for name, tally in projection_ours(setting, users=64, trials=100, rng=rng).items():
        assert not tally.refutes(setting.mu), f"{name}: {tally}"
