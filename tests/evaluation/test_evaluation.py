import itertools
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from pricdr.data.splits import HeldOut
from pricdr.errors import InputError
from pricdr.evaluation.metrics import NAMES, per_user, rank_of
from pricdr.evaluation.ranking import ranks, sampled_ranks
from pricdr.evaluation.verdict import compare, standard_error


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(2, 30)), elements=st.integers(-3, 3).map(float)))
def test_a_rank_is_the_average_over_all_orders_of_ties(scores):
    positive, others = scores[:, 0], scores[:, 1:]
    for row, rank in enumerate(rank_of(positive, others)):
        better = sum(s > positive[row] for s in others[row])
        ties = sum(s == positive[row] for s in others[row])
        assert rank == np.mean([better + above for above in range(ties + 1)])


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_metrics_are_their_definitions(places):
    """Against definitions written out over the whole list of candidates, one relevant among them."""
    found = per_user(np.array(places, dtype=float))
    assert tuple(found) == NAMES
    for at, place in enumerate(places):
        relevance = [0.0] * 101
        relevance[place] = 1.0
        for k in (5, 10):
            dcg = sum(r / math.log2(i + 2) for i, r in enumerate(relevance[:k]))
            assert found[f"HR@{k}"][at] == sum(relevance[:k])
            assert found[f"NDCG@{k}"][at] == pytest.approx(dcg)
            assert found[f"MRR@{k}"][at] == pytest.approx(sum(r / (i + 1) for i, r in enumerate(relevance[:k])))
        assert found["HR@10"][at] >= found["NDCG@10"][at] >= found["MRR@10"][at]


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


@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_brute_force(seed, monkeypatch):
    train, held_out, scores = _case(seed)
    monkeypatch.setattr("pricdr.evaluation.ranking._CELLS_PER_BLOCK", 700)
    sampled, full = ranks(lambda users: scores[users], held_out, train)
    for at, (user, item) in enumerate(zip(held_out.users, held_out.items, strict=True)):
        mine = scores[user, item]
        near = scores[user, held_out.negatives[at]]
        far = [s for i, s in enumerate(scores[user]) if train[user, i] == 0 and i != item]
        assert sampled[at] == (near > mine).sum() + (near == mine).sum() / 2
        assert full[at] == sum(s > mine for s in far) + sum(s == mine for s in far) / 2


def test_a_model_that_scores_wrongly_is_refused():
    train, held_out, scores = _case()
    with pytest.raises(InputError, match="finite score"):
        ranks(lambda users: scores[users] * np.nan, held_out, train)
    with pytest.raises(InputError, match="finite score"):
        ranks(lambda users: scores[users][:, :-1], held_out, train)


def test_ranking_leaves_the_scores_of_a_model_alone():
    """A model may hand out its own array of scores, float64 and without a copy."""
    train, _, scores = _case(users=20)
    before = scores.copy()
    everyone = HeldOut(np.arange(20), np.arange(20), np.tile(np.arange(100, 199), (20, 1)))
    ranks(lambda users: scores[users[0] : users[-1] + 1], everyone, train)
    assert np.array_equal(scores, before)


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


def test_a_comparison_is_repeatable():
    left, right = np.random.default_rng(0).random((2, 50))
    assert compare(left, right, seed=3) == compare(left, right, seed=3)
    assert compare(left, right, seed=3) != compare(left, right, seed=4)


def test_comparing_different_users_is_refused():
    with pytest.raises(InputError, match="same users"):
        compare(np.zeros(3), np.zeros(4))


def test_standard_errors():
    assert standard_error(np.array([1.0, 0.0, 1.0, 0.0])) == pytest.approx(stats.sem([1, 0, 1, 0]))
    assert math.isnan(standard_error(np.array([1.0])))


TORCHMETRICS = [  # torchmetrics 1.9.0: retrieval_hit_rate, _normalized_dcg, _reciprocal_rank at top_k 5, then 10
    [1.0, 0.5, 0.333333, 1.0, 0.5, 0.333333],
    [0.0, 0.0, 0.0, 1.0, 0.30103, 0.111111],
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    [1.0, 0.430677, 0.25, 1.0, 0.430677, 0.25],
    [0.0, 0.0, 0.0, 1.0, 0.333333, 0.142857],
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
]


def test_metrics_are_those_of_a_published_implementation():
    rng = np.random.default_rng(7)
    scores = np.stack([rng.standard_normal(100) for _ in TORCHMETRICS])
    scores[:, 0] += 1.5
    found = per_user(rank_of(scores[:, 0], scores[:, 1:]))
    np.testing.assert_allclose(np.column_stack([found[name] for name in NAMES]), TORCHMETRICS, atol=1e-6)


def test_metrics_over_many_users_are_those_of_ranx():
    """Means over 400 lists of hit_rate, ndcg and mrr at 5 and 10, by ranx 0.3.21."""
    rng = np.random.default_rng(11)
    scores = rng.standard_normal((400, 100))
    scores[:, 0] += rng.uniform(0, 3, 400)
    found = per_user(rank_of(scores[:, 0], scores[:, 1:]))
    ranx = [0.46, 0.3754668272733793, 0.34720833333333334, 0.5825, 0.41486764372166335, 0.36334920634920637]
    np.testing.assert_allclose([found[name].mean() for name in NAMES], ranx, rtol=1e-12)


def test_ranks_among_candidates_alone_are_those_of_the_full_pass():
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 20, (1100, 150)).astype(np.float32)
    negatives = np.stack([rng.permutation(np.arange(1, 150))[:99] for _ in range(1100)])
    held_out = HeldOut(rng.permutation(1100), np.zeros(1100, dtype=np.int64), negatives)
    expected, _ = ranks(lambda users: scores[users], held_out, sp.csr_array((1100, 150)))
    found = sampled_ranks(lambda users, items: np.take_along_axis(scores[users], items, axis=1), held_out)
    assert np.array_equal(found, expected)
    with pytest.raises(InputError, match="finite"):
        sampled_ranks(lambda users, items: np.full(items.shape, np.nan), held_out)
