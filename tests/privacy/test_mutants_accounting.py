"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import numpy as np
import pytest

from pricdr.errors import InputError, ParameterError
from pricdr.privacy.accounting import SAMPLER_DISTANCE, delta_warnings, sigma_for
from pricdr.privacy.mechanism import on_grid
from pricdr.privacy.steps import Grid, Step
from pricdr.privacy.strategies.rounds import guide


def test_the_noise_tables_error_counts_once_on_each_side():
    """At ε near 0 the two sides take 2 of its distances a number; half of δ must be left."""
    assert sigma_for(0.01, 4.5 * SAMPLER_DISTANCE, sensitivity=1.0, dim=1) > 0
    with pytest.raises(ParameterError, match="too large to certify"):
        sigma_for(0.01, 3.5 * SAMPLER_DISTANCE, sensitivity=1.0, dim=1)


def test_noise_for_rows_without_numbers_is_refused():
    with pytest.raises(ParameterError, match="dim"):
        sigma_for(1.0, 1e-6, sensitivity=1.0, dim=0)


def test_a_delta_of_exactly_one_over_the_users_is_warned_about():
    assert len(delta_warnings(2.0**-20, 2**20)) == 1
    assert delta_warnings(2.0**-21, 2**20) == ()


@pytest.mark.parametrize("halves", [1, 7, 100])
def test_rows_stay_inside_a_ball_a_rounding_error_smaller_than_a_whole_number(halves):
    """Nine equal coordinates round up to a norm of 3k: a radius just below it must not let them."""
    radius = 3 * halves * (1 - 4e-13)
    rows = on_grid(np.full((1, 9), 1 / 3, dtype=np.float32), radius=radius)
    assert np.linalg.norm(rows.astype(np.float64)) <= radius


def test_one_binary_place_below_the_grid_is_enough_and_none_is_not():
    step = Step(name="s", purpose="", sensitivity=2.0, share=1.0, rows=1, numbers=1, moved=1, most=1 << 59, spread=1)
    assert step.fine_bits(Grid(1.0, 1.0)) == 1
    with pytest.raises(ParameterError, match="exact arithmetic"):
        step.fine_bits(Grid(1.0, 0.5))


def test_a_guide_beyond_the_largest_number_is_refused_on_either_side_of_zero():
    for size in (1.5e100, -1.5e100):
        with pytest.raises(InputError, match="below 1e100"):
            guide(np.array([[size, 0.0], [0.0, 1.0]]), 2, sigma=1.0)
