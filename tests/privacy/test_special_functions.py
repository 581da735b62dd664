"""Quantiles and the profile as the accounting and the checks use them, against 50-digit arithmetic."""

import mpmath as mp
import pytest
from scipy.special import gammainc, gammainccinv, gammaincinv

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


@pytest.mark.parametrize("a", [0.5, 1.0, 4.0, 200.0, 12_345.5])
@pytest.mark.parametrize("p", [0.5, 0.1, 1e-3, 1e-12, 1e-21])
def test_gamma_quantiles(a, p):
    """For large shapes ``gammaincinv`` loses digits: at 5e6 a probability of 1e-12 is 0.1 % too large, at 1e8 30 %."""
    assert relative_error(mp.gammainc(a, 0, float(gammaincinv(a, p)), regularized=True), mp.mpf(p)) < CLOSE
    assert relative_error(mp.gammainc(a, float(gammainccinv(a, p)), mp.inf, regularized=True), mp.mpf(p)) < CLOSE


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
