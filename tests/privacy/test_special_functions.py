"""scipy's special functions where the accounting and the checks use them, against 50-digit arithmetic."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import betainc, betainccinv, erfcx, gammainc, gammainccinv, gammaincinv, ndtr, ndtri

from pricdr.privacy.accounting import delta_of, epsilon_of, mu_of
from pricdr.release.checks import floor_of

CLOSE = 1e-11
"""``verify`` allows 1e-9."""


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(50):
        yield


def relative_error(value: float, true: mp.mpf) -> float:
    return float(abs(mp.mpf(float(value)) - true) / abs(true))


def test_the_scaled_error_function():
    points = [*np.random.default_rng(0).uniform(-1, 30, 150).tolist(), -1e-9, 0.0, 1e-9, 9.9999, 10.0, 1e3]
    assert max(relative_error(erfcx(x), mp.exp(mp.mpf(x) ** 2) * mp.erfc(mp.mpf(x))) for x in points) < 1e-14


def test_the_normal_distribution_in_its_tails_too():
    points = [*np.random.default_rng(1).uniform(-37.5, 8, 150).tolist(), -37.5, -1.0, 0.0]
    assert max(relative_error(ndtr(x), mp.ncdf(mp.mpf(x))) for x in points) < CLOSE
    for p in (1e-300, 1e-100, 1e-15, 0.02425, 0.05, 0.3, 0.5 - 1e-9, 0.7, 0.999, 1 - 1e-15):
        assert relative_error(ndtri(p), mp.findroot(lambda x, p=p: mp.ncdf(x) / mp.mpf(p) - 1, float(ndtri(p)))) < CLOSE


@pytest.mark.parametrize("a", [0.5, 1.0, 4.0, 200.0, 12_345.5])
@pytest.mark.parametrize("p", [0.5, 0.1, 1e-3, 1e-12, 1e-21])
def test_gamma_quantiles(a, p):
    """For large shapes ``gammaincinv`` loses digits: at 5e6 a probability of 1e-12 is 0.1 % too large, at 1e8 30 %."""
    assert relative_error(mp.gammainc(a, 0, float(gammaincinv(a, p)), regularized=True), mp.mpf(p)) < CLOSE
    assert relative_error(mp.gammainc(a, float(gammainccinv(a, p)), mp.inf, regularized=True), mp.mpf(p)) < CLOSE


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1, 1), (1, 100), (5, 3), (301, 700)])
def test_beta_probabilities(a, b):
    mean = a / (a + b)
    for z in (-8, -3, -1, -0.1):
        x = mean + z * math.sqrt(a * b / (a + b) ** 3)
        x = x if x > 0 else mean * 10.0**z
        assert relative_error(betainc(a, b, x), mp.betainc(a, b, 0, x, regularized=True)) < CLOSE


def _at_most(errors: int, trials: int, rate: mp.mpf) -> mp.mpf:
    """The probability of so few errors, added up from the most likely one down."""
    if rate >= 1:
        return mp.mpf(0)
    term = mp.exp(
        mp.loggamma(trials + 1)
        - mp.loggamma(errors + 1)
        - mp.loggamma(trials - errors + 1)
        + errors * mp.log(rate)
        + (trials - errors) * mp.log(1 - rate)
    )
    total, k = term, errors
    while k and term > total * mp.mpf(10) ** -30:
        term *= k * (1 - rate) / ((trials - k + 1) * rate)
        total += term
        k -= 1
    return total


@pytest.mark.parametrize("trials", [2, 10**4, 10**6])
def test_clopper_pearson_bounds(trials):
    """The bound is compared, not its probability, which moves by many times more than a rate of errors."""
    for errors in {0, 1, trials // 100, trials // 2}:
        for q in (0.5, 0.025, 1e-6, 1e-12):
            found = mp.mpf(float(betainccinv(errors + 1, trials - errors, q)))
            apart = mp.mpf(CLOSE) * found
            assert _at_most(errors, trials, found - apart) > mp.mpf(q) > _at_most(errors, trials, found + apart)


@pytest.mark.parametrize("count", [1, 16, 800, 999_999, 1_000_000, 10**7, 10**8, 10**10])
@pytest.mark.parametrize("level", [0.5, 0.1, 1e-3, 1e-12, 1e-12 / 10**8])
def test_noise_alone_falls_below_a_floor_with_at_most_the_stated_probability(count, level):
    floor = floor_of(count, level)
    below = gammainc(count / 2, floor**2 / 2)  # good to 30 % from a million numbers on, where the bound leaves more
    assert below <= (level * (1 + 1e-6) if count < 1_000_000 else level / 3)
    # And it gives little away: the exact quantile is at most 0.85 standard normal numbers longer.
    assert gammainc(count / 2, (floor + 0.85) ** 2 / 2) > level


def _profile(mu: float, epsilon: float) -> mp.mpf:
    """δ of a Gaussian mechanism, by its formula."""
    upper, lower = (mp.mpf(sign) * mp.mpf(mu) / 2 - mp.mpf(epsilon) / mp.mpf(mu) for sign in (1, -1))
    return mp.ncdf(upper) - mp.exp(mp.mpf(epsilon)) * mp.ncdf(lower)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 4.0, 20.0, 100.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-10, 1e-6, 1e-3])
def test_calibration_errs_on_the_safe_side(epsilon, delta):
    """In exact arithmetic, the calibrated μ never exceeds the promised δ."""
    with mp.workdps(60):
        mu = mu_of(epsilon, delta)
        tolerance = 0 if epsilon > 1e-3 else mp.mpf(10) ** -9
        assert _profile(mu, epsilon) <= mp.mpf(delta) * (1 + tolerance)
        assert _profile(mu * (1 + 1e-9), epsilon) > mp.mpf(delta)  # and no larger μ keeps it
        assert relative_error(delta_of(mu, epsilon), _profile(mu, epsilon)) < 1e-10
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-9)
