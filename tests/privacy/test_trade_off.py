"""The curve of false alarms against detections: it is the accounting's own, it is attained, and a test has power."""

import math
import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from pricdr.privacy.accounting import GRID_STEPS, LATTICE_FACTOR, TradeOff, delta_of, epsilon_of
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.randomness import Simulation
from tests.laws import ALPHA

MUS = st.floats(0.01, 8)
RATES = st.floats(1e-6, 1 - 1e-6)


def curve(mu, delta=1e-6):
    return TradeOff(mu, epsilon_of(mu * LATTICE_FACTOR, delta), delta)


@given(MUS, RATES)
def test_it_is_the_gaussian_formula(mu, alpha):
    """f(α) = Φ(Φ⁻¹(1 − α) − μ′), the missed detections, written in terms of scipy's own law."""
    missed = norm.cdf(norm.isf(alpha) - mu * LATTICE_FACTOR)
    assert curve(mu).detections(alpha) == pytest.approx(1 - missed, abs=1e-12)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_it_is_the_envelope_of_what_the_accounting_promises(mu):
    """Every (ε, δ(ε)) of the accounting bounds detections by a line; the lowest of them all is the curve."""
    epsilons = np.linspace(0, 12 * mu + mu * mu, 1001)
    promises = [TradeOff(mu, epsilon, delta_of(mu * LATTICE_FACTOR, epsilon)) for epsilon in epsilons]
    for alpha in (0.001, 0.01, 0.05, 0.2, 0.5, 0.9):
        lines = [promise.detections_by_guarantee(alpha) for promise in promises]
        exact = curve(mu).detections(alpha)
        assert exact <= min(lines) + 1e-12
        assert min(lines) == pytest.approx(exact, rel=1e-3)


@given(st.floats(1e-9, 1e50))
def test_the_points_of_the_curve_rise_from_corner_to_corner(mu):
    points = TradeOff(mu, 1.0, 1e-6).curve()
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (1.0, 1.0)
    assert points == sorted(points)
    assert all(0 <= x <= 1 and x <= y + 1e-12 for x, y in points)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 4.0, 50.0, 800.0, 1e9])
def test_the_corners_lie_on_the_bound(epsilon):
    bound = TradeOff(1.0, epsilon, 1e-6)
    corners = bound.guarantee_corners()
    assert corners[-1] == (1.0, 1.0)
    for x, y in corners:
        assert bound.detections_by_guarantee(x) == pytest.approx(y, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_the_best_test_reaches_the_curve_and_rules_out_others(alpha):
    """The likelihood-ratio test on the integer noise itself: it accepts μ and rejects 0.9 and 1.1 times μ."""
    seed = secrets.randbits(62)
    count, mu = 200_000, 1.0
    noise = DiscreteGaussian(Simulation(seed), "trade-off").draw(0, 2 * count)
    without, changed = noise[:count], noise[count:] + round(mu * GRID_STEPS)
    # The smallest threshold with a rate of false alarms of at most α under the law itself, not under the sample.
    threshold = math.ceil(norm.isf(alpha) * GRID_STEPS)
    alarms = float(norm.sf((threshold - 0.5) / GRID_STEPS))
    found = int((changed >= threshold).sum())
    assert binomtest(int((without >= threshold).sum()), count, alarms).pvalue > ALPHA, seed
    assert binomtest(found, count, TradeOff(mu, 1.0, 1e-6).detections(alarms)).pvalue > ALPHA, seed
    for wrong in (0.9, 1.1):
        claimed = TradeOff(wrong * mu, 1.0, 1e-6).detections(alarms)
        assert binomtest(found, count, claimed).pvalue < ALPHA, (seed, wrong)
