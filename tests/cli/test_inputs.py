"""Commands read folders, patterns, partitions, standard input and databases as they read one file."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from pricdr.cli.ratings import FormatName
from pricdr.data.reading.formats import Format
from tests.settings import config


@pytest.fixture
def many(here):
    """Ratings in one file, and the same rows in partitions."""
    rng = np.random.default_rng(3)
    pairs = sorted({(f"u{user}", f"i{item}") for user, item in rng.integers(0, (20, 400), (600, 2)).tolist()})
    frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row").with_columns(rating=pl.lit(4.0))
    frame.write_parquet(here / "one.parquet")
    for number in range(3):
        place = here / "ratings" / f"country={number}"
        place.mkdir(parents=True)
        frame[number::3].write_parquet(place / "part-0.parquet")
        (place / "_SUCCESS").touch()
    return here / "ratings"


def test_a_release_of_many_files_has_the_bytes_of_a_release_of_one(here, many, publish):
    for name, file in {"one": "one.parquet", "folder": "ratings", "pattern": "ratings/*/*.parquet"}.items():
        outcome = publish(file, "--insecure-seed", 7, out=name)
        assert outcome.code == 0, outcome.err
        assert (": 3 files, " in outcome.out) == (name != "one")
    releases = {name: (here / name / "release.safetensors").read_bytes() for name in ("one", "folder", "pattern")}
    assert len(set(releases.values())) == 1


def test_standard_input_in_a_process_of_its_own(here, many):
    command = [sys.executable, "-m", "pricdr", "publish", "-", "--epsilon", "4", "--delta", "1e-6", "--out", "piped"]
    with (here / "one.parquet").open("rb") as file:
        done = subprocess.run(
            [*command, *config(format="parquet")], stdin=file, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "standard input: " in done.stdout
    assert (here / "piped" / "certificate.json").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("prepare", "-", "-", "--out", "pair"), "standard input (-) can be read only once"),
        (("split", "--train", "-", "--test", "-", "--out", "split"), "standard input (-) can be read only once"),
        (("train", "-", "--source", "-", "--method", "etl", "--out", "m"), "standard input (-) can be read only once"),
        (("split", "ratings", "--train", "one.parquet", "--test", "one.parquet", "--out", "s"), "not both"),
        (("split", "ratings", "--from", "postgresql:///x", "--query", "x", "--out", "s"), "give TARGET or --from"),
        (("train", "nowhere", "--out", "m"), "nowhere: no such file"),
        (("train", "empty", "--out", "m"), "empty: the folder holds no file of ratings"),
        (("verify", "-"), "- is not a release folder: no such folder"),
        (("split", "ratings", "--format", "csv", "--out", "s"), "line 1 is not text: it is Parquet, and text"),
    ],
)
def test_what_makes_no_sense_is_refused(here, many, refused, command, says):
    (here / "empty").mkdir()
    refused(*command, says=says)


def test_a_file_that_is_missing_a_column_is_named_before_anything_is_spent(here, many, refused, ledger):
    pl.DataFrame({"user": ["a"], "item": ["x"]}).write_parquet(many / "country=2" / "part-1.parquet")
    common = ("--epsilon", 4, "--delta", 1e-6, "--out", "release", "--ledger", ledger)
    says = "ratings/country=2/part-1.parquet: it has no column 'rating', and ratings/country=0/part-0.parquet has one"
    refused("publish", "ratings", *common, says=says)


def test_the_command_line_offers_the_formats_that_are_read():
    """Two lists, since ``--help`` must not load what reads files."""
    assert [name.value for name in FormatName] == [one.value for one in Format]
