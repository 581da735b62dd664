"""A budget is a filter: an adversary who chooses every release by looking at those before it gains nothing beyond it.

Releases are simulated by what they are worth at most, N(0, 1) against N(μ, 1). Whoever sees them keeps the likelihood
ratio, chooses the next μ by it, and in the end guesses by it, which is the best that can be done.
"""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from pricdr.privacy.accounting import delta_of, epsilon_of

BUDGET = 1.0
"""μ of the whole budget."""
RUNS = 100_000
STEPS = 60
LIMIT = 4
"""Standard errors that chance may give; a flawed filter must exceed twice as many."""
ALARMS = (0.01, 0.05, 0.2, 0.5)


def chase(ratio, spent):
    """Spend much while it is still open, and little once it looks decided."""
    return np.where(np.abs(ratio) < 0.5, 0.4, 0.1)


def give_up(ratio, spent):
    """Stop as soon as the evidence is strong; otherwise go on."""
    return np.where(ratio > 1.5, 0.0, 0.25)


def double(ratio, spent):
    """Raise the stakes when the evidence turns against the change."""
    return np.where(ratio < 0, 0.5, 0.125)


def all_that_is_left(ratio, spent):
    """Half of what is left where it looks like a change, all of it otherwise."""
    left = np.sqrt(np.maximum(BUDGET**2 - spent, 0))
    return np.where(ratio > 0, left / 2**0.5, left)


def play(strategy, changed, generator, *, counted=lambda mu, step: mu**2):
    """The log likelihood ratio at the end of each run; ``counted`` is what the filter writes down for a release."""
    ratio, spent = np.zeros(RUNS), np.zeros(RUNS)
    for _ in range(STEPS):
        mu = strategy(ratio, spent)
        mu = np.where(spent + mu**2 <= BUDGET**2 * (1 + 1e-12), mu, 0.0)  # the filter refuses before anything is drawn
        seen = generator.standard_normal(RUNS) + changed * mu
        step = mu * seen - mu**2 / 2
        ratio += step
        spent += counted(mu, step)
    return ratio


def excess(strategy, seed, **flaw):
    """The most standard errors by which detection exceeds the budget's own curve, over several false-alarm rates."""
    generator = np.random.default_rng(seed)
    quiet, changed = (play(strategy, truth, generator, **flaw) for truth in (0.0, 1.0))
    worst = -np.inf
    for alarm in ALARMS:
        at = np.quantile(quiet, 1 - alarm)
        allowed = ndtr(ndtri(np.mean(quiet > at)) + BUDGET)
        slope = np.exp(-(ndtri(1 - allowed) ** 2 - ndtri(1 - alarm) ** 2) / 2)
        error = np.sqrt((allowed * (1 - allowed) + slope**2 * alarm * (1 - alarm)) / RUNS)
        worst = max(worst, (np.mean(changed > at) - allowed) / error)
    return worst


@pytest.mark.parametrize("strategy", [chase, give_up, double, all_that_is_left])
def test_no_adaptive_strategy_beats_the_curve_of_the_budget(strategy):
    assert excess(strategy, seed=1) < LIMIT


def test_a_strategy_that_spends_everything_reaches_the_curve():
    """So the simulation could tell: it is tight."""
    assert excess(all_that_is_left, seed=2) > -LIMIT


@pytest.mark.parametrize(
    ("strategy", "counted"),
    [
        (chase, lambda mu, step: np.where(step < 0, 0.0, mu**2)),  # refunds what looked harmless
        (double, lambda mu, step: np.where(step < 0, 0.0, mu**2)),
        (chase, lambda mu, step: np.where(mu < 0.2, 0.0, mu**2)),  # forgets small releases
        (chase, lambda mu, step: mu**2 / 2),  # counts half
    ],
)
def test_a_flawed_filter_is_caught(strategy, counted):
    assert excess(strategy, seed=3, counted=counted) > 2 * LIMIT


def test_what_is_spent_so_far_is_no_promise_where_the_moment_to_stop_was_chosen():
    """An odometer would have to hold for whoever stops when its reading looks worst; ε of what was spent does not.

    Over growing releases the adversary stops as soon as the ratio exceeds the ε that was spent until then.
    """
    delta, generator = 0.01, np.random.default_rng(6)
    ratio, going, spent, lost = np.zeros(RUNS), np.ones(RUNS, dtype=bool), 0.0, np.zeros(RUNS)
    for mu in np.diff([0.0, 0.05**2, 0.1**2, 0.2**2, 0.4**2, 0.8**2]) ** 0.5:
        ratio += np.where(going, mu * (generator.standard_normal(RUNS) + mu) - mu**2 / 2, 0.0)
        spent += mu**2
        epsilon = epsilon_of(spent**0.5, delta)
        stops = going & (ratio > epsilon)
        lost += np.where(stops, 1 - np.exp(epsilon - ratio), 0.0)
        going &= ~stops
    assert lost.mean() - 4 * lost.std() / RUNS**0.5 > 1.5 * delta
    final = epsilon_of(spent**0.5, delta)
    kept = np.maximum(1 - np.exp(final - ratio), 0.0)  # the same adversary against the budget
    assert kept.mean() - 4 * kept.std() / RUNS**0.5 < delta_of(spent**0.5, final) * (1 + 1e-9)
