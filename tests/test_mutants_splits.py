"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import numpy as np
import pytest

from pricdr import Ratings
from pricdr.data.splits import NEGATIVES, hold_out, set_aside
from pricdr.errors import InputError


def _one_user(rated: int, items: int) -> Ratings:
    names = tuple(f"i{at}" for at in range(items))
    return Ratings.from_triples(["u"] * rated, names[:rated]).select(items=names)


def test_exactly_as_many_unrated_items_as_negatives_are_enough():
    split = hold_out(_one_user(3, 3 + 2 * NEGATIVES), seed=0)
    drawn = np.concatenate([split.validation.negatives, split.test.negatives], axis=1)
    assert sorted(drawn[0].tolist()) == list(range(3, 3 + 2 * NEGATIVES))
    assert len(set_aside(_one_user(2, 2 + NEGATIVES), seed=0)[1]) == 1
    with pytest.raises(InputError, match="too few"):
        hold_out(_one_user(3, 2 + 2 * NEGATIVES), seed=0)
    with pytest.raises(InputError, match="too few"):
        set_aside(_one_user(2, 1 + NEGATIVES), seed=0)


def test_users_with_exactly_three_ratings_are_evaluated_and_counted_so():
    ratings = Ratings.from_triples(["a"] * 3 + ["b"] * 2, ["i0", "i1", "i2", "i0", "i1"])
    split = hold_out(ratings.select(items=tuple(f"i{at}" for at in range(300))), seed=0)
    assert (len(split.test), split.not_evaluated) == (1, 1)
