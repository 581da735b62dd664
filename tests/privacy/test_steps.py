"""What several steps cost together, against an independent accountant; it never exceeds what is promised."""

import math
import sys
from dataclasses import replace

import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings, strategies as st

from pricdr import Bounds, Guarantee, Ledger, Ratings, Unit, publish
from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.accounting import LATTICE_FACTOR, MAX_REFINEMENT, composed_epsilon, grid_steps
from pricdr.privacy.steps import (
    MAX_ITEMS,
    MAX_RATINGS,
    CalibratedStep,
    Declared,
    Grid,
    Step,
    calibrate,
    total_mu,
    total_numbers,
)
from pricdr.release.certificate import Certificate, GuideStatement, InputStatement, NoiseStatement, StrategyStatement
from pricdr.release.certify import bounds_statement, check, issue
from pricdr.strategies import JLT, Features, Guided, Spectral

WAYS = {
    "spectral": Spectral(dim=8),
    "spectral, much centring": Spectral(dim=4, centring=0.3),
    "guided": Guided(dim=8),
    "guided, one round": Guided(dim=8, refine=False),
    "features": Features(dim=8),
    "jlt": JLT(dim=64),
}
LEARNT = sorted(set(WAYS) - {"features", "jlt"})
UNITS = {
    "rating": (Unit.RATING, Bounds()),
    "values": (Unit.RATING, Bounds(rating_bound=5, rating_step=0.5)),
    "user": (Unit.USER, Bounds(clip=10.0)),
}


def _calibrated(way, unit, *, epsilon=4.0, users=20_000, delta=1e-6):
    kind, bounds = UNITS[unit]
    declared = Declared(bounds=bounds, unit=kind, users=users)
    guarantee = Guarantee(epsilon=epsilon, delta=delta, unit=kind)
    return calibrate(WAYS[way].steps(declared), guarantee, bounds)


def _reach(one: CalibratedStep) -> float:
    """Sensitivity over σ from first principles: whole grid steps that a change can move, over grid steps in one σ."""
    step, grid = one.step, one.grid
    moved = step.sensitivity / grid.step
    if step.spread is not None:
        moved += math.sqrt(step.moved) * (1 + step.spread * 2.0 ** -step.fine_bits(grid))
    return moved / grid_steps(grid.refinement)


def _cost(calibrated) -> float:
    """Gaussian mechanisms compose to one with the squares of sensitivity/σ added."""
    return math.hypot(*map(_reach, calibrated))


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 16.0])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("way", WAYS)
def test_the_total_is_the_independent_accountants(way, unit, epsilon):
    calibrated = _calibrated(way, unit, epsilon=epsilon)
    names = [one.step.name for one in calibrated]
    assert len(set(names)) == len(names)
    assert [one.step.name for one in calibrated if one.step.published] == ["rows"] == names[-1:]
    mu = _cost(calibrated)
    assert mu <= total_mu(calibrated) * (1 + 1e-12) <= mu * (1 + 1e-6)  # rounding is counted with a little to spare
    ours = composed_epsilon([(total_mu(calibrated), total_numbers(calibrated))], 1e-6)
    independent = get_epsilon_gaussian(1 / (mu * LATTICE_FACTOR), 1e-6)
    assert ours == pytest.approx(independent, rel=1e-6)
    assert ours == pytest.approx(epsilon, rel=1e-6)
    assert ours <= epsilon * (1 + 1e-10)


def test_every_step_costs_its_share():
    calibrated = _calibrated("spectral", "rating")
    for one in calibrated:  # μ² divides by the shares: no step takes what belongs to another
        assert one.mu**2 == pytest.approx(one.step.share * total_mu(calibrated) ** 2, rel=1e-8)


@pytest.mark.parametrize(
    ("way", "shares"),
    [
        ("spectral", [0.001, 0.099, 0.001, 0.099, 0.002, 0.198, 0.006, 0.594]),
        ("guided", [0.0015, 0.1485, 0.0025, 0.2475, 0.006, 0.594]),
        ("guided, one round", [0.01, 0.99]),
    ],
)
def test_the_shares_are_those_that_are_documented(way, shares):
    assert [one.step.share for one in _calibrated(way, "rating")] == pytest.approx(shares, rel=1e-12)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("way", LEARNT)
def test_at_real_sizes_rounding_costs_little_and_the_largest_sums_fit_whole_numbers(way, unit):
    """All ratings there may be, all of the largest size and along one direction, in every step."""
    for one in _calibrated(way, unit):
        step, reach = one.step, one.step.sensitivity / one.grid.step
        assert step.rounding(one.grid) / reach < 0.01
        assert step.most * reach * 2.0 ** step.fine_bits(one.grid) < 2.0**63
        assert step.most == (MAX_RATINGS if step.name.startswith("cent") else MAX_ITEMS)


@pytest.mark.parametrize("way", ["spectral", "guided"])
def test_rounding_is_counted_where_it_can_happen(way):
    """One rating moves the rows of all who rated the item: all of them are rounded."""
    for one in _calibrated(way, "rating", users=1000):
        step = one.step
        moved = step.numbers * (1 if step.name.startswith("cent") else 1000)
        assert step.moved == moved
        assert step.rounding(one.grid) >= moved**0.5
        assert one.grid.refinement == MAX_REFINEMENT


def test_clips_whose_products_would_overflow_are_refused():
    coarse, fine = (Bounds(clip=2e14), Bounds(rating_bound=100, rating_step=0.01, clip=2e8))
    for bounds in (coarse, fine, replace(fine, clip=1e12)):
        assert bounds.most_units * bounds.levels * 256 >= 2**63
        declared = Declared(bounds=bounds, unit=Unit.USER, users=1)
        for strategy in (Spectral(dim=1), Guided(dim=1, refine=False, centring=0.0)):
            with pytest.raises(ParameterError):
                calibrate(strategy.steps(declared), Guarantee(epsilon=100, delta=1e-2, unit=Unit.USER), bounds)


FINE = UNITS | {
    "fine values": (Unit.RATING, Bounds(rating_bound=5, rating_step=0.0005)),
    "user, fine values": (Unit.USER, Bounds(rating_bound=5, rating_step=0.0005, clip=20)),
}


@settings(max_examples=150)
@given(
    st.sampled_from(LEARNT),
    st.sampled_from(sorted(FINE)),
    st.floats(0.01, 100),
    st.integers(1, 3_000_000),
    st.one_of(st.none(), st.integers(1, 1_000_000)),
    st.integers(1, 64),
    st.sampled_from([1e-12, 1e-6, 1e-2]),
    st.floats(0.01, 300),
)
def test_no_layout_exceeds_its_promise_and_what_is_calibrated_is_certified(
    way, unit, epsilon, users, items, dim, delta, clip
):
    """Nothing may fail once it was paid for."""
    kind, bounds = FINE[unit]
    bounds = replace(bounds, clip=clip) if kind is Unit.USER else bounds
    strategy, guarantee = WAYS[way].with_dim(dim), Guarantee(epsilon=epsilon, delta=delta, unit=kind)
    declared = Declared(bounds=bounds, unit=kind, users=users)
    try:
        calibrated = calibrate(strategy.steps(declared), guarantee, bounds)
    except ParameterError:
        return  # refused beforehand, which costs nothing
    cost = _cost(calibrated)
    assert total_mu(calibrated) >= cost * (1 - 1e-12)
    assert composed_epsilon([(cost, total_numbers(calibrated))], delta) <= epsilon * (1 + 1e-10)
    for one in calibrated:
        assert one.step.sensitivity / one.grid.step > 0
        assert one.grid.sigma == pytest.approx(one.grid.step * grid_steps(one.grid.refinement), rel=1e-12)
    check(issue(_draft(strategy, guarantee, declared, items), calibrated))


def _draft(strategy, guarantee, declared, items) -> Certificate:
    """What ``publish`` would have certified."""
    universe = "not needed" if items is None else "declared"
    guide = GuideStatement(
        sha256="0" * 64, strategy="jlt", private=True, epsilon=1.0, delta=1e-6, unit="rating", missing_users=0
    )
    return Certificate.model_construct(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=guarantee.unit.value,
        window=None,
        calibration="exact",
        bounds=bounds_statement(declared.bounds),
        noise=NoiseStatement.model_construct(source="secret"),
        users=declared.users,
        items=items,
        strategy=StrategyStatement(name=strategy.name, parameters=strategy.parameters()),
        dim=strategy.dim,
        input=InputStatement(
            threshold=None, user_list="declared", item_universe=universe, filtered_by=None, alignment=None
        ),
        guide=guide if strategy.takes_guide else None,
        series=None,
        ledger=None,
        software="pricdr 0.3.0",
        issuer=None,
        issued=None,
    )


def test_shares_that_do_not_add_up_and_a_budget_that_rounding_would_eat_are_refused():
    calibrated = _calibrated("guided, one round", "rating")
    for share in (0.4, 0.7):
        steps = [replace(one.step, share=share) for one in calibrated]
        with pytest.raises(ParameterError, match="add up to"):
            calibrate(steps, Guarantee(epsilon=4, delta=1e-6), Bounds())
    with pytest.raises(ParameterError, match="rounding alone"):
        _calibrated("guided", "rating", epsilon=0.001, users=1_000_000)


def test_one_binary_place_below_the_grid_is_enough_and_none_is_not():
    step = Step(name="s", purpose="", sensitivity=2.0, share=1.0, rows=1, numbers=1, moved=1, most=1 << 59, spread=1)
    assert step.fine_bits(Grid(1.0, 1.0)) == 1
    with pytest.raises(ParameterError, match="exact arithmetic"):
        step.fine_bits(Grid(1.0, 0.5))


def _steps_of(value, bounds):
    return bounds.steps(Ratings.from_triples(["u"], ["i"], [value]).matrix).data.tolist()


@given(st.floats(-1e300, 1e300) | st.sampled_from([3.5, 5.0, 9.0, -2.0, 0.2, 0.3]))
def test_every_value_is_rounded_to_a_declared_step_inside_the_bound(value):
    (entry,) = _steps_of(value, Bounds(rating_bound=5, rating_step=0.5))
    assert abs(entry * 0.5 - min(max(value, 0), 5)) <= 0.25
    assert _steps_of(value, Bounds()) == [1]  # without a bound every rated pair counts as one


def test_the_sensitivity_is_the_bound_or_the_clip_and_clip_and_unit_must_fit():
    assert [Bounds(rating_bound=bound).sensitivity(Unit.RATING) for bound in (None, 5)] == [1, 5]
    assert Bounds(rating_bound=5, clip=3).sensitivity(Unit.USER) == 3
    with pytest.raises(ParameterError, match="needs a clip"):
        Bounds().sensitivity(Unit.USER)
    with pytest.raises(ParameterError, match="belongs to the user unit"):
        Bounds(clip=1).sensitivity(Unit.RATING)


def test_impossible_declarations_are_refused():
    for bounds, message in (
        ({"rating_bound": 0.0}, "rating_bound"),
        ({"rating_bound": 5, "rating_step": 0}, "rating_step"),
        ({"rating_bound": 5, "rating_step": 2}, "multiple"),
        ({"rating_bound": 1e6}, "10,000 steps"),
        ({"rating_step": 0.5}, "needs a rating_bound"),
        *(({"clip": clip}, "clip") for clip in (0, float("nan"))),
    ):
        with pytest.raises(ParameterError, match=message):
            Bounds(**bounds)


def test_what_cannot_be_certified_is_not_charged(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))

    def refuse(_draft, _calibrated):
        raise VerificationError("no")

    monkeypatch.setattr(sys.modules["pricdr._publish"], "issue", refuse)
    with pytest.raises(VerificationError):
        publish(Ratings.from_triples(["a", "b"], ["x", "x"]), Guarantee(epsilon=4, delta=1e-6), ledger=ledger)
    assert not ledger.read().spends
