"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import numpy as np
import pytest

from pricdr.evaluation.verdict import compare, standard_error


def test_a_standard_error_needs_two_users_and_no_more():
    assert standard_error(np.array([0.0, 2.0])) == pytest.approx(1.0)


def test_every_user_is_resampled_the_first_one_too():
    """Of two users the first alone differs; a resample holds it twice, once or never."""
    found = compare(np.array([1.0, 0.0]), np.zeros(2))
    assert (found.low, found.high) == (0.0, 1.0)
