"""The reading options on every command, what is said about the data, and what of that must not leave the source."""

import json

import numpy as np
import polars as pl
import pytest

from tests.settings import config

RNG = np.random.default_rng(1)
PAIRS = sorted({(int(u), int(i)) for u, i in zip(RNG.integers(0, 30, 700), RNG.integers(0, 300, 700), strict=True)})
OPTIONS = (
    "--delimiter",
    ";",
    "--encoding",
    "latin-1",
    "--skip-bad-rows",
    "--columns",
    "user=käufer,item=ding,rating=sterne",
)


@pytest.fixture
def odd(here):
    """Semicolons, Latin-1, columns of other names, and one bad row."""
    rows = [f"{user};{item};{(user + item) % 5 + 1}" for user, item in PAIRS]
    content = "\n".join(["käufer;ding;sterne", *rows, "7;\x1b[31mx", ""])
    (here / "odd.csv").write_bytes(content.encode("latin-1"))
    return here / "odd.csv"


def test_every_command_that_reads_ratings_takes_the_same_options(here, pricdr, publish, odd):
    said = [
        publish(odd, *OPTIONS[-2:], *config(delimiter=";", encoding="latin-1", skip_bad_rows=True)),
        pricdr("split", odd, "--out", "split", *OPTIONS),
        pricdr("train", odd, "--method", "ease", "--out", "model", *OPTIONS),
        pricdr("prepare", odd, odd, "--core", 2, "--out", "pair", *OPTIONS),
        pricdr("recommend", "model", "--seen", odd, "--out", "r.csv", *OPTIONS),
    ]
    for outcome in said:
        assert outcome.code == 0, outcome.err
    for outcome in said[:4]:
        assert "skipped: 1 bad rows; the first:" in outcome.out
        assert f"row {len(PAIRS) + 1} (line {len(PAIRS) + 2}) is too short: 2 fields, the header has 3" in outcome.out
        assert "\x1b" not in outcome.out
    assert pl.read_csv("r.csv").columns == ["user", "item", "score", "rank", "basis"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--most-bad-rows", 0.5), "--most-bad-rows needs --skip-bad-rows"),
        (("--delimiter", '"'), "delimiter must be"),
        (("--encoding", "zip"), "encoding must be"),
        ((), "line 1 is not text: byte 0xe4 is not UTF-8"),
        (("--encoding", "latin-1"), "this file seems to use semicolons"),
    ],
)
def test_what_does_not_fit_together_is_refused(odd, refused, options, says):
    refused("split", odd, "--out", "s", *options, says=says)


def test_too_many_bad_rows_are_refused_with_their_number(here, refused, publish):
    (here / "r.csv").write_text("user,item\n" + "a,b\n" * 9 + "a\x1b[2J,b\n")
    says = ("1 of 10 rows is bad, more than 1% (--most-bad-rows)", "row 10 (line 11): the user id 'a\\x1b[2J'")
    refused("split", "r.csv", "--out", "s", "--skip-bad-rows", says=says)
    assert publish("r.csv", *config(skip_bad_rows=True, most_bad_rows=0.1)).code == 0


def test_nothing_that_leaves_the_source_tells_of_skipped_rows_or_stars(here, publish):
    """The same release but for its noise, with and without bad rows; what was skipped is on the screen alone."""
    (here / "users.txt").write_text("a\nb\n")
    written = []
    for name, more in (("with", "b\n,y,3\n"), ("without", "")):
        (here / f"{name}.csv").write_text("user,item,rating\na,x,1\nb,y,5\n" + more)
        outcome = publish(
            f"{name}.csv", "--users", "users.txt", *config(skip_bad_rows=True, most_bad_rows=0.9), out=name
        )
        assert ("skipped: 2 bad rows" in outcome.out) == bool(more)
        assert "look like stars" in outcome.err
        certificate = json.loads((here / name / "certificate.json").read_text())
        for drawn in ("files", "digest"):
            certificate.pop(drawn)
        readme = (here / name / "README.md").read_text()
        assert not {"skipped", "bad rows", "stars"} & set(readme.split())
        written.append((certificate, sorted(file.name for file in (here / name).iterdir())))
    assert written[0] == written[1]


def test_stars_are_warned_of_where_they_become_likes(here, pricdr, odd):
    for command in (("split", odd, "--out", "split"), ("train", odd, "--method", "popularity", "--out", "model")):
        assert "look like stars" in pricdr(*command, *OPTIONS).err
    assert "look like stars" not in pricdr("split", odd, "--threshold", 3, "--out", "above", *OPTIONS).err
    (here / "plays.csv").write_text("user,item,rating\n" + "".join(f"{u},{i},{u * 7 + 1}\n" for u, i in PAIRS))
    assert "look like stars" not in pricdr("split", "plays.csv", "--out", "plays").err
    # What is left of stars when somebody kept the likes already.
    (here / "likes.csv").write_text("user,item,rating\n" + "".join(f"{u},{i},{3 + i % 3}\n" for u, i in PAIRS))
    assert "look like stars" not in pricdr("split", "likes.csv", "--out", "likes").err


def test_repeated_pairs_take_the_latest_and_that_is_said(here, pricdr, publish):
    rows = "".join(f"{user},{item},5,{user}\n{user},{item},1,{user + 1}\n" for user, item in PAIRS)
    (here / "r.csv").write_text("user,item,rating,timestamp\n" + rows)
    outcome = pricdr("split", "r.csv", "--threshold", 3, "--out", "split")
    assert "no rating is at least 3" in outcome.err
    said = f"{len(PAIRS)} rows repeat a (user, item) pair; the latest counts, by the time column"
    assert said in publish("r.csv").out


def test_integer_ids_work_from_file_to_file(here, pricdr):
    pl.DataFrame(PAIRS, schema={"user": pl.Int32, "item": pl.UInt64}, orient="row").write_parquet(here / "r.parquet")
    assert pricdr("train", "r.parquet", "--method", "ease", "--out", "model").code == 0
    (here / "users.txt").write_text("1\n2\n")
    outcome = pricdr("recommend", "model", "--users", "users.txt", "--out", "out.parquet")
    assert (outcome.code, outcome.err) == (0, "")
    assert set(pl.read_parquet("out.parquet")["basis"]) == {"history"}
