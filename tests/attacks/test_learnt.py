"""Attacks on learnt directions, on the whole matrix: they succeed on every flawed variant, and not on ours."""

from dataclasses import replace

import numpy as np
import pytest

from pricdr.privacy.accounting import LATTICE_FACTOR, mu_of
from pricdr.privacy.mechanism import Run
from pricdr.privacy.steps import total_mu
from pricdr.randomness import Simulation
from tests.attacks.evidence import guess_bound, refutation_power
from tests.attacks.learnt import (
    FLAWS,
    directions_published_flawed,
    only_own_row_ours,
    targets,
    true_ratio,
    whole_matrix_flawed,
    whole_matrix_ours,
)
from tests.attacks.trace_steps import trace_steps
from tests.attacks.transcript import rounds_targets, scored, scored_runs, simulating_ours, transcript_ours
from tests.laws import ALPHA, scale_p_value, shape_p_value

TRIALS = 8000
TARGETS = targets()
TIGHT = [target for target in TARGETS if target.tight]
MU = TARGETS[0].mu
ROUNDS = rounds_targets()
POPULAR = [name for name in ROUNDS if "popular" in name]
FAR = [name for name in POPULAR if "outside" not in name]
"""Where neighbours are nearly as far apart as claimed."""


def test_what_is_attacked_is_held_to_what_is_certified():
    for target in TARGETS:
        assert target.mu == pytest.approx(mu_of(4, 1e-6), rel=1e-6)
    for target in ROUNDS.values():
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


@pytest.mark.parametrize("name", ROUNDS)
def test_the_steps_laid_open_are_those_that_are_published(name, any_seed):
    """Looking changes nothing; and every step is looked at, once, with the noise that was settled."""
    target = ROUNDS[name]
    for world in (0, 1):
        seen = target.run(world, Simulation(any_seed))
        run = Run(target.settled, Simulation(any_seed))
        assert np.array_equal(seen["rows"].astype(np.float32), target.strategy.publish(target.entries[world], run))
        assert list(seen) == [one.step.name for one in target.settled]
        again = target.expected(world, seen, Simulation(any_seed))
        for one in target.settled:
            drawn = (seen[one.step.name] - again[one.step.name]) / one.grid.step
            assert np.abs(drawn - np.rint(drawn)).max() < 1e-3
            assert 0 < np.abs(drawn).max() < 10 * one.grid.sigma / one.grid.step


def test_a_step_goes_on_from_what_was_seen(any_seed):
    """Shown other rows of a first round, the second round's exact sums are others: the attack is adaptive."""
    target = ROUNDS["guided: a popular item"]
    seen = target.run(0, Simulation(any_seed))
    other = {**seen, "rows of round 1": np.roll(seen["rows of round 1"], 1, axis=0)}
    one, two = (target.expected(0, shown, Simulation(any_seed)) for shown in (seen, other))
    assert np.array_equal(one["rows of round 1"], two["rows of round 1"])
    assert not np.allclose(one["rows of round 2"], two["rows of round 2"])


@pytest.mark.parametrize("name", ROUNDS)
def test_neighbours_are_within_the_claim_in_all_steps_together(name, any_seed):
    """Along whatever the adversary has seen: real outputs of either input, and outputs that could never come."""
    target, rng = ROUNDS[name], np.random.default_rng(any_seed)
    far = []
    for attempt in range(6):
        seen = target.run(attempt % 2, Simulation(any_seed + attempt))
        if attempt > 3:
            seen = {step: rows[rng.permutation(len(rows))] * 10.0 ** rng.integers(-6, 6) for step, rows in seen.items()}
        far.append(scored(target, seen, Simulation(any_seed + attempt)).distance / target.mu)
    assert max(far) <= 1
    assert max(far) > (0.9 if name in FAR else 0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ROUNDS)
def test_an_adversary_who_is_shown_every_step_stays_within_the_guarantee(name, rng):
    tally = transcript_ours(ROUNDS[name], trials=250 if name in FAR else 80, rng=rng)
    assert not tally.refutes(ROUNDS[name].mu), tally


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["spectral: a popular item", "guided: a popular item", "spectral: a user replaced"])
def test_scores_are_spread_as_the_accounting_says(name, rng):
    """Sharper than counting guesses: given what was seen, each score is normal with a known mean and spread."""
    target = ROUNDS[name]
    truth, runs = scored_runs(target, trials=250, rng=rng)
    assert max(one.distance for one in runs) <= target.mu
    normal = np.array([one.normal(int(world)) for world, one in zip(truth, runs, strict=True)])
    assert scale_p_value(normal, 1.0) > ALPHA
    assert shape_p_value(normal, 1.0) > ALPHA
    assert abs(normal.mean()) < 5 / len(normal) ** 0.5
    assert scale_p_value(0.7 * normal, 1.0) < ALPHA  # what 0.7 times the noise would look like


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in FAR if "beside" not in name])
def test_an_adversary_who_is_shown_every_step_catches_too_little_noise(name, rng):
    cheating = replace(ROUNDS[name], noise_scale=0.5)
    tally = transcript_ours(cheating, trials=500, rng=rng)
    assert tally.refutes(cheating.mu), tally
    assert refutation_power(500, claimed=cheating.mu, true=0.94 * cheating.mu / 0.5) > 1 - 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["spectral: a popular item", "guided: a popular item"])
def test_an_adversary_who_simulates_releases_stays_within_the_guarantee(name, rng):
    tally = simulating_ours(ROUNDS[name], trials=300, training=200, rng=rng)
    assert not tally.refutes(ROUNDS[name].mu), tally


@pytest.mark.statistical
def test_an_adversary_who_simulates_releases_catches_a_quarter_of_the_noise(rng):
    cheating = replace(ROUNDS["guided: a popular item"], noise_scale=0.25)
    tally = simulating_ours(cheating, trials=300, training=200, rng=rng)
    assert tally.refutes(cheating.mu), tally


def test_what_takes_notes_is_gone_afterwards():
    target = ROUNDS["guided, one round: a popular item"]
    with trace_steps() as transcript:
        pass
    target.strategy.publish(target.entries[0], Run(target.settled, Simulation(1)))
    assert transcript == {}


def test_the_bound_counts_what_integer_noise_adds():
    target = TARGETS[0]
    assert target.mu / total_mu(target.way.settled(target.pair)) == pytest.approx(LATTICE_FACTOR, rel=1e-12)
