"""The yardstick of every attack test: it must accept what is allowed and refuse what is not."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from pricdr.privacy.accounting import delta_of
from pricdr.privacy.noise import probabilities
from tests.attacks.evidence import Tally, contest, decide, guess_bound, power_bound, refutation_power
from tests.attacks.rows import likelihood_ratio, low_bits

mus = st.floats(0.01, 8)
rates = st.floats(1e-9, 1 - 1e-9)


@given(rates, mus)
def test_the_power_bound_is_the_certified_profile(rate, mu):
    """Power <= e^ε α + δ(ε) for every ε, with equality at the ε whose line touches the curve."""
    epsilons = np.linspace(0, 3 * mu * mu + 3 * mu, 400)
    allowed = [np.exp(e) * rate + delta_of(mu, e) for e in epsilons]
    assert power_bound(rate, mu) <= min(allowed) * (1 + 1e-9)
    touching = -mu * stats.norm.ppf(rate) - mu * mu / 2
    if 0 <= touching < 500:
        assert power_bound(rate, mu) == pytest.approx(np.exp(touching) * rate + delta_of(mu, touching), rel=1e-6)


@given(rates, mus)
def test_the_guess_bound_is_the_best_average_over_all_false_alarm_rates(rate, mu):
    average = (1 - rate + power_bound(rate, mu)) / 2
    assert average <= guess_bound(mu) + 1e-12
    best = stats.norm.cdf(-mu / 2)
    assert (1 - best + power_bound(best, mu)) / 2 == pytest.approx(guess_bound(mu))


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("mu", [0.3, 2.5])
def test_a_true_claim_is_refuted_less_often_than_stated(rate, mu):
    """Exactly, by enumerating every outcome of the best attack at this false alarm rate."""
    size, level = 40, 0.05
    refuted = sum(
        stats.binom.pmf(alarms, size, rate) * stats.binom.pmf(hits, size, power_bound(rate, mu))
        for alarms in range(size + 1)
        for hits in range(size + 1)
        if Tally(size, alarms, size, hits).refutes(mu, level=level)
    )
    assert refuted <= level


def test_an_attack_that_is_seldom_sure_but_never_wrong_is_caught_and_one_that_is_always_right_in_forty_trials():
    """Right in 55 % of all guesses, which the average alone would allow, but without a single false alarm."""
    tally = Tally(absent=2000, false_alarms=0, present=2000, hits=200)
    assert tally.success < guess_bound(0.84)
    mirrored = Tally(absent=2000, false_alarms=1800, present=2000, hits=2000)
    assert all(one.refutes(0.84) for one in (tally, mirrored, Tally(20, 0, 20, 20), Tally(0, 0, 40, 40)))
    assert not Tally(20, 10, 20, 10).refutes(0.0)


@pytest.mark.statistical
@pytest.mark.parametrize("ratio", [0.7, 0.8])
def test_the_computed_power_is_reached(ratio, rng):
    trials, claimed = 4000, 0.84
    power = refutation_power(trials, claimed=claimed, true=claimed / ratio)
    right = rng.binomial(trials, guess_bound(claimed / ratio), size=2000)
    rejection_rate = np.mean(stats.binom.sf(right - 1, trials, guess_bound(claimed)) < 1e-6 / 3)
    assert abs(rejection_rate - power) < 6 * np.sqrt(0.25 / 2000)


def test_ties_and_missing_scores_are_decided_by_coins(rng):
    assert decide([3.0, -2.0], rng).tolist() == [True, False]
    coins = decide(np.r_[np.zeros(1000), np.full(1000, np.nan)], rng)
    assert 700 < coins.sum() < 1300


def test_a_contest_shows_each_attack_the_same_releases(rng):
    seen = []
    attacks = {"perfect": lambda world: world - 0.5, "note": lambda world: seen.append(world) or 0.0}
    tallies = contest(lambda world: world, attacks, trials=50, rng=rng)
    assert tallies["perfect"].success == 1
    assert sum(seen) == tallies["perfect"].present == tallies["note"].present


def test_the_right_signal_makes_no_value_impossible(rng):
    """The last bits raise no false alarm: under the true signal every value fits, whatever σ and the signal's size."""
    for sigma in (0.3, 1.19, 7.7):
        signal = rng.standard_normal((50, 40)) * rng.choice([1e-6, 0.1, 30.0], (50, 1))
        published = signal + sigma * rng.standard_normal(signal.shape)
        assert (low_bits(published, signal + 0.1, signal, sigma) >= 0).all()
        assert (low_bits(published, signal + 0.1, signal, sigma) > 0).mean() > 0.5


def test_the_likelihood_ratio_is_the_exact_one_of_the_discrete_gaussian():
    """On the grid its sign is that of the ratio of exact probabilities."""
    exact = probabilities()
    for step in (-900, -3, 200, 451, 1700):
        for shift in (1, 400, 901):
            ratio = likelihood_ratio([[step]], np.array([[0.0]]), np.array([[float(shift)]]))[0]
            more_likely = exact[abs(step - shift)] > exact[abs(step)]
            assert decide([ratio], np.random.default_rng(0))[0] == more_likely or ratio == 0
