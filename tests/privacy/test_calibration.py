import itertools
import math

import pytest
from dp_accounting import dp_event, get_epsilon_gaussian
from dp_accounting import get_sigma_gaussian as independent_sigma
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from pricdr.errors import ParameterError
from pricdr.privacy.accounting import (
    LATTICE_FACTOR,
    composed_epsilon,
    composed_mu,
    delta_of,
    epsilon_for,
    epsilon_of,
    mu_of,
    paper_sigma,
    sigma_for,
)

EPSILONS = (0.01, 0.1, 0.5, 1, 2, 4, 8, 16, 32, 64, 100)
DELTAS = (1e-2, 1e-5, 1e-6, 1e-9, 1e-12)
PAPER_DELTA = 1 / 16367


@pytest.mark.parametrize(("epsilon", "delta"), [*itertools.product(EPSILONS, DELTAS)])
def test_sigma_and_epsilon_agree_with_dp_accounting(epsilon, delta):
    sigma = sigma_for(epsilon, delta, sensitivity=1, dim=200)
    assert sigma / LATTICE_FACTOR == pytest.approx(independent_sigma(epsilon, delta), rel=1e-9)
    assert epsilon_of(1 / sigma, delta) == pytest.approx(get_epsilon_gaussian(sigma, delta), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [*itertools.product((0.1, 1, 4, 16), (1e-3, 1e-6))])
def test_profile_agrees_with_a_privacy_loss_distribution(epsilon, delta):
    sigma = sigma_for(epsilon, delta, sensitivity=1, dim=200)
    loss = privacy_loss_distribution.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=0.02)


def test_composition_lies_below_the_renyi_bound_and_agrees_with_the_loss_distribution():
    sigmas, delta = (2.0, 3.0, 5.0), 1e-6
    ours = composed_epsilon([(1 / sigma, 100) for sigma in sigmas], delta)
    renyi = rdp_privacy_accountant.RdpAccountant()
    loss = None
    for sigma in sigmas:
        renyi.compose(dp_event.GaussianDpEvent(sigma))
        one = privacy_loss_distribution.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
        loss = one if loss is None else loss.compose(one)
    assert ours == pytest.approx(loss.get_epsilon_for_delta(delta), rel=1e-3)
    assert ours < renyi.get_epsilon(delta)


@pytest.mark.parametrize(
    ("epsilon", "dim", "paper", "exact"),
    [
        (0.5, 100, 5725, 61.48),
        (0.5, 400, 12462, 122.97),
        (0.5, 800, 18339, 173.90),
        (1, 100, 2863, 33.07),
        (1, 400, 6231, 66.15),
        (4, 400, 1558, 19.72),
        (8, 800, 1146, 15.72),
        (16, 400, 389, 6.47),
        (64, 100, 45, 1.22),
        (64, 800, 143, 3.46),
    ],
)
def test_reference_values_of_w(epsilon, dim, paper, exact):
    assert round(paper_sigma(epsilon, PAPER_DELTA, dim=dim) * math.sqrt(dim)) == paper
    w = sigma_for(epsilon, PAPER_DELTA, sensitivity=1, dim=dim) * math.sqrt(dim)
    assert w == pytest.approx(exact, abs=0.0051)


def test_the_papers_nominal_epsilon_of_one_is_pure_noise():
    sigma = paper_sigma(1, PAPER_DELTA, dim=400)
    assert epsilon_for(sigma, PAPER_DELTA, sensitivity=1, dim=400) == pytest.approx(0.0054, abs=1e-4)


def test_group_figures_of_the_theory():
    mu = mu_of(4, PAPER_DELTA)
    assert epsilon_of(14 * mu, PAPER_DELTA) == pytest.approx(154, abs=1)
    assert epsilon_of(math.sqrt(14) * mu, PAPER_DELTA) == pytest.approx(21, abs=0.5)


epsilons = st.floats(min_value=1e-3, max_value=300)
deltas = st.floats(min_value=1e-14, max_value=0.5)
mus = st.floats(min_value=1e-6, max_value=1e3)


@given(epsilons, deltas)
def test_sigma_and_epsilon_are_inverse_and_never_optimistic(epsilon, delta):
    sigma = sigma_for(epsilon, delta, sensitivity=1, dim=400)
    back = epsilon_for(sigma, delta, sensitivity=1, dim=400)
    assert back <= epsilon * (1 + 1e-9)
    assert back == pytest.approx(epsilon, rel=1e-6)


@given(epsilons, deltas, st.floats(min_value=1.001, max_value=10))
def test_more_privacy_means_more_noise(epsilon, delta, factor):
    base = sigma_for(epsilon, delta, sensitivity=1, dim=10)
    assert sigma_for(epsilon / factor, delta, sensitivity=1, dim=10) > base
    assert sigma_for(epsilon, delta / factor, sensitivity=1, dim=10) > base
    assert sigma_for(epsilon, delta, sensitivity=factor, dim=10) == pytest.approx(base * factor)


@given(mus, st.floats(min_value=0, max_value=1e4))
def test_the_profile_is_a_probability_and_falls_with_epsilon(mu, epsilon):
    assert 0 <= delta_of(mu, epsilon) <= 1
    assert delta_of(mu, epsilon) >= delta_of(mu, epsilon * 1.01 + 0.01) - 1e-15


@given(mus, deltas)
def test_epsilon_of_inverts_the_profile(mu, delta):
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    if epsilon > 0:
        assert delta_of(mu, epsilon * (1 - 1e-9)) >= delta * (1 - 1e-6)


@given(st.lists(mus, min_size=1, max_size=20))
def test_squares_of_mu_add(values):
    assert composed_mu(values) ** 2 == pytest.approx(sum(v * v for v in values))


def test_the_lattice_is_paid_for():
    assert pytest.approx(1 + 2 / 1024**2, rel=1e-9) == LATTICE_FACTOR
    sigma = sigma_for(4, 1e-6, sensitivity=1, dim=1)
    assert sigma * mu_of(4, 1e-6) == pytest.approx(LATTICE_FACTOR, rel=1e-12)


def test_an_epsilon_beyond_the_noise_table_is_refused():
    assert math.isfinite(sigma_for(400, 1e-6, sensitivity=1, dim=400))
    with pytest.raises(ParameterError, match="too large to certify"):
        sigma_for(500, 1e-6, sensitivity=1, dim=400)
    assert composed_epsilon([(100.0, 400)], 1e-6) == math.inf


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_bad_epsilon_is_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        mu_of(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, math.nan])
def test_bad_delta_is_refused(delta):
    with pytest.raises(ParameterError, match="delta"):
        mu_of(1, delta)


@pytest.mark.parametrize("dim", [0, -3, 1.5, True])
def test_bad_dim_is_refused(dim):
    with pytest.raises(ParameterError, match="dim"):
        paper_sigma(1, 1e-6, dim=dim)


def test_bad_sensitivity_is_refused():
    with pytest.raises(ParameterError, match="sensitivity"):
        sigma_for(1, 1e-6, sensitivity=0, dim=1)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.01, 0.3, 0.999, 1.001, 3.0, 20.0])
def test_the_lattice_factor_covers_the_leading_order_cost_of_discreteness(mu):
    """|δ_disc − δ_Gauss| <= μ φ(ε/μ − μ/2)/8s² to leading order; counting μ·1.0000019 adds at least that much."""
    for epsilon in (0.0, mu * mu / 2, mu * mu / 2 + mu, mu * mu / 2 + 4 * mu):
        density = math.exp(-((epsilon / mu - mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
        cost = mu * density / (8 * 1024**2)
        if cost > 1e-12 * delta_of(mu, epsilon):  # what doubles can tell
            assert delta_of(mu * LATTICE_FACTOR, epsilon) - delta_of(mu, epsilon) >= cost * (1 - 1e-3)


def test_the_profile_is_smooth_where_its_two_formulas_meet():
    for epsilon in (0.01, 0.5, 2.0, 10.0):
        below, above = delta_of(1.0, epsilon), delta_of(math.nextafter(1.0, 2.0), epsilon)
        assert below == pytest.approx(above, rel=1e-11)


@given(st.floats(1e-12, 1e-3), st.floats(1e-9, 0.4))
def test_tiny_epsilons_are_inverted_to_many_digits(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert delta_of(mu, epsilon) == pytest.approx(delta, rel=1e-9)
