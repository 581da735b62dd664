"""``evaluate``: figures, sentences and pages of models on a split, and the same over several splits."""

import json
import re
import shutil

import polars as pl
import pytest

from tests.pages.parsed import require_self_contained
from tests.settings import config

HOSTILE = "<script>alert(1)<"  # a folder's name, so without a slash


@pytest.fixture
def folder(target, here):
    """The target's folder under other names: what is written stays here."""
    for path in target.iterdir():
        (here / path.name).symlink_to(path)
    return here


def test_json_holds_what_the_screen_shows_and_stands_alone_on_standard_output(folder, pricdr):
    outcome = pricdr("evaluate", "popularity", "dmf", "split", "-k", "20,5", "--json", "-", "--per-user", "u.parquet")
    assert outcome.code == 0, outcome.err
    content, shown = json.loads(outcome.out), outcome.err
    assert (content["schema_version"], content["cutoffs"], content["users"]) == (3, [5, 20], content["test_items"])
    for ranking in content["rankings"]:
        for model, figures in content["models"].items():
            for stratum, cells in figures[ranking].items():
                assert re.search(rf"^    {model} +{stratum} +{cells['users']:,} ", shown, flags=re.MULTILINE)
                for metric in ("HR@5", "NDCG@20"):
                    error = cells["standard_error"][metric]
                    assert cells["users"] < 2 or f"{cells[metric]:.4f} ± {error:.4f}" in shown
    for one in content["differences"]:
        cells = f"dmf {one['stratum']} {one['mean']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}] {one['p_value']:.4f}"
        assert cells in " ".join(shown.split())
    rows = pl.read_parquet("u.parquet").filter((pl.col("ranking") == "full") & (pl.col("model") == "dmf"))
    assert rows["NDCG@20"].mean() == pytest.approx(content["models"]["dmf"]["full"]["all"]["NDCG@20"])


def test_a_sentence_for_each_kind_of_user_and_a_warning(folder, pricdr):
    told = pricdr("evaluate", "popularity", "ridge", "split", "--json", "e.json")
    lines = told.out.splitlines()
    for ranking in ("sampled", "full"):
        at = lines.index(f"ridge against popularity, {ranking} ranking: does the release help?")
        kinds = ["warm users", "users with few ratings", "cold users"]
        assert [line.split(":")[0].strip() for line in lines[at + 1 : at + 4]] == kinds
    assert told.err.startswith("warning: one run can mislead")
    assert (told.err.count("\n"), "--repeat" in told.err) == (1, True)
    verdicts = json.loads((folder / "e.json").read_text())["verdicts"]
    assert [f"  {one['sentence']}" in lines for one in verdicts] == [True] * 6
    assert not pricdr("evaluate", "ridge", "split").err  # one model: nothing to compare


def test_the_page_stands_alone_and_names_are_no_markup(folder, pricdr):
    (folder / HOSTILE).symlink_to(folder / "dmf")
    outcome = pricdr("evaluate", "popularity", HOSTILE, "split", "-k", "5,10,20", "--report", "e.html")
    assert outcome.code == 0, outcome.err
    text = (folder / "e.html").read_text(encoding="utf-8")
    page = require_self_contained(text)
    assert HOSTILE in page.text
    assert "One run can mislead" in page.text
    assert page.tags.count("figure") == 2  # the differences, one plot for each ranking
    for mean, error in re.findall(r"(\d\.\d{4}) (± \d\.\d{4})", outcome.out):
        assert mean in page.text
        assert error in page.text
    for low, high in re.findall(r"\[([+-]\d\.\d{4}), ([+-]\d\.\d{4})\]", outcome.out):
        assert f"[{low}, {high}]" in page.text
    assert pricdr("evaluate", "popularity", "split", "--html", "one.html").code == 0
    tags = require_self_contained((folder / "one.html").read_text(encoding="utf-8")).tags
    assert ("figure" in tags, tags.count("table")) == (False, 2)


@pytest.mark.parametrize(
    ("split", "models", "options"),
    [("split", ("popularity", "ridge"), ("--target", "ratings.parquet", "--release", "release")), ("warm", None, ())],
)
def test_repeating_trains_over_other_splits(folder, pricdr, split, models, options):
    """A split without cold users holds all ratings, so that none have to be given."""
    if models is None:
        models = ("warm-popularity", "warm-ease")
        for name in models:
            assert pricdr("train", "warm", "--method", name.removeprefix("warm-"), "--out", name).code == 0
    outputs = ("--json", "e.json", "--html", "e.html", "--ranking", "sampled")
    told = pricdr("evaluate", *models, split, "--repeat", 2, *options, *outputs)
    assert (told.code, told.err) == (0, "")
    assert "over 2 splits (seeds 1, 2), NDCG@10" in told.out
    repeated = json.loads((folder / "e.json").read_text())["repeat"]
    assert repeated["seeds"] == [1, 2]
    assert {(one["splits"], one["about_release"]) for one in repeated["verdicts"]} == {(2, bool(options))}
    page = (folder / "e.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "over 2 splits (seeds 1, 2)" in page
    assert all(f"  {one['sentence']}" in told.out and one["sentence"] in page for one in repeated["verdicts"])
    assert "One run can mislead" not in page


COLD = ("popularity", "ridge", "split")


REFUSED = (
    ((*COLD, "--repeat", 2, "--release", "release"), "does not hold the histories of its"),
    ((*COLD, "--repeat", 2, "--target", "source.parquet"), "made of ratings other than --target"),
    ((*COLD, "--repeat", 2, "--target", "ratings.parquet"), "ridge was trained with a release that is not given"),
    ((*COLD, *config(repeat=2, target="ratings.parquet", release=["unsigned"])), "that is not given"),
    (("ridge", "warm", "--repeat", 2), "give two or more"),
    ((*COLD, "--target", "ratings.parquet"), "--target: this is for --repeat"),
    ((*COLD, "--release", "release"), "--release: this is for --repeat"),
    ((*COLD, "--threshold", 3), "--threshold: this is for --repeat"),
    ((*COLD, "--allow-not-private"), "--allow-not-private: this is for --repeat"),
    (("popularity", "link", "split"), "link is named before"),
    (("popularity", "split", "-k", "5,5"), "counts once"),
    (("popularity", "split", "-k", "5,x"), "'5,x'"),
    (("popularity", "split", "-k", "0"), "at least 1, got 0"),
    (("whole", "split"), "was not trained on this split"),
    (("export", "split"), "was exported"),
    (("newer", "split"), "schema_version 99"),
    *(((*COLD, option, "dmf"), "dmf exists already") for option in ("--json", "--report", "--html", "--per-user")),
    ((*COLD, "--html", "-"), "only --json writes to standard output"),
)


def test_what_cannot_be_evaluated_is_refused_in_one_line(folder, pricdr, refused):
    (folder / "link").symlink_to("popularity")
    assert pricdr("train", "ratings.parquet", "--method", "popularity", "--out", "whole").code == 0
    assert pricdr("recommend", "dmf", "--export", "export").code == 0
    newer = shutil.copytree(folder / "whole", folder / "newer")
    about = json.loads((newer / "model.json").read_text())
    (newer / "model.json").write_text(json.dumps({**about, "schema_version": 99, "more": 1}))
    for arguments, says in REFUSED:
        refused("evaluate", *arguments, says=says)
