"""Our special functions against mpmath with 30 or more digits, and against scipy where that is accurate."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from pricdr.privacy.calibration import delta_of, epsilon_of, mu_of
from pricdr.privacy.special_functions import (
    beta_cdf,
    beta_upper_quantile,
    binomial_probabilities,
    gamma_cdf,
    gamma_quantile,
    gamma_tail,
    gamma_upper_quantile,
    normal_cdf,
    normal_quantile,
    scaled_erfc,
)


@pytest.fixture(autouse=True)
def _thirty_digits():
    with mp.workdps(30):
        yield


def relative_error(value: float, true: mp.mpf) -> float:
    return float(abs(mp.mpf(value) - true) / abs(true))


EVERYWHERE = [*np.random.default_rng(0).uniform(-26, 30, 150).tolist(), -26.5, -1e-9, 0.0, 1e-9, 9.9999, 10.0, 1e3]


def test_the_scaled_error_function_is_within_2e_15():
    assert max(relative_error(scaled_erfc(x), mp.exp(mp.mpf(x) ** 2) * mp.erfc(mp.mpf(x))) for x in EVERYWHERE) < 2e-15
    assert scaled_erfc(1e200) == pytest.approx(1e-200 / math.sqrt(math.pi), rel=2e-15)
    assert scaled_erfc(-27.0) == math.inf


def test_the_normal_distribution_is_within_2e_15_in_its_tails_too():
    points = [*np.random.default_rng(1).uniform(-37.5, 8, 150).tolist(), -37.5, -1.0001, -1.0, -0.9999, 0.0]
    assert max(relative_error(normal_cdf(x), mp.ncdf(mp.mpf(x))) for x in points) < 2e-15
    assert (normal_cdf(-math.inf), normal_cdf(-40.0), normal_cdf(math.inf)) == (0.0, 0.0, 1.0)
    assert math.isnan(normal_cdf(math.nan))


@pytest.mark.parametrize("p", [1e-300, 1e-100, 1e-15, 1e-6, 0.02425, 0.05, 0.3, 0.5 - 1e-9, 0.7, 0.999, 1 - 1e-15])
def test_normal_quantiles_are_within_2e_15(p):
    found = normal_quantile(p)
    true = mp.mpf(found)
    for _ in range(3):
        true -= (mp.ncdf(true) - mp.mpf(p)) / mp.npdf(true)
    assert relative_error(found, true) < 2e-15


def test_normal_quantiles_at_their_limits():
    assert (normal_quantile(0.0), normal_quantile(1.0), normal_quantile(0.5)) == (-math.inf, math.inf, 0.0)
    assert math.isnan(normal_quantile(1.1))
    assert math.isnan(normal_quantile(-0.1))


def _gamma_truth(a: float, x: float) -> mp.mpf:
    """P(a, x) by its series of positive terms."""
    shape, at = mp.mpf(a), mp.mpf(x)
    total = term = mp.mpf(1)
    k = 0
    while term > total * 1e-28:
        k += 1
        term *= at / (shape + k)
        total += term
    return total * mp.exp(shape * mp.log(at) - at - mp.loggamma(shape + 1))


@pytest.mark.parametrize("a", [0.5, 1.0, 4.0, 100.5, 12_345.5])
def test_gamma_probabilities_are_within_1e_12_down_to_1e_300(a):
    compared = 0
    for z in (-37, -20, -8, -3, -1, 0, 1, 3, 6):
        near = 1 - 1 / (9 * a) + z / (3 * math.sqrt(a))
        x = a * (near**3 if near > 0 else 10.0**z)
        below = _gamma_truth(a, x)
        if below > 1e-300:
            assert relative_error(gamma_cdf(a, x), below) < 1e-12
            assert relative_error(gamma_tail(a, x), 1 - below) < 1e-12
            compared += 1
    assert compared > 5


@pytest.mark.parametrize("a", [0.5, 3.0, 400.0])
@pytest.mark.parametrize("reach", [3.0, 20.0])
def test_upper_gamma_tails_are_within_1e_12(a, reach):
    x = a + reach * max(a, 1.0) ** 0.5 * 1.5
    assert relative_error(gamma_tail(a, x), mp.gammainc(mp.mpf(a), mp.mpf(x), mp.inf, regularized=True)) < 1e-12


def _beta_truth(a: float, b: float, x: mp.mpf) -> mp.mpf:
    """I_x(a, b) below the mean, by its series of positive terms."""
    total = term = mp.mpf(1)
    k = 0
    while term > total * 1e-20:
        term *= (mp.mpf(a) + b + k) / (mp.mpf(a) + 1 + k) * x
        total += term
        k += 1
    gammas = mp.loggamma(mp.mpf(a) + b) - mp.loggamma(mp.mpf(a) + 1) - mp.loggamma(b)
    return total * mp.exp(a * mp.log(x) + b * mp.log(1 - x) + gammas)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1, 1), (1, 100), (5, 3), (301, 700), (1000, 2e4), (3e4, 3e4)])
def test_beta_probabilities_are_within_1e_12_down_to_1e_300(a, b):
    mean, compared = a / (a + b), 0
    for z in (-35, -20, -8, -3, -1, -0.1, 0.1, 1, 3, 8):
        x = mean + z * math.sqrt(a * b / (a + b) ** 3)
        if not 0 < x < 1:
            x = mean * 10.0**z if z < 0 else 1 - (1 - mean) * 10.0**-z
        # The exact complement, not that of a rounded 1 − x.
        smaller = _beta_truth(a, b, mp.mpf(x)) if x <= mean else _beta_truth(b, a, 1 - mp.mpf(x))
        if smaller > 1e-300:
            assert relative_error(beta_cdf(a, b, x), smaller if x <= mean else 1 - smaller) < 1e-12
            if 1 - (1 - x) == x:
                assert relative_error(beta_cdf(b, a, 1 - x), 1 - smaller if x <= mean else smaller) < 1e-12
            compared += 1
    assert compared > 5


def test_beta_and_gamma_at_their_limits():
    assert (beta_cdf(2, 3, 0.0), beta_cdf(2, 3, 1.0), gamma_cdf(2.0, 0.0), gamma_tail(2.0, 0.0)) == (0, 1, 0, 1)
    assert beta_cdf(1, 10**6, 1e-12) == pytest.approx(-math.expm1(10**6 * math.log1p(-1e-12)), rel=1e-12)


@pytest.mark.parametrize("a", [0.5, 1.0, 4.0, 200.0, 1e4])
@pytest.mark.parametrize("p", [0.5, 0.1, 1e-3, 1e-12, 1e-21])
def test_gamma_quantiles_are_within_1e_12(a, p):
    assert gamma_quantile(a, p) == pytest.approx(special.gammaincinv(a, p), rel=1e-12)
    assert gamma_upper_quantile(a, p) == pytest.approx(special.gammainccinv(a, p), rel=1e-12)


@pytest.mark.parametrize("a", [1e6, 1e8, 1e9])
@pytest.mark.parametrize("p", [0.5, 1e-3, 1e-12])
def test_gamma_quantiles_of_large_shapes(a, p):
    """scipy 1.17 is off by 30 % in probability at a = 1e8 and p = 1e-12; Cornish and Fisher's expansion is not."""
    z = normal_quantile(p)
    for found, y in ((gamma_quantile(a, p), z), (gamma_upper_quantile(a, p), -z)):
        third = (y**2 - 1) / 3 + (y**3 - 7 * y) / (36 * math.sqrt(a))
        fourth = -(3 * y**4 + 7 * y**2 - 16) / (810 * a)
        assert found == pytest.approx(a + math.sqrt(a) * y + third + fourth, rel=1e-12)


@pytest.mark.parametrize("trials", [1, 2, 100, 10**4, 10**7])
def test_clopper_pearson_bounds_are_within_1e_12(trials):
    for errors in {0, 1, trials // 100, trials // 2, trials - 1}:
        if errors < trials:
            for q in (0.5, 0.025, 1e-6, 1e-12):
                found = beta_upper_quantile(errors + 1, trials - errors, q)
                assert found == pytest.approx(special.betainccinv(errors + 1, trials - errors, q), rel=1e-12)


@pytest.mark.parametrize("trials", [0, 1, 10, 20_000])
@pytest.mark.parametrize("log_odds", [-3.0, 0.0, 0.5, 4.0, 64.0])
def test_binomial_probabilities(trials, log_odds):
    found = binomial_probabilities(trials, log_odds)
    assert found.sum() == pytest.approx(1.0, rel=1e-12)
    with mp.workdps(60):
        chance = 1 / (1 + mp.exp(-mp.mpf(log_odds)))
        for k in {0, trials // 3, trials // 2, int(trials * chance), trials}:
            true = mp.binomial(trials, k) * chance**k * (1 - chance) ** (trials - k)
            assert relative_error(found[k], true) < 1e-9 if true > 1e-290 else found[k] < 1e-289


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
