import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricdr.models.recommend import top_items


def sorted_all(row, k):
    return np.lexsort((np.arange(len(row)), -row))[:k].tolist()


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
def test_the_result_equals_sorting_everything(items, k, seed, ties):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (3, items)) if ties else rng.standard_normal((3, items))
    scores = scores.astype(np.float32)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    assert [row.tolist() for row in top_items(scores, k)] == [sorted_all(row, k) for row in scores]


@pytest.mark.parametrize("value", [0.0, -np.inf])
def test_rows_of_one_value_are_ordered_by_position(value):
    (row,) = top_items(np.full((1, 1000), value, dtype=np.float32), 5)
    assert row.tolist() == [0, 1, 2, 3, 4]
