import itertools
import math
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.evaluation.metrics import per_user, rank_of
from pricdr.evaluation.ranking import ranks, sampled_ranks
from pricdr.evaluation.verdict import compare, standard_error


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(2, 30)), elements=st.integers(-3, 3).map(float)))
def test_a_rank_is_the_average_over_all_orders_of_ties(scores):
    positive, others = scores[:, 0], scores[:, 1:]
    for row, rank in enumerate(rank_of(positive, others)):
        better = sum(s > positive[row] for s in others[row])
        ties = sum(s == positive[row] for s in others[row])
        assert rank == np.mean([better + above for above in range(ties + 1)])


def test_guessing_scores_what_guessing_would():
    """Every score alike: the expected rank, neither first nor last place."""
    assert rank_of(np.zeros(3), np.zeros((3, 99))).tolist() == [49.5] * 3
    random = np.random.default_rng(0).random((40_000, 100))
    hits = per_user(rank_of(random[:, 0], random[:, 1:]))["HR@10"].mean()
    assert hits == pytest.approx(0.1, abs=0.006)


def test_a_model_that_scores_wrongly_is_refused():
    train, held_out = sp.csr_array((2, 9)), HeldOut(np.arange(2), np.arange(2), np.tile(np.arange(2, 9), (2, 1)))
    for scores in (np.full((2, 9), np.nan), np.zeros((2, 8))):
        with pytest.raises(InputError, match="finite score"):
            ranks(scores.__getitem__, held_out, train)
    with pytest.raises(InputError, match="finite score"):
        sampled_ranks(lambda users, items: np.full(items.shape, np.nan), held_out)


@contextmanager
def allocating_less_than(megabytes):
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert peak < megabytes, f"{peak:.0f} MiB"


def test_memory_is_bounded_by_blocks():
    """Ten gigabytes of scores, and ten thousand resamples of four thousand users: never more than a block at a time."""
    users, items, rng = 30_000, 42_000, np.random.default_rng(0)
    some = np.arange(0, users, 25)
    held_out = HeldOut(some, rng.integers(0, items, len(some)), rng.integers(0, items, (len(some), 99)))
    row = rng.random(items, dtype=np.float32)
    with allocating_less_than(400):
        ranks(lambda u: np.broadcast_to(row, (len(u), items)), held_out, sp.csr_array((users, items)))
    left, right = rng.random((2, 4000))
    with allocating_less_than(64):
        compare(left, right)


def test_a_comparison_finds_a_difference_and_its_interval_covers():
    """Coverage of the interval and level of the test, over many simulated pairs of models."""
    generator = np.random.default_rng(7)
    covered = rejected = 0
    for run in range(80):
        base = generator.random(60)
        left = base + generator.normal(0.0, 0.1, 60)
        found = compare(left, base, seed=run)
        covered += found.low <= 0 <= found.high
        rejected += found.p_value < 0.05
    assert stats.binomtest(covered, 80, 0.95).pvalue > 1e-4
    assert stats.binomtest(rejected, 80, 0.05).pvalue > 1e-4
    better = compare(base + 0.1 + generator.normal(0, 0.1, 60), base)
    assert better.low > 0
    assert better.p_value < 0.001


DIFFERENCES = {
    "ties": [0.1, 0.2, 0.3, -0.1, 0.0, 0.3, -0.2, 0.1, 0.1],
    "all one way": [0.5, 0.25, 1.0, 0.125, 0.75, 0.5, 0.5],
    "balanced": [1.0, -1.0, 1.0, -1.0],
    "skewed": [3.0, 0.1, 0.1, -0.2, 0.1, -0.1, 0.1, 0.2, -0.1, 0.4, 0.1, -0.3],
    "equal but for rounding": [1.1, 2.2, -3.3, 0.4],
    "one user": [0.5],
}


@pytest.mark.parametrize("differences", DIFFERENCES.values(), ids=DIFFERENCES)
def test_the_p_value_is_that_of_all_sign_flips(differences):
    """Exactly: in whole thousandths, where sums that are equal compare as equal."""
    thousandths = [round(1000 * value) for value in differences]
    sums = [abs(sum(s * v for s, v in zip(signs, thousandths, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(thousandths))]  # fmt: skip
    exact = np.mean([value >= abs(sum(thousandths)) for value in sums])
    found = compare(np.array(differences), np.zeros(len(differences))).p_value
    assert abs(found - exact) < 5 * math.sqrt(exact * (1 - exact) / 10_000) + 1e-3


@pytest.mark.parametrize("differences", DIFFERENCES.values(), ids=DIFFERENCES)
def test_the_interval_is_that_of_resampled_users(differences):
    """Against another way of drawing the same: how often each user is drawn is multinomial."""
    n = len(differences)
    counts = np.random.default_rng(2).multinomial(n, [1 / n] * n, size=200_000)
    means = counts @ np.array(differences) / n
    found = compare(np.array(differences), np.zeros(n))
    assert found.mean == pytest.approx(np.mean(differences))
    # By shares, not by distance: with few users the means jump from one value to the next.
    assert np.mean(means < found.low + 1e-9) + 0.02 * (found.low <= means.min() + 1e-9) > 0.015
    assert np.mean(means < found.low - 1e-9) < 0.035
    assert np.mean(means > found.high + 1e-9) < 0.035
    assert np.mean(means > found.high - 1e-9) + 0.02 * (found.high >= means.max() - 1e-9) > 0.015


def test_comparing_different_users_is_refused():
    with pytest.raises(InputError, match="same users"):
        compare(np.zeros(3), np.zeros(4))


def test_standard_errors():
    assert standard_error(np.array([1.0, 0.0, 1.0, 0.0])) == pytest.approx(stats.sem([1, 0, 1, 0]))
    assert math.isnan(standard_error(np.array([1.0])))
