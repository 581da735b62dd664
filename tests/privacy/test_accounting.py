"""Ledgers and certificates against an independent accountant."""

import pytest
from dp_accounting import dp_event, get_epsilon_gaussian
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

from pricdr import Bounds, Guarantee, Ledger, Ratings, Unit, publish
from pricdr.strategies import JLT, SJLT

RATINGS = Ratings.from_triples(["a", "b"], ["x", "y"], [4, 2])
USERS = ("a", "b", "c")


@pytest.mark.parametrize(
    ("unit", "bounds"),
    [(Unit.RATING, Bounds()), (Unit.RATING, Bounds(rating_bound=5)), (Unit.USER, Bounds(clip=2.0))],
)
def test_a_ledgers_total_is_the_independent_accountants(tmp_path, unit, bounds):
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=20, delta=1e-6, unit=unit))
    loss, renyi = PLDAccountant(), RdpAccountant()
    for epsilon, strategy in ((1.0, JLT(dim=10)), (2.5, SJLT(dim=30)), (4.0, JLT(dim=200)), (0.3, JLT(dim=1))):
        guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=unit)
        c = publish(RATINGS, guarantee, strategy=strategy, users=USERS, bounds=bounds, ledger=ledger).certificate
        event = dp_event.GaussianDpEvent(c.sigma / c.sensitivity)
        loss.compose(event)
        renyi.compose(event)
        total = c.ledger.epsilon_total
        assert total == pytest.approx(ledger.read().epsilon)
        # the loss distribution is discretised upwards; Rényi composition is an upper bound, here within 20 %
        assert loss.get_epsilon(1e-6) * 0.999 <= total * 1.001
        assert total == pytest.approx(loss.get_epsilon(1e-6), rel=2e-3)
        assert total <= renyi.get_epsilon(1e-6) <= 1.3 * total


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_group_figures_are_those_of_a_sensitivity_t_times_as_large(epsilon):
    c = publish(RATINGS, Guarantee(epsilon=epsilon, delta=1e-6), strategy=JLT(), users=USERS).certificate
    for figure in c.whole_user:
        t = figure.ratings
        pairs = ((figure.removed_at_worst, t), (figure.replaced_at_worst, 2 * t), (figure.removed_typically, t**0.5))
        for stated, factor in pairs:
            independent = get_epsilon_gaussian(c.sigma / factor, 1e-6)
            if stated is None:
                assert independent > 400  # beyond what the noise table certifies
            else:
                assert independent * (1 - 1e-6) <= stated <= independent * (1 + 3e-5)


def test_curves_are_the_independent_accountants():
    c = publish(RATINGS, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(), users=USERS).certificate
    for point in c.epsilon_at_delta:
        independent = get_epsilon_gaussian(c.sigma, point.delta)
        assert independent * (1 - 1e-6) <= point.epsilon <= independent * (1 + 3e-5)


def test_user_level_figures_follow_from_the_clip():
    guarantee = Guarantee(epsilon=3, delta=1e-6, unit=Unit.USER)
    c = publish(RATINGS, guarantee, strategy=JLT(), users=USERS, bounds=Bounds(clip=7)).certificate
    assert c.sensitivity == 14
    assert get_epsilon_gaussian(c.sigma / 14, 1e-6) == pytest.approx(3, rel=1e-4)
    assert c.whole_user == []
