import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricdr.data.ratings import Ratings
from pricdr.errors import ParameterError
from pricdr.privacy.accounting import Guarantee, Unit, delta_warnings
from pricdr.privacy.steps import Bounds


def _one(value):
    return Ratings.from_triples(["u"], ["i"], [value])


@given(st.floats(-1e300, 1e300))
def test_every_value_is_forced_into_the_declared_steps(value):
    bounds = Bounds(rating_bound=5, rating_step=0.5)
    entry = bounds.steps(_one(value).matrix).data[0]
    assert 0 <= entry <= bounds.levels == 10


@pytest.mark.parametrize(("value", "steps"), [(3.5, 7), (5, 10), (9, 10), (-2, 0), (0.2, 0), (0.3, 1)])
def test_values_are_rounded_to_the_nearest_step(value, steps):
    assert Bounds(rating_bound=5, rating_step=0.5).steps(_one(value).matrix).data[0] == steps


@given(st.floats(-1e300, 1e300))
def test_without_a_bound_every_rated_pair_counts_as_one(value):
    assert Bounds().steps(_one(value).matrix).data.tolist() == [1]


def test_sensitivities():
    assert Bounds().sensitivity(Unit.RATING) == 1
    assert Bounds(rating_bound=5).sensitivity(Unit.RATING) == 5
    assert Bounds(rating_bound=5, clip=3).sensitivity(Unit.USER) == 6


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"rating_bound": 0.0}, "rating_bound"),
        ({"rating_bound": 5, "rating_step": 0}, "rating_step"),
        ({"rating_bound": 5, "rating_step": 2}, "multiple"),
        ({"rating_bound": 1e6}, "10,000 steps"),
        ({"rating_step": 0.5}, "needs a rating_bound"),
        ({"clip": 0}, "clip"),
        ({"clip": float("nan")}, "clip"),
    ],
)
def test_impossible_declarations_are_refused(bounds, message):
    with pytest.raises(ParameterError, match=message):
        Bounds(**bounds)


def test_clip_and_unit_must_fit():
    with pytest.raises(ParameterError, match="needs a clip"):
        Bounds().sensitivity(Unit.USER)
    with pytest.raises(ParameterError, match="belongs to the user unit"):
        Bounds(clip=1).sensitivity(Unit.RATING)


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0, "delta": 1e-6}, {"epsilon": 1, "delta": 0}, {"epsilon": 1, "delta": 1}]
)
def test_a_guarantee_validates_itself(wrong):
    with pytest.raises(ParameterError):
        Guarantee(**wrong)


def test_large_deltas_are_warned_about():
    assert delta_warnings(9e-6, 1000) == ()
    assert "1e-06 or less" in delta_warnings(1e-5, 1000)[0]
    assert any("1/1000" in text for text in delta_warnings(1e-3, 1000))
    assert any("1/200000" in text for text in delta_warnings(5e-6, 200_000))
