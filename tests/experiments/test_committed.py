"""What is committed fits together: specs, the searches behind their settings, results and tables."""

import tomllib
from pathlib import Path
from statistics import fmean

import pytest

from pricdr.experiments.measured import Experiment, markdown_report
from pricdr.experiments.results import Outline, read, read_lines, read_outline
from pricdr.experiments.search import Trial, draws
from pricdr.experiments.spec import read_search, read_specs

ROOT = Path(__file__).parents[2]
TUNED = ROOT / "specs" / "tuned"
TABLES = [
    spec
    for path in sorted((ROOT / "specs").glob("*.toml"))
    if path.stem != "quick"  # one seed of table2, to be run by whoever wants a first look
    for spec in read_specs(path, TUNED)
]


@pytest.mark.parametrize("spec", TABLES, ids=lambda spec: spec.name)
def test_every_row_was_measured_with_the_settings_in_the_spec(spec):
    """And with the defaults of today: no row is stale, and none is missing where the data was there."""
    rows = read(ROOT / "results" / f"{spec.name}.jsonl")
    wanted = {(spec.key(arm), seed) for arm in spec.arms for seed in spec.seeds}
    found = read_outline(ROOT / "results" / f"{spec.name}.spec.json")
    assert found == Outline.of(spec, found.missing)
    assert {(result.key, result.seed) for result in rows} == (set() if found.missing else wanted)
    assert len(rows) == len({(result.key, result.seed) for result in rows})
    table = (ROOT / "results" / f"{spec.name}.md").read_text(encoding="utf-8")
    assert table == markdown_report(spec, rows)


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
    "EASE, λ = 300": (0.4665, 0.2923, 0.2384),
    "EASE with the source, λ = 300, weight 0.3": (0.4719, 0.2951, 0.2402),
    "popularity": (0.3193, 0.1690, 0.1239),
}


def douban(arm: str, table: str = "table2_douban_book_music") -> list[float]:
    results = [result for result in read(ROOT / "results" / f"{table}.jsonl") if result.arm == arm]
    assert len(results) == (1 if table == "reference" else 5)
    figures = [result.figures["sampled"]["warm"] for result in results]
    return [fmean(found[metric] for found in figures) for metric in ("HR@10", "NDCG@10", "MRR@10")]


@pytest.mark.parametrize("arm", [*PAPER, *(pytest.param(arm, marks=pytest.mark.xfail(strict=True)) for arm in WEAKER)])
def test_no_method_is_weaker_here_than_in_the_paper(arm):
    assert all(ours >= theirs for ours, theirs in zip(douban(arm), (PAPER | WEAKER)[arm], strict=True))


@pytest.mark.parametrize("arm", REFERENCE)
def test_closed_forms_give_the_reference_values(arm):
    assert douban(arm, "reference") == pytest.approx(REFERENCE[arm], abs=0.002)


SEARCHED = [data for data in read_search(ROOT / "specs" / "table2.toml") if data.tuned is None]


@pytest.mark.parametrize("data", SEARCHED, ids=lambda data: data.name)
def test_chosen_settings_are_the_best_of_the_same_number_of_trials(data):
    """Twelve for every method, or all there are, and each is a line of the log."""
    trials = read_lines(ROOT / "results" / "search" / f"{data.folder}.jsonl", Trial)
    chosen = tomllib.loads((TUNED / f"{data.folder}.toml").read_text(encoding="utf-8"))
    for method, settings in chosen.items():
        tried = [trial for trial in trials if trial.method == method]
        planned = draws(method, 12, data.search.get(method, {}))
        assert sorted(map(str, (trial.settings for trial in tried))) == sorted(map(str, planned)), method
        assert max(tried, key=lambda trial: trial.validation).settings == settings, method
    assert {trial.method for trial in trials} == set(chosen)


@pytest.mark.parametrize("path", sorted(TUNED.glob("*_spectral.toml")), ids=lambda path: path.stem)
def test_settings_for_narrow_releases_are_the_best_of_their_trials(path):
    trials = read_lines(ROOT / "results" / "search" / f"{path.stem}.jsonl", Trial)
    assert len(trials) == 12
    best = max(trials, key=lambda trial: trial.validation)
    assert tomllib.loads(path.read_text(encoding="utf-8")) == {best.method: best.settings}


BARS = {  # share of DDTCDR's gain that cold users keep, in per cent: what a release must reach
    ("movie_music", "guided"): {8: 65, 4: 55, 2: 30},
    ("electronics_cell", "guided"): {8: 65, 4: 52, 2: 38},
    ("movie_music", "spectral"): {8: 52, 4: 40, 2: 12},
    ("electronics_cell", "spectral"): {8: 60, 4: 55, 2: 33},
    ("movie_music", "guide in the clear"): {1: 22},
    ("electronics_cell", "guide in the clear"): {1: 35},
}


def frontier(data: str) -> Experiment:
    (spec,) = [spec for spec in TABLES if spec.name == f"frontier_{data}"]
    return Experiment.of(Outline.of(spec), read(ROOT / "results" / f"frontier_{data}.jsonl"))


@pytest.mark.parametrize(("data", "strategy"), BARS, ids=str)
def test_the_frontier_reaches_its_bars(data, strategy):
    pair = frontier(data)
    for epsilon, least in BARS[data, strategy].items():
        assert 100 * pair.share(pair.arms[f"{strategy}, ε = {epsilon}"]).value >= least


def test_a_worthless_release_is_refused_and_does_no_harm():
    """Shuffled and noisy releases leave the target-only model; the evidence test may take one in thirty for real."""
    accepted = []
    for data in ("movie_music", "electronics_cell", "douban_book_music"):
        pair = frontier(data)
        assert len(pair.controls) == 4
        for arm in pair.controls:
            runs = arm.runs
            accepted += [(data, arm.name, seed) for seed, run in runs.items() if run.trust != {"warm": 0, "cold": 0}]
            for stratum, base in (("warm", "DMF"), ("cold", "popularity")):
                lost = arm.measured(stratum) - pair.arms[base].measured(stratum)
                assert lost.value >= -0.005 - 2 * lost.error, (data, arm.name, stratum)
    assert len(accepted) <= 2, accepted


def test_hetero_is_not_below_the_ridge():
    for data in ("movie_music", "electronics_cell", "douban_book_music"):
        pair = frontier(data)
        for arm in pair.arms.values():
            if arm.name.endswith("decoded by ridge"):
                plain = pair.arms[arm.name.removesuffix(", decoded by ridge")]
                assert pair.share(plain).value >= pair.share(arm).value
