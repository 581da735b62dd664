"""Bad input gets a clear error, nothing lost: one line, exit code 2, no output, no staging, the ledger as it was."""

import gzip
import json
import math
from io import BytesIO
from types import SimpleNamespace

import polars as pl
import pytest

from tests.settings import config

GOOD = b"user,item,rating\nalice,dune,5\nbob,it,4\n"
JUNK = bytes(range(256)) * 4


def parquet(columns) -> bytes:
    buffer = BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def json_lines(*objects) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in objects).encode()


FILES = {
    "empty csv": ("r.csv", b"", ("r.csv", "empty")),
    "blank csv": ("r.csv", b"\n\n  \n", ("r.csv", "empty")),
    "empty tsv": ("r.tsv", b"", ("r.tsv", "empty")),
    "empty json lines": ("r.jsonl", b"", ("r.jsonl", "empty")),
    "empty inter": ("r.inter", b"", ("r.inter", "empty")),
    "empty dat": ("r.dat", b"", ("r.dat", "empty")),
    "empty parquet": ("r.parquet", b"", ("r.parquet", "empty")),
    "gzip of nothing": ("r.csv.gz", gzip.compress(b""), ("r.csv.gz", "empty")),
    "header only": ("r.csv", b"user,item,rating\n", ("r.csv", "header", "no rows")),
    "header only, no newline": ("r.csv", b"user,item", ("r.csv", "header", "no rows")),
    "columns only": ("r.parquet", parquet({"user": [], "item": []}), ("r.parquet", "user column")),
    "typed columns only": (
        "r.parquet",
        parquet(pl.DataFrame(schema={"user": pl.String, "item": pl.String})),
        ("r.parquet", "no rows"),
    ),
    "no user column": ("r.csv", b"who,item\nalice,dune\n", ("r.csv", "no user column", "'who'")),
    "no item column": ("r.csv", b"user,what\nalice,dune\n", ("r.csv", "no item column", "'what'")),
    "no user column in parquet": ("r.parquet", parquet({"who": ["a"], "item": ["x"]}), ("no user column", "'who'")),
    "no item in json lines": ("r.jsonl", json_lines({"user": "a", "what": "x"}), ("row 1", "has no item")),
    "rating nan": ("r.csv", b"user,item,rating\nalice,dune,nan\n", ("r.csv", "row 1", "'nan'", "finite number")),
    "rating inf": ("r.csv", b"user,item,rating\nbob,it,4\nalice,dune,inf\n", ("row 2", "'inf'", "finite number")),
    "rating word": ("r.csv", b"user,item,rating\nalice,dune,good\n", ("row 1", "'good'", "finite number")),
    "rating empty": ("r.csv", b"user,item,rating\nalice,dune,\n", ("row 1", "rating is empty")),
    "rating 1e999": ("r.csv", b"user,item,rating\nalice,dune,1e999\n", ("row 1", "1e999", "finite number")),
    "rating nan in parquet": (
        "r.parquet",
        parquet({"user": ["alice"], "item": ["x"], "rating": [math.nan]}),
        ("row 1", "finite number"),
    ),
    "rating null in json lines": (
        "r.jsonl",
        json_lines({"user": "alice", "item": "x", "rating": None}),
        ("row 1", "finite number"),
    ),
    "row too short": ("r.csv", b"user,item,rating\nalice,dune,5\nbob,it\n", ("r.csv", "row 2", "too short")),
    "row too long": ("r.csv", b"user,item,rating\nalice,dune,5\nbob,it,4,9\n", ("r.csv", "row 2", "too long")),
    "dat row too short": ("r.dat", b"1::2::3::4\n4::5::6\n", ("r.dat", "row 2", "too short")),
    "json line without an item": (
        "r.jsonl",
        json_lines({"user": "alice", "item": "x", "rating": 1}, {"user": "bob"}),
        ("row 2", "no item"),
    ),
    "empty user id": ("r.csv", b"user,item\nalice,dune\n,it\n", ("r.csv", "row 2", "user id is empty")),
    "empty item id": ("r.csv", b"user,item\nalice,\n", ("r.csv", "row 1", "item id is empty")),
    "null id in parquet": ("r.parquet", parquet({"user": ["a", None], "item": ["x", "y"]}), ("row 2", "user id")),
    "junk csv": ("r.csv", JUNK, ("r.csv", "not text")),
    "junk json lines": ("r.jsonl", JUNK, ("r.jsonl", "not text")),
    "junk parquet": ("r.parquet", JUNK, ("r.parquet", "Parquet")),
    "junk gzip": ("r.csv.gz", JUNK, ("r.csv.gz", "gzip")),
    "half a parquet": ("r.parquet", parquet({"user": ["a"], "item": ["x"]})[:-30], ("r.parquet", "Parquet")),
    "gzip named csv": ("r.csv", gzip.compress(GOOD), ("r.csv", "gzip")),
    "truncated gzip": ("r.csv.gz", gzip.compress(GOOD)[:-9], ("r.csv.gz", "gzip", "truncated")),
    "gzip cut in its header": ("r.csv.gz", gzip.compress(GOOD)[:5], ("r.csv.gz", "gzip", "truncated")),
    "semicolons in csv": ("r.csv", GOOD.replace(b",", b";"), ("r.csv", "delimiter", "semicolons")),
    "tabs in csv": ("r.csv", GOOD.replace(b",", b"\t"), ("r.csv", "delimiter", "tabs")),
    "commas in tsv": ("r.tsv", GOOD, ("r.tsv", "delimiter", "commas")),
    "commas in inter": ("r.inter", GOOD, ("r.inter", "delimiter", "commas")),
    "commas in dat": ("r.dat", b"1,2,3\n", ("r.dat", "delimiter", "commas")),
    "no rating in json lines": ("r.jsonl", json_lines({"user": 1, "item": 1}), ("row 1", "has no rating", "--columns")),
    "ids that are fractions": ("r.parquet", parquet({"user": [1.5], "item": ["x"]}), ("user column", "whole numbers")),
    "unknown kind": ("r.xlsx", GOOD, ("r.xlsx", "unknown kind of file", ".csv")),
    "no suffix": ("ratings", GOOD, ("ratings", "unknown kind of file")),
}


@pytest.mark.parametrize(("name", "content", "says"), FILES.values(), ids=FILES.keys())
def test_a_file_that_cannot_be_used_is_refused(here, refused_publish, name, content, says):
    (here / name).write_bytes(content)
    refused_publish(name, says=says)


@pytest.mark.parametrize(("name", "content", "says"), FILES.values(), ids=FILES.keys())
def test_prepare_refuses_the_same_files(here, refused, name, content, says):
    (here / name).write_bytes(content)
    (here / "target.csv").write_bytes(GOOD)
    refused("prepare", name, "target.csv", "--out", "pair", says=says)
    refused("prepare", "target.csv", name, "--out", "pair", says=says)


def test_a_rating_column_that_is_asked_for_and_missing_is_refused(here, refused_publish):
    (here / "r.csv").write_bytes(b"user,item\nalice,dune\n")
    refused_publish("r.csv", "--threshold", 3, says=("r.csv", "rating column", "there is none"))
    refused_publish("r.csv", "--values", "--rating-bound", 5, "--rating-step", 1, says="there was no rating column")
    refused_publish("r.csv", "--columns", "user=user,item=item,rating=stars", says=("r.csv", "no column 'stars'"))
    refused_publish("r.csv", "--columns", "user=1,item=2,rating=3", says=("r.csv", "2 fields", "column 3"))


def test_a_named_column_that_is_not_there_is_refused(ratings, refused_publish):
    refused_publish(ratings, "--columns", "user=nobody,item=item", says=("ratings.csv", "no column 'nobody'"))
    refused_publish(ratings, "--columns", "user", says=("columns must read", "'user'"))


def test_a_threshold_nobody_reaches_is_refused_to_the_target(ratings, refused):
    refused("train", ratings, "--threshold", 9, "--out", "m", says=("ratings.csv", "at least 9"))
    refused("split", ratings, "--threshold", 9, "--out", "s", says=("ratings.csv", "at least 9"))


def test_a_threshold_that_is_none_is_refused(ratings, refused_publish):
    refused_publish(ratings, "--threshold", "nan", says=("threshold", "finite", "nan"))


def test_a_file_that_is_not_there_is_refused(here, refused_publish):
    refused_publish("nowhere.csv", says=("nowhere.csv", "no such file"))
    refused_publish("nowhere.parquet", says=("nowhere.parquet", "no such file"))
    (here / "folder.csv").mkdir()
    refused_publish("folder.csv", says=("folder.csv", "folder"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"alice\n\nbob\n", "line 2 is blank"),
        (b"alice\nbob\nalice\n", "line 3 repeats the id 'alice' of line 1"),
        (JUNK, "not text"),
    ],
)
def test_a_user_list_that_cannot_be_used_is_refused(here, ratings, refused_publish, content, says):
    (here / "list.txt").write_bytes(content)
    refused_publish(ratings, "--users", "list.txt", says=("list.txt", says))


def test_an_item_list_that_cannot_be_used_is_refused(here, ratings, refused_publish):
    (here / "items.txt").write_bytes(b"dune\ndune\n")
    refused_publish(ratings, "--items", "items.txt", says=("items.txt", "line 2", "'dune'"))
    refused_publish(ratings, "--items", "nowhere.txt", says=("nowhere.txt", "no such file"))


VALUES = {
    "--epsilon": (("0", "-1", "nan", "inf", "-inf"), ("epsilon", "above 0")),
    "--delta": (("0", "1", "-0.1", "2", "nan", "inf"), ("delta", "between 0 and 1")),
    "--dim": (("0", "-3", "1.5", "many", ""), "dim"),
    "--insecure-seed": (("7",), ("not private", "ledger")),
}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [(option, value, says) for option, (values, says) in VALUES.items() for value in values],
)
def test_a_value_outside_its_rule_is_refused(ratings, refused_publish, option, value, says):
    error = refused_publish(ratings, option, value, says=says)
    if option in ("--epsilon", "--delta"):
        assert f"{float(value)!r}" in error


@pytest.mark.parametrize("density", [0, -0.5, 1.01])
def test_a_density_outside_its_range_is_refused(ratings, refused_publish, density):
    refused_publish(ratings, "--strategy", "sjlt", *config(density=density), says=("density", "(0, 1]", str(density)))


@pytest.mark.parametrize("clip", ["0", "-1", "nan", "inf"])
def test_a_clip_that_is_no_length_is_refused(here, ratings, pricdr, refused, clip):
    file = here / "users.jsonl"
    pricdr("ledger", "init", file, "--epsilon", 8, "--delta", 1e-6, "--unit", "user")
    fixed = ("--epsilon", 4, "--delta", 1e-6, "--out", "release", "--unit", "user", "--ledger", file)
    refused("publish", ratings, *fixed, "--clip", clip, says=("clip", "above 0", clip))
    refused("publish", ratings, *fixed, says=("unit user", "clip"))


def test_a_clip_with_the_rating_unit_is_refused(ratings, refused_publish):
    refused_publish(ratings, "--clip", 2, says=("clip", "unit rating"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--values",), ("--values", "--rating-bound", "--rating-step")),
        (("--values", "--rating-bound", 5), ("--rating-step",)),
        (("--rating-bound", 5), "go together"),
        (("--values", "--rating-bound", 5, "--rating-step", 2), ("multiple", "5", "2")),
        (("--values", "--rating-bound", -5, "--rating-step", 1), ("rating_bound", "above 0", "-5")),
        (("--values", "--rating-bound", 5, "--rating-step", 0), ("rating_step", "above 0", "0")),
        (("--values", "--rating-bound", 5, "--rating-step", 1, "--threshold", 3), ("--threshold", "--values")),
        (config(calibration="paper"), ("paper", "not for spectral")),
        (
            (*config(calibration="paper"), "--strategy", "jlt", "--values", "--rating-bound", 5, "--rating-step", 1),
            ("paper", "unit rating"),
        ),
        (config(insecure_no_noise=True), ("not private", "ledger")),
    ],
)
def test_options_that_do_not_fit_together_are_refused(ratings, refused_publish, options, says):
    refused_publish(ratings, *options, says=says)


def test_an_output_that_exists_is_refused_and_left_alone(here, ratings, refused_publish):
    (here / "taken").mkdir()
    (here / "taken" / "precious").write_text("mine")
    (here / "file").write_text("mine too")
    (here / "dangling").symlink_to("nowhere")
    for name in ("taken", "file", "dangling", ".", ".."):
        refused_publish(ratings, "--out", name, says=(name, "exists already"))


@pytest.mark.parametrize("command", ["prepare", "demo"])
def test_other_commands_refuse_an_output_that_exists_too(here, ratings, refused, command):
    (here / "taken").mkdir()
    inputs = (ratings, ratings) if command == "prepare" else ()
    refused(command, *inputs, "--out", "taken", says=("taken", "exists already"))


def test_a_ledger_of_another_unit_is_refused(here, ratings, pricdr, refused_publish):
    file = here / "users.jsonl"
    pricdr("ledger", "init", file, "--epsilon", 8, "--delta", 1e-6, "--unit", "user")
    refused_publish(ratings, "--ledger", file, says=("users.jsonl", "unit user", "unit rating"))


def test_a_ledger_that_is_none_is_refused(here, ratings, refused_publish):
    refused_publish(ratings, "--ledger", "nowhere.jsonl", says=("nowhere.jsonl", "No such file"))
    refused_publish(ratings, "--ledger", here, says=(str(here), "no regular file"))
    refused_publish(ratings, "--ledger", ratings, says=("ratings.csv", "not a valid ledger", "line 1"))


def test_a_signing_key_that_is_none_is_refused(ratings, refused_publish):
    refused_publish(ratings, "--sign", "nowhere", says=("nowhere", "No such file"))
    refused_publish(ratings, "--sign", ratings, says=("ratings.csv", "private key"))


def test_folders_made_on_the_way_to_a_refused_output_are_removed_again(refused_publish):
    refused_publish("nowhere.csv", "--out", "a/b/release", says="nowhere.csv")
    refused_publish("nowhere.csv", "--out", "a/../b/release", says="nowhere.csv")


def test_a_release_larger_than_the_disk_is_refused_before_the_budget_is_spent(ratings, refused_publish, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**6))
    refused_publish(ratings, "--strategy", "jlt", "--dim", 10**6, says=("needs 12.1 MB", "1.0 MB are free"))
    for absurd in (10**13, 10**400):
        refused_publish(ratings, "--strategy", "jlt", "--dim", absurd, says=("at most 1,048,576 numbers per user",))


def test_the_file_is_named_as_it_is_spelled(refused_publish):
    refused_publish("two  blanks [1].csv", says="two  blanks [1].csv: no such file")
    assert "\\u001b[31m" in refused_publish("red\x1b[31m.csv")
    refused_publish("line\nbreak.csv", says="break.csv")


def test_a_refusal_in_its_own_process_is_one_line_too(here, ratings, process, tree):
    before = tree()
    outcome = process("publish", ratings, "--epsilon", 0, "--delta", 1e-6, "--out", "release")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "error: epsilon must be a finite number above 0, got 0.0\n"
    assert tree() == before
