"""Attacks on rows with E known: membership by likelihood ratio, and the last bits of what is published."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from pricdr import Bounds, Guarantee
from pricdr.privacy.accounting import delta_of, mu_of
from pricdr.privacy.noise import probabilities
from pricdr.strategies import JLT, SJLT
from tests.attacks import flawed
from tests.attacks.evidence import decide, guess_bound, refutation_power
from tests.attacks.row_trials import (
    low_bits_flawed,
    low_bits_ours,
    membership_flawed,
    membership_ours,
)
from tests.attacks.rows import likelihood_ratio, low_bits, residue_counts
from tests.attacks.table import PAPER_DELTA
from tests.attacks.target import Setting, neighbouring_ratings, private_release, settings
from tests.laws import ALPHA

TRIALS = 8000
EVERY = settings(16)
VALUES = [Setting(strategy=s, bounds=Bounds(rating_bound=5)) for s in (JLT(dim=16), SJLT(dim=16))]
STRENGTHS = [replace(EVERY[0], epsilon=epsilon) for epsilon in (0.5, 1.0, 16.0)]


@pytest.mark.statistical
@pytest.mark.parametrize("setting", [*EVERY, *VALUES], ids=str)
def test_the_best_membership_attack_stays_within_the_guarantee_and_would_catch_too_little_noise(setting, rng):
    honest = membership_ours(setting, trials=TRIALS, rng=rng)
    assert not honest.refutes(setting.mu), honest
    cheating = membership_ours(setting, trials=TRIALS, rng=rng, noise_scale=0.7)
    assert cheating.refutes(setting.mu), cheating


def test_the_power_of_that_test_is_computed():
    """Neighbours are at least 0.93 of the sensitivity apart; 0.7 times the noise is then caught all but surely."""
    mu = EVERY[0].mu
    assert refutation_power(TRIALS, claimed=mu, true=0.93 * mu / 0.7) > 1 - 1e-5
    assert refutation_power(TRIALS, claimed=mu, true=mu / 0.7) > 1 - 1e-9
    assert refutation_power(TRIALS, claimed=mu, true=mu) < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("setting", STRENGTHS, ids=lambda s: f"epsilon {s.epsilon:g}")
def test_membership_at_other_strengths_comes_close_to_the_bound_and_not_beyond(setting, rng):
    tally = membership_ours(setting, trials=TRIALS, rng=rng)
    assert not tally.refutes(setting.mu), tally
    assert tally.success > guess_bound(0.93 * setting.mu) - 6 * np.sqrt(0.25 / TRIALS)


@pytest.mark.parametrize(("nominal", "true"), [(0.25, 0.42), (1, 1.97), (4, 9.5), (16, 49), (64, 264)])
def test_an_epsilon_per_column_is_not_the_epsilon(nominal, true):
    """The reference code's ε at k = 400, δ = 1/16367, against what section 2 of the theory states as the true one.

    Its rows are not normalised, so the profile is an average over their length (section 3).
    """
    length = np.linspace(14, 26, 400)  # of a Gaussian row of 400, 8 standard deviations either way
    weight = stats.chi(400).pdf(length) * (length[1] - length[0])
    w = flawed.per_column_w(nominal, PAPER_DELTA, dim=400)

    def excess(epsilon):
        return sum(p * delta_of(s / w, epsilon) for p, s in zip(weight, length, strict=True)) - PAPER_DELTA

    assert brentq(excess, 0.1, 500) == pytest.approx(true, rel=0.015)


@pytest.mark.statistical
@pytest.mark.parametrize("nominal", [4, 16])
def test_membership_refutes_an_epsilon_per_column(nominal, rng):
    tally = membership_flawed(epsilon=nominal, delta=PAPER_DELTA, dim=400, trials=4000, rng=rng)
    assert tally.refutes(mu_of(nominal, PAPER_DELTA)), tally
    assert not tally.refutes(1.15 * _per_column_mu(nominal)), tally  # rows of E are not normalised there


def _per_column_mu(nominal):
    return 20 / flawed.per_column_w(nominal, PAPER_DELTA, dim=400)


@pytest.mark.statistical
@pytest.mark.parametrize("dim", [64, 200])
def test_the_last_bits_of_double_precision_noise_betray_the_signal(dim, rng):
    assert low_bits_flawed(settings(dim)[0], trials=200, rng=rng).right >= 199


def test_the_right_signal_makes_no_value_impossible(rng):
    """The attack has no false alarms: under the true signal every value fits, whatever σ and the size of the signal."""
    for sigma in (0.3, 1.19, 7.7):
        signal = rng.standard_normal((50, 40)) * rng.choice([1e-6, 0.1, 30.0], (50, 1))
        published = signal + sigma * rng.standard_normal(signal.shape)
        assert (low_bits(published, signal + 0.1, signal, sigma) >= 0).all()
        assert (low_bits(published, signal + 0.1, signal, sigma) > 0).mean() > 0.5


@pytest.mark.statistical
@pytest.mark.parametrize("setting", settings(64), ids=str)
def test_the_last_bits_of_ours_betray_nothing(setting, rng):
    tally = low_bits_ours(setting, trials=1000, rng=rng)
    assert not tally.refutes(setting.mu), tally


@pytest.mark.statistical
@pytest.mark.parametrize("setting", settings(64), ids=str)
def test_the_last_bits_of_published_integers_are_uniform(setting, rng):
    """Chi-square of the residues of the published grid steps, of private releases of either neighbour."""
    release = private_release(setting, neighbouring_ratings(setting, 64, rng))
    for world in (0, 1):
        published = release(world)
        steps = np.rint(published.matrix / published.certificate.grid).astype(np.int64)
        for modulus in (2, 16):
            assert stats.chisquare(residue_counts(steps, modulus)).pvalue > ALPHA
            assert stats.chisquare(residue_counts(2 * steps, modulus)).pvalue < ALPHA


def test_the_likelihood_ratio_is_the_exact_one_of_the_discrete_gaussian():
    """On the grid its sign is that of the ratio of exact probabilities."""
    exact = probabilities()
    for step in (-900, -3, 200, 451, 1700):
        for shift in (1, 400, 901):
            ratio = likelihood_ratio([[step]], np.array([[0.0]]), np.array([[float(shift)]]))[0]
            more_likely = exact[abs(step - shift)] > exact[abs(step)]
            assert decide([ratio], np.random.default_rng(0))[0] == more_likely or ratio == 0


def test_settings_promise_what_they_say():
    assert EVERY[0].guarantee == Guarantee(epsilon=4, delta=1e-6)
    assert len({str(setting) for setting in (*EVERY, *VALUES)}) == 10
