import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pricdr
from pricdr import Ratings
from pricdr.cli import run
from pricdr.data.reading.readers import write_ratings
from pricdr.data.splits import NEGATIVES, HeldOut, Split, hold_out, load_split, official, set_aside
from pricdr.errors import InputError, ParameterError

ITEMS = tuple(f"i{n:03d}" for n in range(260))


def _ratings(seed=0, users=60, most=20):
    rng = np.random.default_rng(seed)
    pairs = [(f"u{u:02d}", i) for u in range(users) for i in rng.choice(ITEMS, rng.integers(1, most), replace=False)]
    return Ratings.from_triples(*zip(*pairs, strict=True)).select(items=ITEMS)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.9]))
def test_a_split_keeps_its_promises(seed, cold):
    ratings = _ratings(seed % 7)
    split = hold_out(ratings, seed=seed, cold=cold)
    full, train = ratings.matrix.toarray() > 0, split.train.matrix.toarray() > 0
    counts = full.sum(axis=1)
    evaluated = np.flatnonzero(counts >= 3)
    assert np.array_equal(split.test.users, evaluated)
    assert np.array_equal(split.validation.users, evaluated)
    assert split.not_evaluated == (counts < 3).sum()
    assert (split.test.items != split.validation.items).all()
    assert split.cold.sum() == round(cold * len(evaluated) + 1e-9)
    assert not split.cold[counts < 3].any()
    for at, user in enumerate(evaluated):
        held = {int(split.test.items[at]), int(split.validation.items[at])}
        assert full[user, list(held)].all()
        expected = set() if split.cold[user] else set(np.flatnonzero(full[user])) - held
        assert set(np.flatnonzero(train[user])) == expected
        negatives = np.concatenate([split.validation.negatives[at], split.test.negatives[at]])
        assert len(set(negatives.tolist())) == 2 * NEGATIVES
        assert not full[user, negatives].any()
    assert np.array_equal(train[counts < 3], full[counts < 3])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3]))
def test_what_is_set_aside_is_one_item_of_everyone_with_two_and_newcomers_are_known_ones(seed, cold):
    ratings = _ratings(seed % 7)
    full = ratings.matrix.toarray() > 0
    counts = full.sum(axis=1)
    known = np.arange(len(counts)) % 3 == 0
    kept, held = set_aside(ratings, seed=seed, cold=cold, among=known)
    train = kept.matrix.toarray() > 0
    assert np.array_equal(held.users, np.flatnonzero(counts > 1))
    assert full[held.users, held.items].all()
    assert not full[held.users[:, None], held.negatives].any()
    assert all(len(set(row)) == NEGATIVES for row in held.negatives.tolist())
    lost = full.sum(axis=1) - train.sum(axis=1)
    newcomers = (train.sum(axis=1) == 0) & (counts > 1)
    assert newcomers.sum() == round(cold * (known & (counts > 1)).sum() + 1e-9)
    assert not newcomers[~known].any()
    assert np.array_equal(lost[~newcomers], (counts > 1)[~newcomers])
    assert not (train & ~full).any()
    again = set_aside(ratings, seed=seed, cold=cold, among=known)
    assert np.array_equal(again[1].items, held.items)


def test_nothing_to_set_aside_is_said():
    with pytest.raises(InputError, match="two ratings"):
        set_aside(Ratings.from_triples(["a", "b"], ["x", "y"]).select(items=ITEMS), seed=1)
    with pytest.raises(InputError, match="too few"):
        set_aside(Ratings.from_triples(["a", "a"], ["x", "y"]), seed=1)


@pytest.mark.parametrize("cold", [0.0, 0.3])
def test_users_with_one_to_three_ratings_are_a_stratum_within_warm(cold):
    split = hold_out(_ratings(most=9), seed=4, cold=cold)
    strata, left = split.strata(), np.diff(split.train.matrix.indptr)[split.test.users]
    assert list(strata) == ["all", "warm", "few", "cold"]
    assert strata["few"].any()
    assert np.array_equal(strata["few"], (left >= 1) & (left <= 3))
    assert np.array_equal(strata["warm"], left > 0)
    assert np.array_equal(strata["cold"], left == 0)


def test_the_same_seed_gives_the_same_split_and_another_does_not():
    one, two, other = (hold_out(_ratings(), seed=s, cold=0.2) for s in (4, 4, 5))
    for a, b in ((one.test, two.test), (one.validation, two.validation)):
        assert np.array_equal(a.items, b.items)
        assert np.array_equal(a.negatives, b.negatives)
    assert not np.array_equal(one.test.items, other.test.items)


def test_held_out_items_and_negatives_are_uniform():
    """Over many seeds: every rating is tested equally often, every unrated item drawn equally often."""
    ratings = _ratings(3, users=1, most=21)
    rated = ratings.matrix.indices
    assert len(rated) > 5
    tested, drawn = np.zeros(len(ITEMS)), np.zeros(len(ITEMS))
    for seed in range(600):
        split = hold_out(ratings, seed=seed)
        tested[split.test.items] += 1
        drawn[split.test.negatives.ravel()] += 1
    expected = 600 / len(rated)
    assert (np.abs(tested[rated] - expected) < 6 * np.sqrt(expected)).all()
    unrated = np.setdiff1d(np.arange(len(ITEMS)), rated)
    share = 600 * NEGATIVES / len(unrated)
    assert (np.abs(drawn[unrated] - share) < 6 * np.sqrt(share)).all()


def test_the_public_split_is_that_of_the_command(tmp_path):
    """Values do not count once they pass the threshold, and items that nobody rated are no candidates."""
    rng = np.random.default_rng(5)
    pairs = [(f"u{u:02d}", i) for u in range(99) for i in rng.choice(ITEMS, rng.integers(1, 20), replace=False)]
    ratings = Ratings.from_triples(*zip(*pairs, strict=True), rng.integers(1, 6, len(pairs)))
    write_ratings(tmp_path / "r.parquet", ratings)
    options = ["--cold", "0.2", "--seed", "9", "--threshold", "2"]
    assert run(["split", str(tmp_path / "r.parquet"), "--out", str(tmp_path / "split"), *options]) == 0
    written = load_split(tmp_path / "split")
    made = pricdr.split(ratings.select(items=(*ratings.items, "never rated")), threshold=2, cold=0.2, seed=9)
    assert made.train.fingerprint() == written.train.fingerprint()
    assert not made.train.has_values
    for name in ("validation", "test"):
        for part in ("users", "items", "negatives"):
            assert np.array_equal(getattr(getattr(made, name), part), getattr(getattr(written, name), part))
    assert np.array_equal(made.cold, written.cold)
    assert made.cold.any()


@pytest.mark.parametrize("cold", [-0.1, 1.0, float("nan")])
def test_a_cold_fraction_outside_its_range_is_refused(cold):
    with pytest.raises(ParameterError, match="cold"):
        hold_out(_ratings(), seed=0, cold=cold)


def test_too_few_ratings_or_items_are_refused():
    lonely = Ratings.from_triples(["a", "b"], ["x", "y"]).select(items=ITEMS)
    with pytest.raises(InputError, match="nothing can be held out"):
        hold_out(lonely, seed=0)
    narrow = Ratings.from_triples(["a"] * 3, ["x", "y", "z"])
    with pytest.raises(InputError, match="too few"):
        hold_out(narrow, seed=0)


def _official_parts():
    """Three users' ratings, and the first and the last of each held out."""
    ratings = _ratings(users=3)
    users = np.arange(3)
    first = ratings.matrix.indices[ratings.matrix.indptr[:-1]].astype(np.int64)
    last = ratings.matrix.indices[ratings.matrix.indptr[1:] - 1].astype(np.int64)
    negatives = np.zeros((3, NEGATIVES), dtype=np.int64)
    return ratings, HeldOut(users, first, negatives), HeldOut(users, last, negatives)


def test_an_official_split_is_taken_as_it_is():
    ratings, validation, test = _official_parts()
    split = official(ratings, validation, test)
    held = {(u, i) for part in (validation, test) for u, i in zip(part.users, part.items, strict=True)}
    kept = {(u, i) for u, i in zip(*ratings.matrix.nonzero(), strict=True) if (u, i) not in held}
    assert set(zip(*split.train.matrix.nonzero(), strict=True)) == kept
    assert split.seed is None
    assert split.protocol == "an official split"


@pytest.mark.parametrize("part", ["validation", "test"])
def test_an_official_split_cannot_hold_out_what_was_not_rated(part):
    ratings, *parts = _official_parts()
    at = ["validation", "test"].index(part)
    unrated = int(np.flatnonzero(ratings.matrix[[1]].toarray()[0] == 0)[0])
    items = parts[at].items.copy()
    items[1] = unrated
    parts[at] = HeldOut(parts[at].users, items, parts[at].negatives)
    with pytest.raises(InputError, match=f"holds out '{ratings.items[unrated]}' of 'u01', who never rated it"):
        official(ratings, *parts)


def test_a_cold_user_with_ratings_is_a_contradiction():
    split = hold_out(_ratings(), seed=0)
    with pytest.raises(InputError, match="cold user has ratings"):
        Split(split.train, split.validation, split.test, np.ones(60, dtype=bool), seed=0)


def test_the_training_part_says_that_it_is_one():
    """One rating more can deal the held-out items of others anew: a release of the rest has to disclose the split."""
    ratings = Ratings.from_triples(["a"] * 4 + ["b"], ["i1", "i2", "i3", "i4", "i1"])
    ratings = ratings.select(items=tuple(f"i{n}" for n in range(400)))
    split = hold_out(ratings, seed=1)
    assert split.train.filtered_by == "the training part of a split"
    assert hold_out(ratings.disclosing("a 5-core"), seed=1).train.filtered_by == (
        "a 5-core, the training part of a split"
    )
