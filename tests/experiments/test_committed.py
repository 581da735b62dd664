"""What is committed fits together: specs, the searches behind their settings, results and tables."""

import json
import tomllib
from pathlib import Path
from statistics import fmean

import pytest

from pricdr.experiments.results import read
from pricdr.experiments.search import draws, read_trials
from pricdr.experiments.spec import read_search, read_spec
from pricdr.experiments.tables import report

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.toml"))
TUNED = ROOT / "specs" / "tuned"


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_row_was_measured_with_the_settings_in_the_spec(path):
    spec = read_spec(path, TUNED)
    found = {(result.key, result.seed): result for result in read(ROOT / "results" / f"{spec.name}.jsonl")}
    wanted = [(spec.key(arm), seed) for arm in spec.arms for seed in spec.seeds]
    assert set(found) == set(wanted)
    table = (ROOT / "results" / f"{spec.name}.md").read_text(encoding="utf-8")
    assert table == report(spec, [found[run] for run in wanted])


PAPER = {  # table 2 of the paper, Douban Book→Music: HR@10, NDCG@10, MRR@10
    "BPR": (0.2889, 0.1058, 0.0950),
    "NeuMF": (0.3042, 0.1187, 0.1093),
    "DMF": (0.3315, 0.1367, 0.1100),
    "CoNet (plaintext)": (0.3787, 0.1633, 0.1340),
    "DDTCDR (plaintext)": (0.3934, 0.1846, 0.1506),
    "DARec (plaintext)": (0.4285, 0.2269, 0.1711),
    "ETL (plaintext)": (0.4545, 0.2545, 0.1987),
    "PriCDR-J, ε = 8": (0.4675, 0.2643, 0.2034),
    "PriCDR-S, ε = 8": (0.5097, 0.3032, 0.2397),
}
REFERENCE = {
    "EASE, λ = 300 (reference)": (0.4665, 0.2923, 0.2384),
    "EASE with the source, λ = 300, weight 0.3 (reference)": (0.4719, 0.2951, 0.2402),
    "popularity": (0.3193, 0.1690, 0.1239),
}


def douban(arm: str) -> list[float]:
    results = [result for result in read(ROOT / "results" / "compared_douban_book_music.jsonl") if result.arm == arm]
    assert len(results) == 5
    figures = [result.figures["sampled"]["warm"] for result in results]
    return [fmean(found[metric] for found in figures) for metric in ("HR@10", "NDCG@10", "MRR@10")]


@pytest.mark.parametrize("arm", PAPER)
def test_no_rival_is_weaker_here_than_in_the_paper(arm):
    assert all(ours >= theirs for ours, theirs in zip(douban(arm), PAPER[arm], strict=True))


@pytest.mark.parametrize("arm", REFERENCE)
def test_closed_forms_give_the_reference_values(arm):
    assert douban(arm) == pytest.approx(REFERENCE[arm], abs=0.002)


@pytest.mark.parametrize("path", sorted((ROOT / "specs").glob("compared_*.toml")), ids=lambda p: p.stem)
def test_chosen_settings_are_the_best_of_the_same_number_of_trials(path):
    """Twelve for every method, or all there are, and each is a line of the log."""
    data, fixed = read_search(path)
    trials = read_trials(ROOT / "results" / "search" / f"{data.name}.jsonl")
    chosen = tomllib.loads((TUNED / f"{data.folder}.toml").read_text(encoding="utf-8"))
    for method, settings in chosen.items():
        tried = [trial for trial in trials if trial.method == method]
        planned = draws(method, 12, fixed.get(method, {}))
        assert sorted(map(str, (trial.settings for trial in tried))) == sorted(map(str, planned)), method
        assert max(tried, key=lambda trial: trial.validation).settings == settings, method
    assert {trial.method for trial in trials} == set(chosen)


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "cpu").glob("*.jsonl")), ids=lambda p: p.stem)
def test_what_was_timed_is_what_the_spec_says_and_fits_in_six_gibibytes(path):
    spec = read_spec(ROOT / "specs" / f"{path.stem}.toml", TUNED)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert sorted(line["key"] for line in lines) == sorted(spec.key(arm) for arm in spec.arms)
    assert all(line["GiB"] < 6 for line in lines)
