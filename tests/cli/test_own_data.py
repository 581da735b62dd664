"""Files as they are, on every command: options to read them, what is said of them, and what stays with the source."""

import json
from typing import get_args

import numpy as np
import polars as pl
import pytest

from pricdr.cli.ratings import FormatName
from pricdr.data.reading.formats import Format
from tests.data.test_many_files import piped
from tests.settings import config

RNG = np.random.default_rng(1)
PAIRS = sorted({(int(u), int(i)) for u, i in zip(RNG.integers(0, 30, 700), RNG.integers(0, 300, 700), strict=True)})
COLUMNS = ("--columns", "user=käufer,item=ding,rating=sterne")
ODD = {"delimiter": ";", "encoding": "latin-1", "skip_bad_rows": True}
OPTIONS = (*config(**ODD), *COLUMNS)


@pytest.fixture
def odd(here):
    """Semicolons, Latin-1, columns of other names, and one bad row."""
    rows = [f"{user};{item};{(user + item) % 5 + 1}" for user, item in PAIRS]
    content = "\n".join(["käufer;ding;sterne", *rows, "7;\x1b[31mx", ""])
    (here / "odd.csv").write_bytes(content.encode("latin-1"))
    return here / "odd.csv"


def test_every_command_that_reads_ratings_takes_the_same_options(here, pricdr, publish, odd):
    said = [
        publish(odd, *OPTIONS),
        pricdr("split", odd, "--out", "split", *OPTIONS),
        pricdr("train", odd, "--method", "ease", "--out", "model", *OPTIONS),
        pricdr("prepare", odd, odd, "--core", 2, "--out", "pair", *OPTIONS),
        pricdr("recommend", "model", "--seen", odd, "--out", "r.csv", *OPTIONS),
    ]
    assert [outcome.code for outcome in said] == [0] * 5
    for outcome in said[:4]:
        assert "skipped: 1 bad rows; the first:" in outcome.out
        assert f"row {len(PAIRS) + 1} (line {len(PAIRS) + 2}) is too short: 2 fields, the header has 3" in outcome.out
        assert "\x1b" not in outcome.out
    assert ["look like stars" in outcome.err for outcome in said[:3]] == [True] * 3
    assert "look like stars" not in pricdr("split", odd, "--threshold", 3, "--out", "above", *OPTIONS).err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (config(most_bad_rows=0.5), "most-bad-rows needs skip-bad-rows"),
        (config(delimiter='"'), "delimiter must be"),
        (config(encoding="zip"), "encoding must be"),
        (config(refine=True), "unknown key 'refine'"),
        (config(skip_bad_rows="yes"), "skip-bad-rows must be a valid boolean, got 'yes'"),
        (("--delimiter", ";"), "No such option: --delimiter; delimiter is set in --config FILE"),
        ((), "line 1 is not text: byte 0xe4 is not UTF-8"),
        (config(encoding="latin-1"), "this file seems to use semicolons"),
        (
            (*COLUMNS, *config(**ODD, most_bad_rows=1e-6)),
            ("more than 0.0001% (most-bad-rows)", f"line {len(PAIRS) + 2}"),
        ),
        ((*OPTIONS, "--threshold", 6), "no rating is at least 6"),
    ],
)
def test_what_does_not_fit_together_is_refused(odd, refused, options, says):
    refused("split", odd, "--out", "s", *options, says=says)


def test_nothing_that_leaves_the_source_tells_of_skipped_rows_or_stars(here, publish):
    """The same release but for its noise, with and without bad rows; what was skipped is on the screen alone."""
    (here / "users.txt").write_text("a\nb\n")
    settings, written = config(skip_bad_rows=True, most_bad_rows=0.9), []
    for name, more in (("with", "b\n,y,3\n"), ("without", "")):
        (here / f"{name}.csv").write_text("user,item,rating\na,x,1\nb,y,5\n" + more)
        outcome = publish(f"{name}.csv", "--users", "users.txt", *settings, out=name)
        assert ("skipped: 2 bad rows" in outcome.out) == bool(more)
        assert "look like stars" in outcome.err
        certificate = json.loads((here / name / "certificate.json").read_text())
        del certificate["files"], certificate["digest"]  # drawn
        readme = (here / name / "README.md").read_text()
        assert not {"skipped", "bad rows", "stars"} & set(readme.split())
        written.append((certificate, sorted(file.name for file in (here / name).iterdir())))
    assert written[0] == written[1]


def test_repeated_pairs_take_the_latest_and_that_is_said(here, publish):
    rows = "".join(f"{user},{item},5,{user}\n{user},{item},1,{user + 1}\n" for user, item in PAIRS)
    (here / "r.csv").write_text("user,item,rating,timestamp\n" + rows)
    said = f"{len(PAIRS)} rows repeat a (user, item) pair; the latest counts, by the time column"
    assert said in publish("r.csv").out


def test_a_release_of_many_files_or_of_a_stream_has_the_bytes_of_a_release_of_one(here, publish):
    frame = pl.DataFrame(PAIRS, schema=["user", "item"], orient="row").with_columns(rating=pl.lit(4.0))
    frame.write_parquet(here / "one.parquet")
    for number in range(3):
        place = here / "ratings" / f"country={number}"
        place.mkdir(parents=True)
        frame[number::3].write_parquet(place / "part-0.parquet")
        (place / "_SUCCESS").touch()
    seeded = ("--insecure-seed", "7")
    for name, file in {"one": "one.parquet", "folder": "ratings", "pattern": "ratings/*/*.parquet"}.items():
        outcome = publish(file, *seeded, out=name)
        assert outcome.code == 0, outcome.err
        assert (": 3 files, " in outcome.out) == (name != "one")
    stream = (here / "one.parquet").read_bytes()
    outcome = piped(stream, lambda: publish("-", *seeded, *config(format="parquet"), out="piped"))
    assert "standard input: " in outcome.out
    names = ("one", "folder", "pattern", "piped")
    assert len({(here / name / "release.safetensors").read_bytes() for name in names}) == 1


def test_the_command_line_offers_the_formats_that_are_read():
    """Two lists, since ``--help`` must not load what reads files."""
    assert list(get_args(FormatName)) == [one.value for one in Format]
