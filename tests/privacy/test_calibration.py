"""What is promised is what an independent accountant finds: of one σ, of a ledger, and of a certificate's figures."""

import math
import secrets
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event, get_epsilon_gaussian, get_sigma_gaussian as independent_sigma
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from hypothesis import given, strategies as st
from scipy.special import betainc, betainccinv, erfcx, gammainc, gammainccinv, gammaincinv, ndtr, ndtri
from scipy.stats import binomtest, norm

from pricdr import Bounds, Guarantee, Ledger, Ratings, Unit, publish
from pricdr.errors import ParameterError
from pricdr.privacy.accounting import (
    GRID_STEPS,
    LATTICE_FACTOR,
    SAMPLER_DISTANCE,
    TradeOff,
    composed_epsilon,
    delta_of,
    delta_warnings,
    epsilon_of,
    mu_of,
    paper_sigma,
    sigma_for,
)
from pricdr.privacy.audit import one_run_p_value
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.randomness import Simulation
from pricdr.release.checks import floor_of
from pricdr.strategies import JLT, SJLT
from tests.laws import ALPHA

EPSILONS = (0.01, 0.1, 0.5, 1, 2, 4, 8, 16, 32, 64, 100)
DELTAS = (1e-2, 1e-5, 1e-6, 1e-9, 1e-12)
PAPER_DELTA = 1 / 16367


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sigma_and_epsilon_agree_with_dp_accounting(epsilon):
    for delta in DELTAS:
        sigma = sigma_for(epsilon, delta, sensitivity=1, dim=200)
        assert sigma / LATTICE_FACTOR == pytest.approx(independent_sigma(epsilon, delta), rel=1e-9)
        assert epsilon_of(1 / sigma, delta) == pytest.approx(get_epsilon_gaussian(sigma, delta), rel=1e-9)


def test_reference_values_of_w():
    for epsilon, dim, paper, exact in (
        *((0.5, 100, 5725, 61.48), (0.5, 400, 12462, 122.97), (0.5, 800, 18339, 173.90), (1, 100, 2863, 33.07)),
        *((1, 400, 6231, 66.15), (4, 400, 1558, 19.72), (8, 800, 1146, 15.72), (16, 400, 389, 6.47)),
        *((64, 100, 45, 1.22), (64, 800, 143, 3.46)),
    ):
        assert round(paper_sigma(epsilon, PAPER_DELTA, dim=dim) * math.sqrt(dim)) == paper
        w = sigma_for(epsilon, PAPER_DELTA, sensitivity=1, dim=dim) * math.sqrt(dim)
        assert w == pytest.approx(exact, abs=0.0051)


def test_figures_of_the_theory():
    """The paper's nominal ε of 1 is pure noise, and what ε = 4 for a rating means for somebody with 14 of them."""
    sigma = paper_sigma(1, PAPER_DELTA, dim=400)
    assert composed_epsilon([(1 / sigma, 400)], PAPER_DELTA) == pytest.approx(0.0054, abs=1e-4)
    mu = mu_of(4, PAPER_DELTA)
    assert epsilon_of(14 * mu, PAPER_DELTA) == pytest.approx(154, abs=1)
    assert epsilon_of(math.sqrt(14) * mu, PAPER_DELTA) == pytest.approx(21, abs=0.5)


epsilons = st.floats(min_value=1e-3, max_value=300)
deltas = st.floats(min_value=1e-14, max_value=0.5)
mus = st.floats(min_value=1e-6, max_value=1e3)


@given(epsilons, deltas)
def test_sigma_and_epsilon_are_inverse_and_never_optimistic(epsilon, delta):
    sigma = sigma_for(epsilon, delta, sensitivity=1, dim=400)
    back = composed_epsilon([(1 / sigma, 400)], delta)
    assert back <= epsilon * (1 + 1e-9)
    assert back == pytest.approx(epsilon, rel=1e-6)


@given(mus, st.floats(min_value=0, max_value=1e4), deltas, st.floats(1e-12, 1e-3), st.floats(1e-9, 0.4))
def test_the_profile_is_a_probability_that_falls_with_epsilon_and_both_inverses_invert_it(mu, at, delta, tiny, large):
    assert 1 >= delta_of(mu, at) >= delta_of(mu, at * 1.01 + 0.01) - 1e-15 >= -1e-15
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    if epsilon > 0:
        assert delta_of(mu, epsilon * (1 - 1e-9)) >= delta * (1 - 1e-6)
    assert delta_of(mu_of(tiny, large), tiny) == pytest.approx(large, rel=1e-9)


def test_the_profile_is_smooth_where_its_two_formulas_meet():
    for epsilon in (0.01, 0.5, 2.0, 10.0):
        below, above = delta_of(1.0, epsilon), delta_of(math.nextafter(1.0, 2.0), epsilon)
        assert below == pytest.approx(above, rel=1e-11)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.01, 0.3, 0.999, 1.001, 3.0, 20.0])
def test_the_lattice_factor_is_paid_and_covers_the_leading_order_cost_of_discreteness(mu):
    """|δ_disc − δ_Gauss| <= μ φ(ε/μ − μ/2)/8s² to leading order; counting μ·1.0000019 adds at least that much."""
    assert pytest.approx(1 + 2 / 1024**2, rel=1e-9) == LATTICE_FACTOR
    assert sigma_for(4, 1e-6, sensitivity=1, dim=1) * mu_of(4, 1e-6) == pytest.approx(LATTICE_FACTOR, rel=1e-12)
    for epsilon in (0.0, mu * mu / 2, mu * mu / 2 + mu, mu * mu / 2 + 4 * mu):
        density = math.exp(-((epsilon / mu - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
        cost = mu * density / (8 * 1024**2)
        if cost > 1e-12 * delta_of(mu, epsilon):  # what doubles can tell
            assert delta_of(mu * LATTICE_FACTOR, epsilon) - delta_of(mu, epsilon) >= cost * (1 - 1e-3)


def test_what_the_noise_table_cannot_certify_is_refused():
    """At ε near 0 its error counts once on each side, 2 distances a number; half of δ must be left."""
    assert math.isfinite(sigma_for(400, 1e-6, sensitivity=1, dim=400))
    assert sigma_for(0.01, 4.5 * SAMPLER_DISTANCE, sensitivity=1.0, dim=1) > 0
    for epsilon, delta, dim in ((500, 1e-6, 400), (0.01, 3.5 * SAMPLER_DISTANCE, 1)):
        with pytest.raises(ParameterError, match="too large to certify"):
            sigma_for(epsilon, delta, sensitivity=1, dim=dim)
    assert composed_epsilon([(100.0, 400)], 1e-6) == math.inf


def test_figures_that_cannot_be_are_refused():
    promised = [*(("epsilon", value) for value in (0, -1, math.nan, math.inf))]
    promised += [("delta", value) for value in (0, 1, -0.1, 2, math.nan)]
    for name, value in (*promised, *(("dim", value) for value in (0, -3, 1.5, True)), ("sensitivity", 0)):
        with pytest.raises(ParameterError, match=name):
            sigma_for(**{"epsilon": 1, "delta": 1e-6, "sensitivity": 1, "dim": 1, name: value})
    for name, value in promised:
        with pytest.raises(ParameterError, match=name):
            Guarantee(**{"epsilon": 1, "delta": 1e-6, name: value})


def test_large_deltas_are_warned_about():
    assert delta_warnings(9e-6, 1000) == ()
    assert "1e-06 or less" in delta_warnings(1e-5, 1000)[0]
    assert any("1/1000" in text for text in delta_warnings(1e-3, 1000))
    assert (len(delta_warnings(2.0**-20, 2**20)), delta_warnings(2.0**-21, 2**20)) == (1, ())


RATINGS = Ratings.from_triples(["a", "b"], ["x", "y"], [4, 2])
USERS = ("a", "b", "c")


@pytest.mark.parametrize(
    ("unit", "bounds"),
    [(Unit.RATING, Bounds()), (Unit.RATING, Bounds(rating_bound=5)), (Unit.USER, Bounds(clip=2.0))],
)
def test_a_ledgers_total_is_the_independent_accountants(tmp_path, unit, bounds):
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=20, delta=1e-6, unit=unit))
    loss = PLDAccountant()
    for epsilon, strategy in ((1.0, JLT(dim=10)), (2.5, SJLT(dim=30)), (4.0, JLT(dim=200)), (0.3, JLT(dim=1))):
        guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=unit)
        c = publish(RATINGS, guarantee, strategy=strategy, users=USERS, bounds=bounds, ledger=ledger).certificate
        loss.compose(dp_event.GaussianDpEvent(c.sigma / c.sensitivity))
        total = c.ledger.epsilon_total
        assert total == pytest.approx(ledger.read().epsilon)
        assert total == pytest.approx(loss.get_epsilon(1e-6), rel=2e-3)


def _is_the_independent(stated, sigma, delta=1e-6):
    independent = get_epsilon_gaussian(sigma, delta)
    if stated is None:
        assert independent > 400  # beyond what the noise table certifies
    else:
        assert independent * (1 - 1e-6) <= stated <= independent * (1 + 3e-5)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_figures_of_a_certificate_are_the_independent_accountants(epsilon):
    """The curve over δ, and those of a whole user: of a sensitivity t times as large."""
    c = publish(RATINGS, Guarantee(epsilon=epsilon, delta=1e-6), strategy=JLT(), users=USERS).certificate
    for point in c.epsilon_at_delta:
        _is_the_independent(point.epsilon, c.sigma, point.delta)
    for figure in c.whole_user:
        t = figure.ratings
        _is_the_independent(figure.removed_at_worst, c.sigma / t)
        _is_the_independent(figure.replaced_at_worst, c.sigma / (2 * t))
        _is_the_independent(figure.removed_typically, c.sigma / t**0.5)


CLOSE = 1e-11
"""``verify`` allows 1e-9."""


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(50):
        yield


def relative_error(value: float, true: mp.mpf) -> float:
    return float(abs(mp.mpf(float(value)) - true) / abs(true))


def _normal_quantile(p: float) -> mp.mpf:
    return mp.findroot(lambda x: mp.ncdf(x) / mp.mpf(p) - 1, float(ndtri(p)))


def test_special_functions_are_exact_to_the_digits_that_mathematics_states():
    for x in (-1.0, -1e-9, 0.0, 1e-9, 0.7, 3.3, 9.9999, 10.0, 29.0, 1e3):
        assert relative_error(erfcx(x), mp.exp(mp.mpf(x) ** 2) * mp.erfc(mp.mpf(x))) < 1e-14
    for x in (-37.5, -30.1, -8.2, -1.0, 0.0, 0.3, 8.0):
        assert relative_error(ndtr(x), mp.ncdf(mp.mpf(x))) < CLOSE
    for p in (1e-300, 1e-100, 1e-15, 0.02425, 0.05, 0.3, 0.5 - 1e-9, 0.7, 0.999, 1 - 1e-15):
        assert relative_error(ndtri(p), _normal_quantile(p)) < CLOSE
    for a, b, x in ((0.5, 0.5, 0.1), (1, 1, 0.5), (1, 100, 1e-3), (5, 3, 0.4), (301, 700, 0.25)):
        assert relative_error(betainc(a, b, x), mp.betainc(a, b, 0, x, regularized=True)) < CLOSE


def _at_most(errors: int, trials: int, rate: mp.mpf) -> mp.mpf:
    """The probability of so few errors, added up from the most likely one down."""
    if rate >= 1:
        return mp.mpf(0)
    log_ways = mp.loggamma(trials + 1) - mp.loggamma(errors + 1) - mp.loggamma(trials - errors + 1)
    term = mp.exp(log_ways + errors * mp.log(rate) + (trials - errors) * mp.log(1 - rate))
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


@pytest.mark.parametrize(("correct", "delta"), [(352, 1e-6), (480, 1e-74)])
def test_a_p_value_of_one_run_has_its_digits(correct, delta):
    """Added up term by term; both parts of it count, also far below what a difference from 1 could say."""
    canaries, guesses, epsilon = 10_000, 500, 0.5
    right = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    chances = [mp.binomial(guesses, k) * right**k * (1 - right) ** (guesses - k) for k in range(guesses + 1)]
    at_least = mp.fsum(chances[correct:])
    for_delta = (
        2 * canaries * mp.mpf(delta) * max(mp.fsum(chances[correct - i : correct]) / i for i in range(1, correct + 1))
    )
    assert 0.1 < for_delta / at_least < 10
    assert relative_error(one_run_p_value(canaries, guesses, correct, epsilon, delta), at_least + for_delta) < CLOSE


def test_gamma_quantiles():
    """For large shapes ``gammaincinv`` loses digits: at 5e6 a probability of 1e-12 is 0.1 % too large, at 1e8 30 %."""
    for a, p in product((0.5, 4.0, 200.0, 12_345.5), (0.5, 1e-3, 1e-12, 1e-21)):
        assert relative_error(mp.gammainc(a, 0, float(gammaincinv(a, p)), regularized=True), mp.mpf(p)) < CLOSE
        assert relative_error(mp.gammainc(a, float(gammainccinv(a, p)), mp.inf, regularized=True), mp.mpf(p)) < CLOSE


@pytest.mark.parametrize("count", [1, 16, 800, 999_999, 1_000_000, 10**7, 10**8, 10**10])
def test_noise_alone_falls_below_a_floor_with_at_most_the_stated_probability(count):
    for level in (0.5, 0.1, 1e-3, 1e-12, 1e-12 / 10**8):
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
def test_calibration_errs_on_the_safe_side(epsilon):
    """In exact arithmetic, the calibrated μ never exceeds the promised δ."""
    for delta in (1e-15, 1e-10, 1e-6, 1e-3):
        with mp.workdps(60):
            mu = mu_of(epsilon, delta)
            tolerance = 0 if epsilon > 1e-3 else mp.mpf(10) ** -9
            assert _profile(mu, epsilon) <= mp.mpf(delta) * (1 + tolerance)
            assert _profile(mu * (1 + 1e-9), epsilon) > mp.mpf(delta)  # and no larger μ keeps it
            assert relative_error(delta_of(mu, epsilon), _profile(mu, epsilon)) < 1e-10
        assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-9)


MUS = st.floats(0.01, 8)
RATES = st.floats(1e-6, 1 - 1e-6)


def curve(mu, delta=1e-6):
    return TradeOff(mu, epsilon_of(mu * LATTICE_FACTOR, delta), delta)


@given(MUS, RATES)
def test_it_is_the_gaussian_formula_and_symmetric(mu, alpha):
    """f(α) = Φ(Φ⁻¹(1 − α) − μ′), the missed detections; exchanging the two inputs changes nothing: f(f(α)) = α."""
    missed = 1 - curve(mu).detections(alpha)
    assert missed == pytest.approx(norm.cdf(norm.isf(alpha) - mu * LATTICE_FACTOR), abs=1e-12)
    if 1e-9 < missed < 1 - 1e-9:
        assert 1 - curve(mu).detections(missed) == pytest.approx(alpha, rel=1e-5, abs=1e-9)


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


@given(st.floats(1e-9, 1e50), st.floats(0, 1e9) | st.sampled_from([0.0, 0.5, 4.0, 800.0]))
def test_the_points_of_the_curve_rise_from_corner_to_corner_and_the_corners_lie_on_the_bound(mu, epsilon):
    bound = TradeOff(mu, epsilon, 1e-6)
    points, corners = bound.curve(), bound.guarantee_corners()
    assert (points[0], points[-1], corners[-1]) == ((0.0, 0.0), (1.0, 1.0), (1.0, 1.0))
    assert points == sorted(points)
    assert all(0 <= x <= 1 and x <= y + 1e-12 for x, y in points)
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
