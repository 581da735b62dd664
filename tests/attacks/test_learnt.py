"""What attacks on learnt directions rest on: all rows, every step as it is run, and scores as they should be spread."""

import numpy as np
import pytest

from pricdr.privacy.mechanism import Run
from pricdr.randomness import Simulation
from tests.attacks.evidence import Tally, decide
from tests.attacks.learnt import whole_matrix_ours
from tests.attacks.table import FAR, ROUNDS, TARGETS, TRIALS
from tests.attacks.transcript import scored, scored_runs
from tests.laws import ALPHA, scale_p_value, shape_p_value


@pytest.mark.statistical
def test_one_row_does_not_show_what_the_matrix_does(rng):
    """Where raters cancel, the loss is in everybody else's rows: an attack on the user's own would miss it."""
    (target,) = (target for target in TARGETS if target.name == "raters who cancel")
    own = slice(-1, None)
    assert whole_matrix_ours(target, trials=TRIALS, rng=rng, rows=own).success < 0.55
    assert whole_matrix_ours(target, trials=TRIALS, rng=rng).success > 0.6


@pytest.mark.parametrize("name", ROUNDS)
def test_the_steps_laid_open_are_those_that_are_published(name, any_seed):
    """Looking changes nothing; and every step is looked at, once, with the noise that was calibrated."""
    target = ROUNDS[name]
    for world in (0, 1):
        seen = target.run(world, Simulation(any_seed))
        run = Run(target.calibrated, Simulation(any_seed))
        assert np.array_equal(seen["rows"].astype(np.float32), target.strategy.publish(target.entries[world], run))
        assert list(seen) == [one.step.name for one in target.calibrated]
        again = target.expected(world, seen, Simulation(any_seed))
        for one in target.calibrated:
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
def test_who_is_shown_every_step_stays_within_the_bound_and_scores_as_the_accounting_says(name, rng):
    """Sharper than counting guesses: given what was seen, each score is normal with a known mean and spread."""
    target = ROUNDS[name]
    truth, runs = scored_runs(target, trials=250 if name in FAR else 40, rng=rng)
    assert not Tally.of(truth, decide([one.score for one in runs], rng)).refutes(target.mu)
    assert max(one.distance for one in runs) <= target.mu
    normal = np.array([one.normal(int(world)) for world, one in zip(truth, runs, strict=True)])
    assert scale_p_value(normal, 1.0) > ALPHA
    assert shape_p_value(normal, 1.0) > ALPHA
    assert abs(normal.mean()) < 5 / len(normal) ** 0.5
    if name in FAR:
        assert scale_p_value(0.7 * normal, 1.0) < ALPHA  # what 0.7 times the noise would look like
