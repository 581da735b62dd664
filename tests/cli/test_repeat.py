"""``evaluate`` in sentences, and ``evaluate --repeat``."""

import json

import pytest

from pricdr import Guarantee, publish, synthetic_pair
from pricdr.cli import run
from pricdr.data.synthetic import SyntheticConfig
from pricdr.data.tables import write_ratings
from pricdr.strategies import Spectral


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two splits of a target's ratings, with cold users and without, and models of both."""
    folder = tmp_path_factory.mktemp("target")
    pair = synthetic_pair(SyntheticConfig(users=200, source_items=300, target_items=300))
    write_ratings(folder / "ratings.parquet", pair.target)
    write_ratings(folder / "other.parquet", pair.target.select(users=pair.users[:150]))
    promise = Guarantee(epsilon=16, delta=1e-6)
    for name in ("release", "another"):
        publish(pair.source, promise, strategy=Spectral(dim=8), users=pair.users).save(folder / name)
    for split, options in {"split": ["--cold", "0.3"], "warm": []}.items():
        assert run(["split", str(folder / "ratings.parquet"), "--out", str(folder / split), *options]) == 0
        for model, given in {"alone": ["popularity"], "with": ["ridge-release", "--release", "release"]}.items():
            method, *rest = [str(folder / one) if one == "release" else one for one in given]
            arguments = [str(folder / split), "--method", method, *rest, "--out", str(folder / f"{split}-{model}")]
            assert run(["train", *arguments]) == 0
    return folder


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    capsys.readouterr()


def test_a_sentence_for_each_kind_of_user_and_a_warning(capsys, tmp_path):
    json_file = tmp_path / "figures.json"
    assert run(["evaluate", "split-alone", "split-with", "split", "--json", str(json_file)]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    for ranking in ("sampled", "full"):
        at = lines.index(f"split-with against split-alone, {ranking} ranking: does the release help?")
        assert [line.split(":")[0].strip() for line in lines[at + 1 : at + 4]] == [
            *("warm users", "users with few ratings", "cold users")
        ]
        assert all("95 % interval" in line or "makes no difference" in line for line in lines[at + 1 : at + 4])
    assert told.err.startswith("warning: one run can mislead")
    assert "--repeat" in told.err
    assert told.err.count("\n") == 1
    verdicts = json.loads(json_file.read_text())["verdicts"]
    assert [f"  {one['sentence']}" in lines for one in verdicts] == [True] * 6
    assert run(["evaluate", "split-with", "split"]) == 0
    assert not capsys.readouterr().err  # one model: nothing to compare


def test_repeating_trains_over_other_splits(capsys, tmp_path):
    json_file = tmp_path / "figures.json"
    options = ["--repeat", "2", "--target", "ratings.parquet", "--release", "release", "--ranking", "sampled"]
    outputs = ["--json", str(json_file), "--html", str(tmp_path / "page.html")]
    assert run(["evaluate", "split-alone", "split-with", "split", *options, *outputs]) == 0
    told = capsys.readouterr()
    assert not told.err
    assert "over 2 splits (seeds 1, 2), NDCG@10" in told.out
    repeated = json.loads(json_file.read_text())["repeat"]
    assert repeated["seeds"] == [1, 2]
    assert {one["splits"] for one in repeated["verdicts"]} == {2}
    assert all(one["about_release"] for one in repeated["verdicts"])
    assert all(f"  {one['sentence']}" in told.out.splitlines() for one in repeated["verdicts"])
    page = (tmp_path / "page.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "over 2 splits (seeds 1, 2)" in page
    assert all(one["sentence"] in page for one in repeated["verdicts"])
    assert "One run can mislead" not in page


def test_a_page_of_one_run_says_that_it_can_mislead(tmp_path):
    page = tmp_path / "page.html"
    assert run(["evaluate", "split-alone", "split-with", "split", "--ranking", "sampled", "--html", str(page)]) == 0
    assert "One run can mislead" in page.read_text(encoding="utf-8")


def test_a_split_without_cold_users_needs_no_ratings(capsys):
    options = ["--repeat", "2", "--release", "release", "--ranking", "sampled"]
    assert run(["evaluate", "warm-alone", "warm-with", "warm", *options]) == 0
    assert "over 2 splits" in capsys.readouterr().out


COLD = ("split-alone", "split-with", "split")
REFUSED = {
    "hidden histories": (COLD, ["--release", "release"], "does not hold the histories of its"),
    "other ratings": (COLD, ["--release", "release", "--target", "other.parquet"], "other.parquet: the split was made"),
    "no release": (COLD, ["--target", "ratings.parquet"], "split-with was trained with a release that is not given"),
    "another release": (COLD, ["--target", "ratings.parquet", "--release", "another"], "that is not given"),
    "one model": (("split-with", "split"), ["--release", "release"], "give two or more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_repeated_is_refused_before_anything_is_measured(capsys, case):
    paths, options, words = REFUSED[case]
    assert run(["evaluate", *paths, "--repeat", "2", *options]) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert told.err.count("\n") == 1
    assert not told.out


@pytest.mark.parametrize(
    "options",
    [["--target", "ratings.parquet"], ["--release", "release"], ["--threshold", "3"], ["--allow-not-private"]],
    ids=lambda options: options[0],
)
def test_options_of_repeat_are_refused_without_it(capsys, options):
    assert run(["evaluate", *COLD, *options]) == 2
    assert f"{options[0]} is for --repeat" in capsys.readouterr().err
