"""Specs and settings from outside: one line each, nothing written elsewhere, nothing that hangs."""

import sys
from pathlib import Path

import pytest

from pricdr import Ratings
from pricdr.data.tables import write_ratings
from pricdr.errors import InputError
from pricdr.experiments.__main__ import main

SPEC = """
name = "NAME"
title = "A table"
seeds = [1]

[data]
folder = "FOLDER"
source = "ratings.parquet"
target = "ratings.parquet"
core = 1

[[arm]]
name = "popularity"
method = "popularity"
"""
BAD = {
    "deep": ("x = [" + "[\n" * 100_000, "nested"),
    "long key": ("a" + ".a" * 100_000 + " = 1", "line 1 has"),
    "huge number": (f"epochs = 1{'0' * 400}", "epochs must be a number that fits in 64 bits"),
    "huge seed": (f"seed = {2**70}", "seed must be a number that fits in 64 bits"),
    "negative seed": ("seed = -1", "seed must be a whole number from 0"),
    "absurd count": ("epochs = 1000000000000", "epochs must be at most 1,000,000"),
    "not a number": ("learning_rate = nan", "learning_rate must be a finite number, got nan"),
    "wrong type": ("epochs = 'many'", "epochs must be int"),
    "a date": ("epochs = 2020-01-01", "epochs must be int"),
    "a table": ("[epochs]\nx = 1", "epochs must be int"),
    "unknown device": ("device = 'toaster'", "device must be"),
    "not text": ("\udcff", "not TOML"),
}


@pytest.fixture
def data(here) -> Path:
    """A folder of one small data set."""
    (here / "data" / "toy").mkdir(parents=True)
    pairs = [(f"u{user}", f"i{(user * 7 + item) % 300}") for user in range(40) for item in range(5)]
    pairs += [(f"u{item % 40}", f"i{item}") for item in range(300)]
    users, items = zip(*pairs, strict=True)
    write_ratings(here / "data" / "toy" / "ratings.parquet", Ratings.from_triples(users, items))
    return here / "data"


def spec(here, name: str = "table", folder: str = "toy") -> Path:
    file = here / "specs" / "table.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(SPEC.replace("NAME", name).replace("FOLDER", folder))
    return file


@pytest.mark.parametrize(("content", "says"), BAD.values(), ids=BAD.keys())
def test_settings_that_cannot_be_used_are_one_line(here, ratings, refused, content, says):
    (here / "settings.toml").write_text(content, errors="surrogateescape")
    refused(
        "train", ratings, "--out", "m", "--method", "dmf", "--config", "settings.toml", says=("settings.toml", says)
    )


def test_settings_are_bounded_before_they_are_parsed(here, ratings, refused):
    with (here / "settings.toml").open("wb") as file:
        file.truncate(10 << 20)
    fixed = ("train", ratings, "--out", "m", "--method", "dmf", "--config")
    refused(*fixed, "settings.toml", says=("settings.toml", "more than 262,144 bytes"))
    refused(*fixed, "nowhere.toml", says=("nowhere.toml", "no such file"))


def test_an_absurd_number_of_epochs_is_refused(ratings, refused):
    refused("train", ratings, "--out", "m", "--method", "dmf", "--epochs", 10**12, says=("--epochs", "1000000000000"))


def test_an_ordinary_spec_is_reproduced(here, data, pricdr):
    outcome = pricdr("reproduce", spec(here), "--data", data, "--out", "results", "--prepared", "kept")
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in (here / "results").iterdir()) == ["table.jsonl", "table.md", "table.spec.json"]
    assert [path.name.partition("-")[0] for path in (here / "kept").iterdir()] == ["toy"]


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/b", "..", ".hidden", r"a\nb"])
def test_reproduce_writes_nothing_outside(here, data, refused, name):
    fixed = ("--data", data, "--out", "results", "--prepared", "kept")
    refused("reproduce", spec(here, name=name), *fixed, says=("table.toml", "name becomes a file name"))
    refused("reproduce", spec(here, folder=name), *fixed, says=("table.toml", "folder becomes a file name"))


@pytest.mark.parametrize(
    ("wrong", "extra"),
    [
        ({"name": "../outside"}, ()),
        ({"folder": "../outside"}, ()),
        ({"folder": "../outside"}, ("--seeds", "1")),
    ],
)
def test_the_module_for_bare_machines_writes_nothing_outside(here, data, tree, monkeypatch, wrong, extra):
    arguments = [spec(here, **wrong), "--prepared", "data", "--out", "results", *extra]
    monkeypatch.setattr(sys, "argv", ["pricdr.experiments", *map(str, arguments)])
    before = tree()
    with pytest.raises(InputError, match="becomes a file name"):
        main()
    assert tree() == before
