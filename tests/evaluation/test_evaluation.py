import itertools
import math
import tracemalloc

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


def _case(seed=0, users=30, items=200):
    rng = np.random.default_rng(seed)
    train = sp.csr_array((rng.random((users, items)) < 0.05).astype(float))
    who = np.flatnonzero(rng.random(users) < 0.8)
    dense = train.toarray()
    items_out = np.array([rng.choice(np.flatnonzero(dense[u] == 0)) for u in who])
    negatives = np.array(
        [rng.choice(np.flatnonzero((dense[u] == 0) & (np.arange(items) != i)), 99, replace=False)
         for u, i in zip(who, items_out, strict=True)]
    )  # fmt: skip
    return train, HeldOut(who, items_out, negatives), rng.integers(0, 20, (users, items)).astype(float)


def test_a_model_that_scores_wrongly_is_refused():
    train, held_out, scores = _case()
    with pytest.raises(InputError, match="finite score"):
        ranks(lambda users: scores[users] * np.nan, held_out, train)
    with pytest.raises(InputError, match="finite score"):
        ranks(lambda users: scores[users][:, :-1], held_out, train)
    with pytest.raises(InputError, match="finite score"):
        sampled_ranks(lambda users, items: np.full(items.shape, np.nan), held_out)


def test_memory_is_bounded_by_blocks():
    """30,000 users x 42,000 items: ten gigabytes of scores, never more than a block of them at a time."""
    users, items = 30_000, 42_000
    rng = np.random.default_rng(0)
    train = sp.csr_array((users, items))
    some = np.arange(0, users, 25)
    held_out = HeldOut(some, rng.integers(0, items, len(some)), rng.integers(0, items, (len(some), 99)))
    row = rng.random(items, dtype=np.float32)
    tracemalloc.start()
    sampled, _ = ranks(lambda u: np.broadcast_to(row, (len(u), items)), held_out, train)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert len(sampled) == len(some)
    assert peak < 400, f"{peak:.0f} MiB"


def test_a_comparison_finds_a_difference_and_its_interval_covers():
    """Coverage of the interval and level of the test, over many simulated pairs of models."""
    generator = np.random.default_rng(7)
    covered = rejected = 0
    for run in range(80):
        base = generator.random(200)
        left = base + generator.normal(0.0, 0.1, 200)
        found = compare(left, base, seed=run)
        covered += found.low <= 0 <= found.high
        rejected += found.p_value < 0.05
    assert stats.binomtest(covered, 80, 0.95).pvalue > 1e-4
    assert stats.binomtest(rejected, 80, 0.05).pvalue > 1e-4
    better = compare(base + 0.05 + generator.normal(0, 0.1, 200), base)
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


def test_a_comparison_takes_bounded_memory():
    """Fifteen thousand users, as in the paper's largest pair; ten thousand resamples at once would take gigabytes."""
    generator = np.random.default_rng(0)
    left, right = generator.random(15_412), generator.random(15_412)
    tracemalloc.start()
    compare(left, right)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert peak < 64, f"{peak:.0f} MiB"


def test_comparing_different_users_is_refused():
    with pytest.raises(InputError, match="same users"):
        compare(np.zeros(3), np.zeros(4))


def test_standard_errors():
    assert standard_error(np.array([1.0, 0.0, 1.0, 0.0])) == pytest.approx(stats.sem([1, 0, 1, 0]))
    assert math.isnan(standard_error(np.array([1.0])))
