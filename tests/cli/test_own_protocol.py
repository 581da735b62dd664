"""The researcher's and the engineer's own protocol: how ratings are divided, and what is measured at which k."""

import json
import re

import numpy as np
import polars as pl
import pytest

from pricdr.cli import run
from pricdr.data.splits import load_split
from tests.pages.parsed import require_self_contained

USERS, ITEMS = 40, 260


def _rows(seed=0):
    """Whole numbers for time: 10 to 20 ratings of each user, all at another time."""
    rng = np.random.default_rng(seed)
    return [
        (f"u{user:02d}", f"i{item:03d}", 1, int(time))
        for user in range(USERS)
        for item, time in zip(*[rng.permutation(ITEMS)[: 10 + user % 10] for _ in range(2)], strict=True)
    ]


def _write(path, rows, header="user,item,rating,timestamp"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture
def data(here):
    _write(here / "ratings.csv", _rows())
    return here


@pytest.mark.parametrize(("options", "expected"), [((), 1), (("--test-items", 3), 3), (("--ratio", 0.5), None)])
def test_by_time_the_latest_ratings_of_each_user_are_tested_by(pricdr, data, options, expected):
    outcome = pricdr("split", "ratings.csv", "--by", "time", "--cold", 0.2, *options, "--out", "split")
    assert outcome.code == 0, outcome.err
    split = load_split(data / "split")
    assert split.cold.sum() == 8
    named = pl.read_parquet(data / "split" / "test.parquet")
    for user in sorted({row[0] for row in _rows()}):
        own = sorted(((time, item) for u, item, _, time in _rows() if u == user), reverse=True)
        held_out = expected or len(own) // 2 + len(own) % 2
        tested = set(named.filter(pl.col("user") == user)["item"])
        assert tested == {item for _, item in own[:held_out]}


def test_by_time_needs_times_that_can_be_read(refused, data):
    _write(data / "untimed.csv", [row[:3] for row in _rows()], "user,item,rating")
    refused("split", "untimed.csv", "--by", "time", "--out", "s", says=("untimed.csv", "time column", "--columns"))
    _write(data / "odd.csv", [*_rows(), ("u01", "i999", 1, "soon")])
    refused("split", "odd.csv", "--by", "time", "--out", "s", says=("odd.csv", "1 have none"))


def test_own_files_become_a_split_and_what_they_repeat_is_dropped_and_counted(pricdr, data):
    rows = _rows()
    _write(data / "train.csv", rows[::2])
    _write(data / "test.csv", [*rows[1::2], *rows[:6:2], ("newcomer", "i001", 1, 1), ("newcomer", "i002", 1, 2)])
    outcome = pricdr("split", "--train", "train.csv", "--test", "test.csv", "--out", "split")
    assert outcome.code == 0, outcome.err
    assert outcome.err == "warning: test.csv: 3 ratings are in another file too: they are not tested by\n"
    split = load_split(data / "split")
    assert len(split.test) == len(rows[1::2]) + 2
    assert split.cold.sum() == 1
    assert len(split.train) == len(rows[::2]) - USERS
    assert len(split.validation) == USERS
    assert f"{USERS:,} warm" in outcome.out
    _write(data / "validation.csv", [*rows[3:9], ("u00", "i259", 1, 1)])
    files = ("--train", "train.csv", "--test", "test.csv", "--validation", "validation.csv")
    outcome = pricdr("split", *files, "--threshold", 1, "--out", "validated")
    assert "validation.csv: 6 ratings are in another file too" in outcome.err
    assert len(load_split(data / "validated").validation) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--out", "s"), "give the ratings to split, or --train and --test"),
        (("--train", "ratings.csv", "--out", "s"), "or --train and --test"),
        (("--validation", "ratings.csv", "--out", "s"), "or --train and --test"),
        (("ratings.csv", "--train", "ratings.csv", "--out", "s"), "not both"),
        (("ratings.csv", "--official", "o.csv", "--seed", 3, "--out", "s"), "--official and --seed exclude each other"),
        (("ratings.csv", "--official", "o.csv", "--seed", 0, "--out", "s"), "--official and --seed exclude each other"),
        (("ratings.csv", "--official", "o.csv", "--by", "time", "--out", "s"), "--official and --by exclude"),
        (("--train", "a", "--test", "b", "--official", "o.csv", "--out", "s"), "--official and --train and --test"),
        (("--train", "ratings.csv", "--test", "ratings.csv", "--ratio", 0.2, "--out", "s"), "divide already"),
        (("--train", "ratings.csv", "--test", "ratings.csv", "--out", "s"), "nothing is left to test by"),
        (("ratings.csv", "--ratio", 0.2, "--test-items", 2, "--out", "s"), "exclude each other"),
        (("ratings.csv", "--ratio", 1, "--out", "s"), "ratio must lie strictly between 0 and 1, got 1.0"),
        (("ratings.csv", "--test-items", 0, "--out", "s"), "at least 1, got 0"),
        (("ratings.csv", "--by", "mood", "--out", "s"), "'mood'"),
    ],
)
def test_contradictions_are_refused_not_ignored(refused, data, arguments, says):
    refused("split", *arguments, says=says)


HOSTILE = "<script>alert(1)<"  # a folder's name, so without a slash


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Two models on a split with several test items per user."""
    folder = tmp_path_factory.mktemp("measured")
    _write(folder / "ratings.csv", _rows())
    fixed = ["split", str(folder / "ratings.csv"), "--cold", "0.2", "--test-items", "3", "--out", str(folder / "split")]
    assert run(fixed) == 0
    for method, name in (("popularity", "popular"), ("itemknn", HOSTILE)):
        assert run(["train", str(folder / "split"), "--method", method, "--out", str(folder / name)]) == 0
    return folder


def test_json_on_standard_output_holds_what_the_screen_shows(measured, pricdr):
    paths = (measured / "popular", measured / HOSTILE, measured / "split")
    outcome = pricdr("evaluate", *paths, "-k", "20,5", "--json", "-")
    assert outcome.code == 0, outcome.err
    content = json.loads(outcome.out)
    assert (content["schema_version"], content["cutoffs"], content["users"], content["test_items"]) == (
        2,
        [5, 20],
        40,
        120,
    )
    shown = outcome.err
    assert content["protocol"] == "3 ratings of each user, at random"
    assert "tested by 3 ratings of each user, at random\n" in shown
    for ranking in content["rankings"]:
        for model, figures in content["models"].items():
            assert f"  {model}\n" in shown
            for stratum, cells in figures[ranking].items():
                for metric, error in cells["standard_error"].items():
                    assert cells["users"] == 0 or f"{cells[metric]:.4f} ± {error:.4f}" in shown, (stratum, metric)
    assert len(content["differences"]) == 6  # all, warm, cold in two rankings: nobody has so few ratings
    for one in content["differences"]:
        assert one["metric"] == "NDCG@20"
        interval = f"[{one['low']:+.4f}, {one['high']:+.4f}], p = {one['p_value']:.4f}"
        assert f"{one['stratum']}: NDCG@20 {one['mean']:+.4f} {interval}" in shown


def test_the_page_stands_alone_and_names_are_no_markup(measured, pricdr, here):
    paths = (measured / "popular", measured / HOSTILE, measured / "split")
    outcome = pricdr("evaluate", *paths, "-k", "5,10,20", "--report", "e.html")
    assert outcome.code == 0, outcome.err
    text = (here / "e.html").read_text(encoding="utf-8")
    page = require_self_contained(text)
    assert HOSTILE in page.text
    # One plot of the differences per ranking, and every figure of the screen in a table.
    assert page.tags.count("figure") == 2
    for mean, error in re.findall(r"(\d\.\d{4}) (± \d\.\d{4})", outcome.out):
        assert mean in page.text
        assert error in page.text
    for low, high in re.findall(r"\[([+-]\d\.\d{4}), ([+-]\d\.\d{4})\]", outcome.out):
        assert f"[{low}, {high}]" in page.text


def test_a_page_of_one_model_has_tables_and_no_plot(measured, pricdr, here):
    assert pricdr("evaluate", measured / "popular", measured / "split", "--html", "e.html").code == 0
    tags = require_self_contained((here / "e.html").read_text(encoding="utf-8")).tags
    assert "figure" not in tags
    assert tags.count("table") == 2  # one per ranking


@pytest.mark.parametrize("option", ["--json", "--report", "--html", "--per-user"])
def test_no_output_is_overwritten_and_that_is_known_before_any_work(option, refused, here):
    (here / "there").write_text("precious")
    refused("evaluate", "no model", "no split", option, "there", says=("there", "exists already"))


@pytest.mark.parametrize("option", ["--report", "--html", "--per-user"])
def test_only_json_goes_to_standard_output(option, refused, here):
    refused("evaluate", "no model", "no split", option, "-", says="only --json writes to standard output")
    assert not (here / "-").exists()


def test_the_same_model_twice_is_refused(measured, refused, here):
    refused("evaluate", measured / "popular", measured / "popular", measured / "split", says="is named twice")
    (here / "link").symlink_to(measured / "popular")
    refused("evaluate", measured / "popular", "link", measured / "split", says=("link is the same model folder as",))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("0", "at least 1, got 0"),
        ("5,5", "counts once"),
        ("5,x", "'5,x'"),
        ("", "5,10,20"),
        ("-1", "-1"),
        ("9" * 12, "99"),
    ],
)
def test_a_k_outside_its_rule_is_refused(measured, refused, given, says):
    refused("evaluate", measured / "popular", measured / "split", "-k", given, says=says)
