"""``split``: by chance, by time, of files that are divided already; and what contradicts itself."""

import numpy as np
import polars as pl
import pytest

from pricdr.data.splits import load_split

USERS, ITEMS = 40, 260
RNG = np.random.default_rng(0)
ROWS = [
    (f"u{user:02d}", f"i{item:03d}", 1, int(time))
    for user in range(USERS)
    for item, time in zip(*[RNG.permutation(ITEMS)[: 10 + user % 10] for _ in range(2)], strict=True)
]
"""10 to 20 ratings of each user, all at another time."""


def _write(path, rows, header="user,item,rating,timestamp"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture
def data(here):
    _write(here / "ratings.csv", ROWS)
    return here


def test_by_time_the_latest_ratings_of_each_user_are_tested_by(pricdr, data):
    outcome = pricdr("split", "ratings.csv", "--by", "time", "--cold", 0.2, "--test-items", 3, "--out", "split")
    assert outcome.code == 0, outcome.err
    split = load_split(data / "split")
    assert split.cold.sum() == 8
    assert f"tested by: {split.protocol}" in outcome.out
    named = pl.read_parquet(data / "split" / "test.parquet")
    for user in sorted({row[0] for row in ROWS}):
        own = sorted(((time, item) for u, item, _, time in ROWS if u == user), reverse=True)
        assert set(named.filter(pl.col("user") == user)["item"]) == {item for _, item in own[:3]}


def test_own_files_become_a_split_and_what_they_repeat_is_dropped_and_counted(pricdr, data):
    _write(data / "train.csv", ROWS[::2])
    _write(data / "test.csv", [*ROWS[1::2], *ROWS[:6:2], ("newcomer", "i001", 1, 1), ("newcomer", "i002", 1, 2)])
    outcome = pricdr("split", "--train", "train.csv", "--test", "test.csv", "--out", "split")
    assert outcome.code == 0, outcome.err
    assert outcome.err == "warning: test.csv: 3 ratings are in another file too: they are not tested by\n"
    split = load_split(data / "split")
    assert [len(part) for part in (split.test, split.train)] == [len(ROWS[1::2]) + 2, len(ROWS[::2]) - USERS]
    assert (split.cold.sum(), len(split.validation)) == (1, USERS)
    _write(data / "validation.csv", [*ROWS[3:9], ("u00", "i259", 1, 1)])
    files = ("--train", "train.csv", "--test", "test.csv", "--validation", "validation.csv")
    outcome = pricdr("split", *files, "--threshold", 1, "--out", "validated")
    assert "validation.csv: 6 ratings are in another file too" in outcome.err
    assert len(load_split(data / "validated").validation) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give the ratings to split, or --train and --test"),
        (("--train", "ratings.csv"), "or --train and --test"),
        (("--validation", "ratings.csv"), "or --train and --test"),
        (("ratings.csv", "--train", "ratings.csv"), "--train: these are already divided"),
        (("ratings.csv", "--official", "o.csv", "--seed", 0), "--seed: --official takes a split as it is"),
        (("--train", "a", "--test", "b", "--official", "o"), "--train and --test: --official"),
        (("--train", "ratings.csv", "--test", "ratings.csv", "--ratio", 0.2), "--ratio: --train and --test divide"),
        (("--train", "ratings.csv", "--test", "ratings.csv"), "nothing is left to test by"),
        (("ratings.csv", "--ratio", 0.2, "--test-items", 2), "exclude each other"),
        (("ratings.csv", "--ratio", 1), "ratio must lie strictly between 0 and 1, got 1.0"),
        (("ratings.csv", "--test-items", 0), "at least 1, got 0"),
        (("ratings.csv", "--by", "mood"), "'mood'"),
        (("ratings.csv", "--seed", -1), "-1"),
        (("untimed.csv", "--by", "time"), ("untimed.csv", "--by time needs the time of every rating", "--columns")),
        (("odd.csv", "--by", "time"), ("odd.csv", "--by time needs the time of every rating")),
    ],
)
def test_contradictions_are_refused_not_ignored(refused, data, arguments, says):
    _write(data / "untimed.csv", [row[:3] for row in ROWS], "user,item,rating")
    _write(data / "odd.csv", [*ROWS, ("u01", "i999", 1, "soon")])
    refused("split", *arguments, "--out", "s", says=says)
