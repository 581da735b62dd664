"""Splits: what is held out, protocol by protocol, what of it a folder keeps, and what is refused."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import pricdr
from pricdr import Ratings, Split
from pricdr.cli import run
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.data.splits import NEGATIVES, HeldOut, hold_out, load_split, official, read_official, save_split, set_aside
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError, ParameterError

ITEMS = tuple(f"i{n:03d}" for n in range(260))
OLD = Path(__file__).with_name("split_version1")
DATA = Path(os.environ.get("PRICDR_DATA", Path(__file__).parents[2] / "../shared/data"))


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
    assert json.loads((tmp_path / "split.json").read_text()) == json.loads((OLD / "split.json").read_text())
    for name in ("test.parquet", "validation.parquet", "negatives.parquet", "train.parquet"):
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
    assert not split.cold[expected == 0].any()
    left, strata = train.sum(axis=1)[split.test.evaluated], split.strata()
    of_stratum = {"all": left >= 0, "warm": left > 0, "few": (left >= 1) & (left <= 3), "cold": left == 0}
    assert list(strata) == list(of_stratum)
    assert all(np.array_equal(strata[name], mask) for name, mask in of_stratum.items())
    mine = {user: set() for user in split.validation.users}
    for part in (split.validation, split.test):
        assert all(len(set(row)) == NEGATIVES for row in part.negatives.tolist())
        assert not full[part.users[:, None], part.negatives].any()
    for user, row in zip(split.validation.users, split.validation.negatives.tolist(), strict=True):
        mine[user] |= set(row)
    for user, row in zip(split.test.users, split.test.negatives.tolist(), strict=True):
        assert not mine[user] & set(row)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 6) | st.floats(0.01, 0.99), st.sampled_from([0.0, 0.3]), st.booleans())
def test_so_many_items_or_such_a_share_of_every_user_with_enough_are_tested_by(seed, amount, cold, by_time):
    """Of a share at least one, and two are left."""
    ratings = _ratings(seed % 5, users=30)
    counts = np.diff(ratings.matrix.indptr)
    times = np.random.default_rng(seed).integers(0, 9, len(ratings)).astype(float) if by_time else None
    if isinstance(amount, int):
        expected, options = np.where(counts >= amount + 2, amount, 0), {"test_items": amount}
    else:
        rounded = np.floor(amount * counts + 0.5)
        expected, options = np.where(counts < 3, 0, np.clip(rounded, 1, np.maximum(counts - 2, 1))), {"ratio": amount}
    split = hold_out(ratings, seed=seed, cold=cold, times=times, **options)
    _check(ratings, split, expected)
    assert split.cold.sum() == round(cold * (expected > 0).sum() + 1e-9)


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


@pytest.mark.parametrize("test_items", [1, 3])
def test_held_out_items_and_negatives_are_uniform(test_items):
    """Over many users and seeds: every rating is tested equally often, every unrated item drawn equally often."""
    users, seeds, rated = 60, 10, np.arange(0, 60, 5)
    pairs = [(f"u{u}", ITEMS[i]) for u in range(users) for i in rated]
    ratings = Ratings.from_triples(*zip(*pairs, strict=True)).select(items=ITEMS)
    splits = [hold_out(ratings, seed=seed, test_items=test_items) for seed in range(seeds)]
    tested = np.bincount(np.concatenate([split.test.items for split in splits]), minlength=len(ITEMS))
    expected = users * seeds * test_items / len(rated)
    assert (np.abs(tested[rated] - expected) < 6 * np.sqrt(expected)).all()
    rows = np.concatenate([split.test.negatives for split in splits])
    unrated, share = np.setdiff1d(np.arange(len(ITEMS)), rated), len(rows) * NEGATIVES / (len(ITEMS) - len(rated))
    drawn = np.bincount(rows.ravel(), minlength=len(ITEMS))
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


def test_the_training_part_says_that_it_is_one():
    """One rating more can deal the held-out items of others anew: a release of the rest has to disclose the split."""
    rule = "the training part of a split"
    assert hold_out(_ratings(), seed=1).train.filtered_by == rule
    assert hold_out(_ratings().disclosing("a 5-core"), seed=1).train.filtered_by == f"a 5-core, {rule}"


def test_protocols_outside_their_rule_are_refused():
    for options, message in (
        ({"test_items": 0}, "test_items must be"),
        *(({"ratio": share}, "ratio must lie") for share in (0.0, 1.0)),
        ({"ratio": 0.2, "test_items": 2}, "exclude each other"),
        *(({"cold": share}, "cold") for share in (-0.1, 1.0, float("nan"))),
    ):
        with pytest.raises(ParameterError, match=message):
            hold_out(_ratings(), seed=0, **options)


def _one_user(rated: int, items: int) -> Ratings:
    names = tuple(f"i{at}" for at in range(items))
    return Ratings.from_triples(["u"] * rated, names[:rated]).select(items=names)


def test_exactly_as_many_ratings_and_unrated_items_as_are_needed_are_enough():
    split = hold_out(_one_user(3, 3 + 2 * NEGATIVES), seed=0)
    drawn = np.concatenate([split.validation.negatives, split.test.negatives], axis=1)
    assert sorted(drawn[0].tolist()) == list(range(3, 3 + 2 * NEGATIVES))
    assert len(set_aside(_one_user(2, 2 + NEGATIVES), seed=0)[1]) == 1
    for hold, rated, items, message in (
        (hold_out, 3, 2 + 2 * NEGATIVES, "too few"),
        (set_aside, 2, 1 + NEGATIVES, "too few"),
        (hold_out, 2, 300, "no user has 3 ratings or more: nothing can be held out"),
        (set_aside, 1, 300, "no user has two ratings or more: nothing can be set aside"),
    ):
        with pytest.raises(InputError, match=message):
            hold(_one_user(rated, items), seed=0)


# Parts that somebody gave.


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


def test_given_parts_hide_whole_histories_where_cold_users_are_asked_for_and_newcomers_are_cold_anyway():
    _, train, test, _ = _parts()
    newcomer = Ratings.from_triples(["new", "new"], ["i001", "unheard of"]).to_frame()
    test = Ratings.of(pl.concat([test.to_frame().select("user", "item"), newcomer]))
    plain, hidden = Split.of(train, test, seed=2), Split.of(train, test, cold=0.5, seed=2)
    at = plain.train.users.index("new")
    assert (plain.cold[at], (plain.test.users == at).sum(), "unheard of" in plain.train.items) == (True, 2, True)
    assert hidden.cold.sum() == pytest.approx(plain.strata()["warm"].sum() * 0.5 + plain.cold.sum(), abs=2)
    assert _named(hidden, hidden.test) == _named(plain, plain.test)
    cold = {hidden.train.users[at] for at in np.flatnonzero(hidden.cold)}
    assert {user for user, _ in _named(hidden, hidden.validation)} & cold


def test_parts_with_nothing_left_are_refused():
    _, train, test, _ = _parts()
    nothing = train.only(np.zeros(len(train), dtype=bool))
    for use, parts in {"test": (train, train), "validate": (train, test, train), "train": (nothing, test)}.items():
        with pytest.raises(InputError, match=f"nothing is left to {use}"):
            Split.of(*parts)


def test_an_official_split_is_taken_as_it_is_and_holds_out_only_what_was_rated():
    """Of three users the first and the last of each."""
    ratings, users = _ratings(users=3), np.arange(3)
    ends = (
        ratings.matrix.indices[at].astype(np.int64)
        for at in (ratings.matrix.indptr[:-1], ratings.matrix.indptr[1:] - 1)
    )
    parts = [HeldOut(users, items, np.zeros((3, NEGATIVES), dtype=np.int64)) for items in ends]
    split = official(ratings, *parts)
    held = {(u, i) for part in parts for u, i in zip(part.users, part.items, strict=True)}
    kept = {(u, i) for u, i in zip(*ratings.matrix.nonzero(), strict=True) if (u, i) not in held}
    assert set(zip(*split.train.matrix.nonzero(), strict=True)) == kept
    assert (split.seed, split.protocol) == (None, "an official split")
    unrated = int(np.flatnonzero(ratings.matrix[[1]].toarray()[0] == 0)[0])
    for at in (0, 1):
        items = np.where(users == 1, unrated, parts[at].items)
        wrong = [*parts[:at], HeldOut(users, items, parts[at].negatives), *parts[at + 1 :]]
        with pytest.raises(InputError, match=f"holds out '{ratings.items[unrated]}' of 'u01', who never rated it"):
            official(ratings, *wrong)


@pytest.mark.realdata
def test_the_official_split_is_imported_as_it_is(tmp_path):
    here = DATA / "douban_book_music_official"
    if not here.exists():
        pytest.skip("no real data")
    ratings = read(here / "music.csv.gz").ratings.positives()
    split = read_official(here / "official_split_music.csv.gz", ratings)
    assert (len(split.test), len(ratings.items), len(ratings)) == (924, 4228, 50157)
    assert len(split.train) == 50157 - 2 * 924
    assert np.array_equal(split.test.negatives, split.validation.negatives)
    popularity = np.bincount(split.train.matrix.indices, minlength=4228)
    mine = popularity[split.test.items][:, None]
    others = popularity[split.test.negatives]
    rank = (others > mine).sum(axis=1) + 0.5 * (others == mine).sum(axis=1)
    assert (rank < 10).mean() == pytest.approx(0.319, abs=0.001)


def test_an_official_split_that_does_not_fit_is_refused(tmp_path):
    header = "user,valid_item,test_item,negatives_99"
    for text, rule in (
        (f"{header}\nnobody,a,b,c d\n", "'nobody', which is not in the ratings"),
        ("user,item\na,b\n", "negatives_99 are needed"),
    ):
        (tmp_path / "o.csv").write_text(text)
        with pytest.raises(InputError, match=rule):
            read_official(tmp_path / "o.csv", _ratings())


# Folders.


PROTOCOLS = [({}, "one rating of each user, at random"), ({"ratio": 0.4}, "40 % of each user's ratings, at random")]


@pytest.mark.parametrize(("options", "protocol"), PROTOCOLS, ids=["one item", "a share"])
def test_a_split_survives_the_round_trip(tmp_path, options, protocol):
    made = hold_out(_ratings(), seed=3, cold=0.25, **options)
    save_split(made, tmp_path)
    loaded = load_split(tmp_path)
    assert made.train.fingerprint() == loaded.train.fingerprint()
    for name in ("validation", "test"):
        for own, read_back in zip(_held(getattr(made, name)), _held(getattr(loaded, name)), strict=True):
            assert np.array_equal(own, read_back)
    assert np.array_equal(made.cold, loaded.cold)
    assert (loaded.seed, loaded.not_evaluated) == (3, made.not_evaluated)
    assert made.protocol == loaded.protocol == protocol
    names = [f"{name}.parquet" for name in ("negatives", "test", "train", "validation")]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*names, "split.json"])
    assert set(pl.read_parquet(tmp_path / "negatives.parquet")["for"]) == {"validation", "test"}
    expected = {name: keep.sum() for name, keep in made.strata().items() if name != "all"}
    strata = json.loads((tmp_path / "split.json").read_text())["strata"]
    assert strata == {**expected, "not_evaluated": made.not_evaluated}


@pytest.fixture
def folder(tmp_path):
    save_split(hold_out(_ratings(), seed=3, cold=0.25), tmp_path)
    return tmp_path


def change(folder, **changes):
    about = json.loads((folder / "split.json").read_text())
    (folder / "split.json").write_text(json.dumps({**about, **changes}))


def rewrite(file, change):
    change(pl.read_parquet(file)).write_parquet(file)


def given_to_another(negatives):
    """One user has a negative less, another one more: the total is the same."""
    users = negatives["user"].to_list()
    users[0] = next(user for user in users if user != users[0])
    return negatives.with_columns(user=pl.Series(users))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: rewrite(f / "negatives.parquet", given_to_another), "same number"),
        (lambda f: rewrite(f / "negatives.parquet", lambda frame: frame[1:]), "same number"),
        (lambda f: rewrite(f / "negatives.parquet", lambda frame: frame[:0]), "same number"),
        (lambda f: rewrite(f / "test.parquet", lambda frame: pl.concat([frame, frame])), "same number"),
        (lambda f: rewrite(f / "test.parquet", lambda each: each.with_columns(user=pl.lit("x"))), "not in the ratings"),
        (lambda f: rewrite(f / "train.parquet", lambda frame: frame.head(9)), "not the one"),
        (lambda f: (f / "test.parquet").write_bytes(b"junk"), "cannot be read as Parquet"),
        (lambda f: (f / "negatives.parquet").unlink(), "no such file"),
        (lambda f: (f / "split.json").unlink(), "no split.json"),
        (lambda f: (f / "split.json").write_text("{}"), "can be read"),
        (lambda f: (f / "split.json").write_text("[" * 100_000), "can be read"),
        (lambda f: change(f, seed=2**70), "seed must be"),
        (lambda f: change(f, seed="1"), "seed must be"),
        (lambda f: change(f, users=["a", "a"]), "must be distinct"),
        (lambda f: change(f, users=["a\x1b[2J"]), "control character"),
        (lambda f: change(f, users=[["a"]]), "must be text"),
        *(
            (lambda f, protocol=protocol: change(f, protocol=protocol), "printable line is needed")
            for protocol in (5, "a\x1b[2J", "a" * 201, ["x"])
        ),
    ],
)
def test_a_spoilt_split_is_refused_in_one_line(folder, spoil, message):
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        load_split(folder)
    assert "\n" not in str(caught.value)


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
