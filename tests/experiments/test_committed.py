"""What is committed fits together: specs, the searches behind their settings, results and tables."""

import json
import tomllib
from pathlib import Path
from statistics import fmean

import pytest

from pricdr.experiments.results import Result, mean, read
from pricdr.experiments.search import draws, read_trials
from pricdr.experiments.spec import Spec, read_search, read_spec
from pricdr.experiments.tables import markdown_report, share

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
    assert table == markdown_report(spec, [found[run] for run in wanted])


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
WEAKER = {"PriCDR-SYM, jlt, ε = 8": (0.4535, 0.2517, 0.2002)}
"""Weaker here than in the paper, and we do not know why: the day it is not, this says so."""
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


@pytest.mark.parametrize("arm", [*PAPER, *(pytest.param(arm, marks=pytest.mark.xfail(strict=True)) for arm in WEAKER)])
def test_no_method_is_weaker_here_than_in_the_paper(arm):
    assert all(ours >= theirs for ours, theirs in zip(douban(arm), (PAPER | WEAKER)[arm], strict=True))


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


BARS = {  # share of DDTCDR's gain that cold users keep, in per cent: what a release must reach
    ("movie_music", "guided"): {8: 65, 4: 55, 2: 30},
    ("electronics_cell", "guided"): {8: 65, 4: 52, 2: 38},
    ("movie_music", "spectral"): {8: 52, 4: 40, 2: 12},
    ("electronics_cell", "spectral"): {8: 60, 4: 55, 2: 33},
    ("movie_music", "guide in the clear"): {1: 22},
    ("electronics_cell", "guide in the clear"): {1: 35},
}


def frontier(data: str) -> tuple[Spec, dict[str, list[Result]]]:
    spec = read_spec(ROOT / "specs" / f"frontier_{data}.toml", TUNED)
    results = read(ROOT / "results" / f"frontier_{data}.jsonl")
    by_arm = {arm.name: sorted((r for r in results if r.arm == arm.name), key=lambda r: r.seed) for arm in spec.arms}
    return spec, by_arm


@pytest.mark.parametrize(("data", "strategy"), BARS, ids=str)
def test_the_frontier_reaches_its_bars(data, strategy):
    spec, by_arm = frontier(data)
    for epsilon, least in BARS[data, strategy].items():
        assert 100 * share(spec, by_arm, f"{strategy}, ε = {epsilon}").value >= least


@pytest.mark.parametrize("data", ["movie_music", "electronics_cell", "douban_book_music"])
@pytest.mark.parametrize("stratum", ["warm", "cold"])
def test_a_worthless_release_does_no_harm(data, stratum):
    """Shuffled and noisy releases all leave one model, the target-only one; cold users get what is popular."""
    _, by_arm = frontier(data)
    controls = [name for name in by_arm if name.endswith("(control)")]
    assert len(controls) == 4
    found = {tuple(r.figures["sampled"][stratum]["NDCG@10"] for r in by_arm[name]) for name in controls}
    assert len(found) == 1
    if stratum == "cold":
        base = [r.figures["sampled"]["cold"]["NDCG@10"] for r in by_arm["popularity"]]
        lost = mean(own - popular for own, popular in zip(*found, base, strict=True))
        assert lost.value >= -mean(base).error


def test_hetero_is_not_below_the_ridge():
    for data in ("movie_music", "electronics_cell", "douban_book_music"):
        spec, by_arm = frontier(data)
        for name in [name for name in by_arm if name.endswith("decoded by ridge")]:
            plain = name.removesuffix(", decoded by ridge")
            assert share(spec, by_arm, plain).value >= share(spec, by_arm, name).value
