"""What is committed fits together: specs, the searches behind their settings, results and tables."""

import tomllib
from pathlib import Path

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
