"""Commands read folders, patterns, partitions, standard input and databases as they read one file."""

import subprocess
import sys
from typing import get_args

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


def test_the_command_line_offers_the_formats_that_are_read():
    """Two lists, since ``--help`` must not load what reads files."""
    assert list(get_args(FormatName)) == [one.value for one in Format]
