"""What a split holds out, protocol by protocol; and the one of old, which stays as it was to the last number."""

import hashlib
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pricdr
from pricdr import Ratings, Split
from pricdr.data.splits import NEGATIVES, hold_out, load_split, save_split, set_aside
from pricdr.errors import InputError, ParameterError

ITEMS = tuple(f"i{n:03d}" for n in range(260))
OLD = Path(__file__).with_name("split_version1")


def _ratings(seed=0, users=60, most=20):
    rng = np.random.default_rng(seed)
    pairs = [(f"u{u:02d}", i) for u in range(users) for i in rng.choice(ITEMS, rng.integers(1, most), replace=False)]
    return Ratings.from_triples(*zip(*pairs, strict=True)).select(items=ITEMS)


def _digest(*arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).astype("<i8").tobytes() + b"\0")
    return digest.hexdigest()[:16]


def _held(part):
    return part.users, part.items, part.negatives


@pytest.mark.parametrize(
    ("seed", "cold", "of_split", "of_set_aside"),
    [(4, 0.0, "00255cee53cd9c52", "815d06780b1878f5"), (7, 0.3, "31cff13d265d240c", "2893a6497462b940")],
)
def test_one_item_per_user_is_held_out_as_before_there_were_other_protocols(seed, cold, of_split, of_set_aside):
    """The digests were made by version 0.4.0, which knew no other protocol."""
    split = hold_out(_ratings(), seed=seed, cold=cold)
    rest = split.train.matrix.indptr, split.train.matrix.indices
    assert _digest(*rest, *_held(split.validation), *_held(split.test), split.cold) == of_split
    kept, held_out = set_aside(_ratings(), seed=seed, cold=cold)
    assert _digest(kept.matrix.indptr, kept.matrix.indices, *_held(held_out)) == of_set_aside


def test_a_split_folder_of_before_loads_and_is_written_the_same_again(tmp_path):
    split = load_split(OLD)
    assert (len(split.test), int(split.cold.sum()), split.not_evaluated, split.seed) == (8, 2, 0, 3)
    assert _digest(*_held(split.validation), *_held(split.test), split.cold) == "f2fda80310a522ff"
    save_split(split, tmp_path)
    for name in ("split.json", "test.parquet", "validation.parquet", "negatives.parquet", "train.parquet"):
        if name == "split.json":
            assert json.loads((tmp_path / name).read_text()) == json.loads((OLD / name).read_text())
        else:
            assert pl.read_parquet(tmp_path / name).equals(pl.read_parquet(OLD / name))


def _check(ratings, split, expected):
    """What holds for every protocol; ``expected`` is how many test items each user has."""
    full, train = ratings.matrix.toarray() > 0, split.train.matrix.toarray() > 0
    tested, validated = np.zeros_like(full), np.zeros_like(full)
    tested[split.test.users, split.test.items] = True
    validated[split.validation.users, split.validation.items] = True
    assert np.array_equal(tested.sum(axis=1), expected)
    assert len(split.test) == tested.sum()
    assert np.array_equal(validated.sum(axis=1), expected > 0)
    assert not (tested & validated).any()
    assert not (train & (tested | validated)).any()
    kept = full & ~tested & ~validated
    kept[split.cold] = False
    assert np.array_equal(train, kept)
    assert split.not_evaluated == (expected == 0).sum()
    mine = {user: set() for user in split.validation.users}
    for part in (split.validation, split.test):
        assert all(len(set(row)) == NEGATIVES for row in part.negatives.tolist())
        assert not full[part.users[:, None], part.negatives].any()
    for user, row in zip(split.validation.users, split.validation.negatives.tolist(), strict=True):
        mine[user] |= set(row)
    for user, row in zip(split.test.users, split.test.negatives.tolist(), strict=True):
        assert not mine[user] & set(row)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.integers(1, 6), st.sampled_from([0.0, 0.3]), st.booleans())
def test_so_many_items_of_every_user_with_enough_are_tested_by(seed, test_items, cold, by_time):
    ratings = _ratings(seed % 5, users=30)
    counts = np.diff(ratings.matrix.indptr)
    times = np.random.default_rng(seed).integers(0, 9, len(ratings)).astype(float) if by_time else None
    split = hold_out(ratings, seed=seed, cold=cold, test_items=test_items, times=times)
    enough = counts >= test_items + 2
    _check(ratings, split, np.where(enough, test_items, 0))
    assert split.cold.sum() == round(cold * enough.sum() + 1e-9)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.floats(0.01, 0.99))
def test_a_share_of_the_ratings_is_at_least_one_and_leaves_two(seed, ratio):
    ratings = _ratings(seed % 5, users=30)
    counts = np.diff(ratings.matrix.indptr)
    split = hold_out(ratings, seed=seed, ratio=ratio)
    expected = [0 if n < 3 else min(max(int(np.floor(ratio * n + 0.5)), 1), n - 2) for n in counts]
    _check(ratings, split, np.array(expected))


@pytest.mark.parametrize("test_items", [1, 3])
def test_by_time_the_latest_are_tested_by_and_the_one_before_validates(test_items):
    ratings = _ratings()
    times = np.random.default_rng(1).permutation(len(ratings)).astype(float)
    split = hold_out(ratings, seed=5, test_items=test_items, times=times)
    matrix = ratings.matrix
    at = {(int(u), int(i)): t for u, i, t in zip(*matrix.nonzero(), times, strict=True)}
    for user in split.test.evaluated:
        own = sorted((t for (u, _), t in at.items() if u == user), reverse=True)
        tested = {at[user, int(i)] for u, i in zip(split.test.users, split.test.items, strict=True) if u == user}
        assert tested == set(own[:test_items])
        chosen = split.validation.items[split.validation.users == user]
        assert [at[user, int(i)] for i in chosen] == [own[test_items]]
    # The seed decides nothing but negatives where no two times are equal.
    other = hold_out(ratings, seed=6, test_items=test_items, times=times)
    assert np.array_equal(split.test.items, other.test.items)
    assert not np.array_equal(split.test.negatives, other.test.negatives)


def test_ratings_of_the_same_time_come_in_random_order():
    """By the names of the items, the last of the alphabet would always be tested by."""
    ratings = Ratings.from_triples(["u"] * 6, ITEMS[:6]).select(items=ITEMS)
    tested = [int(hold_out(ratings, seed=seed, times=np.zeros(6)).test.items[0]) for seed in range(120)]
    counts = np.bincount(tested, minlength=6)
    assert counts.sum() == 120
    assert (np.abs(counts - 20) < 4 * np.sqrt(20)).all()


def test_further_test_items_and_their_negatives_are_uniform():
    ratings = _ratings(3, users=1, most=21)
    rated = ratings.matrix.indices
    tested, drawn = np.zeros(len(ITEMS)), np.zeros(len(ITEMS))
    for seed in range(150):
        split = hold_out(ratings, seed=seed, test_items=3)
        tested[split.test.items] += 1
        drawn += np.bincount(split.test.negatives[1:].ravel(), minlength=len(ITEMS))
    expected = 150 * 3 / len(rated)
    assert (np.abs(tested[rated] - expected) < 6 * np.sqrt(expected)).all()
    unrated = np.setdiff1d(np.arange(len(ITEMS)), rated)
    share = 150 * 2 * NEGATIVES / len(unrated)
    assert (np.abs(drawn[unrated] - share) < 6 * np.sqrt(share)).all()


def test_times_follow_the_ratings_through_a_threshold():
    users, items = ["a"] * 5, [f"i{n:03d}" for n in (4, 1, 3, 0, 2)]
    ratings = Ratings.from_triples(
        [*users, *(f"b{n}" for n in range(220))], [*items, *ITEMS[5:225]], [5, 1, 4, 3, 5, *[3] * 220]
    )
    frame = ratings.to_frame()
    when = {"i000": 50.0, "i001": 90.0, "i002": 10.0, "i003": 40.0, "i004": 20.0}
    times = np.array([when.get(item, 0.0) for item in frame["item"]])
    split = pricdr.split(ratings, threshold=3, times=times)
    at = split.test.users.tolist().index(split.train.users.index("a"))
    assert split.train.items[split.test.items[at]] == "i000"  # i001 is later, and rated below 3
    with pytest.raises(InputError, match="225 ratings and 3 times"):
        pricdr.split(ratings, times=np.zeros(3))
    with pytest.raises(InputError, match="finite"):
        pricdr.split(ratings, times=np.full(225, np.nan))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_items": 0}, "test_items must be"),
        ({"ratio": 0.0}, "ratio must lie"),
        ({"ratio": 1.0}, "ratio must lie"),
        ({"ratio": 0.2, "test_items": 2}, "exclude each other"),
    ],
)
def test_protocols_outside_their_rule_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        hold_out(_ratings(), seed=0, **options)
    with pytest.raises(InputError, match="no user has 42 ratings or more"):
        hold_out(_ratings(), seed=0, test_items=40)


def test_several_items_survive_the_round_trip(tmp_path):
    made = hold_out(_ratings(), seed=3, cold=0.2, ratio=0.4)
    save_split(made, tmp_path)
    loaded = load_split(tmp_path)
    for part in ("validation", "test"):
        for own, read in zip(_held(getattr(made, part)), _held(getattr(loaded, part)), strict=True):
            assert np.array_equal(own, read)
    assert np.array_equal(made.cold, loaded.cold)
    assert made.protocol == loaded.protocol == "40 % of each user's ratings, at random"
    assert json.loads((tmp_path / "split.json").read_text())["strata"]["warm"] == made.strata()["warm"].sum()


@pytest.mark.parametrize("protocol", [5, None, "a\x1b[2J", "a" * 201, ["x"]])
def test_a_protocol_that_is_no_line_of_text_is_refused(tmp_path, protocol):
    save_split(hold_out(_ratings(), seed=3), tmp_path)
    about = json.loads((tmp_path / "split.json").read_text())
    assert "protocol" not in about
    (tmp_path / "split.json").write_text(json.dumps({**about, "protocol": protocol}))
    with pytest.raises(InputError, match="printable line is needed"):
        load_split(tmp_path)


def _parts(seed=0):
    """Ratings that are divided by chance: to train on, to test by and to validate by; some are in two parts."""
    ratings = _ratings(seed)
    chance = np.random.default_rng(seed).random(len(ratings))
    tested = (chance > 0.75) | ((chance > 0.55) & (chance < 0.6))
    masks = (chance < 0.6, tested, (chance > 0.58) & (chance < 0.8))
    return ratings, *(ratings.only(keep).rated() for keep in masks)


def _pairs(ratings):
    return set(ratings.to_frame().select("user", "item").rows())


def _named(split, part):
    users, items = split.train.users, split.train.items
    return {(users[u], items[i]) for u, i in zip(part.users, part.items, strict=True)}


@pytest.mark.parametrize("given_validation", [True, False])
def test_given_parts_are_taken_as_they_are_and_nothing_counts_twice(given_validation):
    _, train, test, validation = _parts()
    split = Split.of(train, test, validation if given_validation else None, seed=2)
    assert _named(split, split.test) == _pairs(test) - _pairs(train)
    assert _pairs(test) & _pairs(train)
    validated = _named(split, split.validation)
    if given_validation:
        assert validated == _pairs(validation) - _pairs(train) - _pairs(test)
    else:
        counts = train.to_frame().group_by("user").len().filter(pl.col("len") > 1)
        assert sorted(user for user, _ in validated) == sorted(counts["user"])
        assert validated <= _pairs(train)
    assert _pairs(split.train) == _pairs(train) - validated
    tested = {split.train.users[at] for at in split.test.evaluated}
    assert split.cold.sum() == len(tested - {user for user, _ in _pairs(split.train)})
    assert split.not_evaluated == len(split.train.users) - len(tested)
    everything = {user: set() for user in split.train.users}
    for user, item in _pairs(train) | _pairs(test) | (_pairs(validation) if given_validation else set()):
        everything[user].add(item)
    for part in (split.test, split.validation):
        for user, row in zip(part.users, part.negatives, strict=True):
            assert not {split.train.items[at] for at in row} & everything[split.train.users[user]]


def test_given_parts_hide_whole_histories_where_cold_users_are_asked_for():
    _, train, test, _ = _parts()
    plain, hidden = Split.of(train, test, seed=2), Split.of(train, test, cold=0.5, seed=2)
    warm = plain.strata()["warm"].sum()
    assert hidden.cold.sum() == pytest.approx(warm * 0.5 + plain.cold.sum(), abs=2)
    assert _named(hidden, hidden.test) == _named(plain, plain.test)
    cold = {hidden.train.users[at] for at in np.flatnonzero(hidden.cold)}
    assert {user for user, _ in _named(hidden, hidden.validation)} & cold


def test_test_users_without_ratings_to_train_on_are_cold():
    _, train, test, _ = _parts()
    newcomer = Ratings.from_triples(["new", "new"], ["i001", "unheard of"])
    frame = pl.concat([test.to_frame().select("user", "item"), newcomer.to_frame()])
    split = Split.of(train, Ratings.from_polars(frame), seed=0)
    at = split.train.users.index("new")
    assert split.cold[at]
    assert (split.test.users == at).sum() == 2
    assert "unheard of" in split.train.items


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda train, test: (train, train), "nothing is left to test by"),
        (lambda train, test: (train, test, train), "nothing is left to validate by"),
        (lambda train, test: (train.only(np.zeros(len(train), dtype=bool)), test), "nothing is left to train on"),
    ],
)
def test_parts_with_nothing_left_are_refused(parts, message):
    _, train, test, _ = _parts()
    with pytest.raises(InputError, match=message):
        Split.of(*parts(train, test))
