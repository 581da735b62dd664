"""Attacks on learnt directions, on the whole matrix: they succeed on every flawed variant, and not on ours."""

from dataclasses import replace

import numpy as np
import pytest

from pricdr.privacy.calibration import LATTICE_FACTOR, mu_of
from pricdr.privacy.run import Run
from pricdr.randomness import Simulation
from pricdr.testing.attacks import guess_bound, refutation_power
from pricdr.testing.attacks.learnt import (
    FLAWS,
    directions_published_flawed,
    only_own_row_ours,
    targets,
    true_ratio,
    whole_matrix_flawed,
    whole_matrix_ours,
)
from pricdr.testing.attacks.transcript import simulating_ours, spectral_targets, transcript_ours

TRIALS = 8000
TARGETS = targets()
TIGHT = [target for target in TARGETS if target.tight]
MU = TARGETS[0].mu
SPECTRAL = spectral_targets()


def test_what_is_attacked_is_held_to_what_is_certified():
    for target in TARGETS:
        promised = mu_of(target.way.epsilon, 1e-6)
        share = 0.25 / 3 if target.way.exchanged else 1.0
        assert target.mu == pytest.approx(promised * share**0.5, rel=1e-6)
    for target in SPECTRAL.values():
        assert target.mu == pytest.approx(mu_of(8, 1e-6), rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_best_attack_on_the_whole_matrix_stays_within_the_guarantee(target, rng):
    tally = whole_matrix_ours(target, trials=TRIALS, rng=rng)
    assert not tally.refutes(target.mu), tally


@pytest.mark.statistical
@pytest.mark.parametrize("target", TIGHT, ids=str)
def test_it_reaches_the_bound_and_catches_too_little_noise(target, rng):
    """Where neighbours are as far apart as claimed, the noise is not larger than it need be."""
    honest = whole_matrix_ours(target, trials=TRIALS, rng=rng)
    assert honest.success > guess_bound(0.93 * target.mu) - 6 * np.sqrt(0.25 / TRIALS)
    cheating = whole_matrix_ours(target, trials=TRIALS, rng=rng, noise_scale=0.7)
    assert cheating.refutes(target.mu), cheating
    assert refutation_power(TRIALS, claimed=target.mu, true=0.96 * target.mu / 0.7) > 1 - 1e-5


@pytest.mark.statistical
def test_one_row_does_not_show_what_the_matrix_does(rng):
    """Where raters cancel, the loss is in everybody else's rows: an attack on the user's own would miss it."""
    (target,) = (target for target in TARGETS if target.name == "raters who cancel")
    assert only_own_row_ours(target, trials=TRIALS, rng=rng).success < 0.55
    assert whole_matrix_ours(target, trials=TRIALS, rng=rng).success > 0.6


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_every_flaw_is_found_out(flaw, rng):
    assert true_ratio(flaw) > 3
    tally = whole_matrix_flawed(flaw, mu=MU, trials=400, rng=rng)
    assert tally.refutes(MU), tally
    assert tally.success > 0.85


def test_directions_beside_the_rows_give_the_rating_away(rng):
    tally = directions_published_flawed(mu=MU, trials=200, rng=rng)
    assert tally.right == tally.trials


@pytest.mark.parametrize("name", SPECTRAL)
def test_the_steps_laid_open_are_those_that_spectral_takes(name, any_seed):
    target = SPECTRAL[name]
    for world in (0, 1):
        laid_open = target.run(world, Simulation(any_seed))
        run = Run(target.settled, Simulation(any_seed))
        assert np.array_equal(laid_open["rows"].astype(np.float32), target.strategy.publish(target.entries[world], run))
        assert sorted(laid_open) == sorted(one.step.name for one in target.settled)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SPECTRAL)
def test_an_adversary_who_is_shown_every_step_stays_within_the_guarantee(name, rng):
    tally = transcript_ours(SPECTRAL[name], trials=500, rng=rng)
    assert not tally.refutes(SPECTRAL[name].mu), tally


@pytest.mark.statistical
def test_an_adversary_who_is_shown_every_step_catches_too_little_noise(rng):
    cheating = replace(SPECTRAL["a popular item"], noise_scale=0.5, first_share=0.7)
    tally = transcript_ours(cheating, trials=600, rng=rng)
    assert tally.refutes(cheating.mu), tally


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["the first rating of an item", "a popular item"])
def test_an_adversary_who_simulates_releases_stays_within_the_guarantee(name, rng):
    tally = simulating_ours(SPECTRAL[name], trials=500, training=300, rng=rng)
    assert not tally.refutes(SPECTRAL[name].mu), tally


def test_the_bound_counts_what_integer_noise_adds():
    target = TARGETS[0]
    assert target.mu / target.way.settled(target.pair).mu == pytest.approx(LATTICE_FACTOR, rel=1e-12)
