"""The command of docs/operations.md that hands a budget to Prometheus prints a figure that it reads."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pricdr import Guarantee, Ledger, Ratings, publish
from pricdr.cli import run
from pricdr.strategies import JLT

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize(("releases", "left"), [(0, "NaN"), (1, "40")])
def test_what_is_left_of_a_budget_is_a_metric(tmp_path, monkeypatch, capsys, releases, left):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create(Path("budget.jsonl"), Guarantee(epsilon=8, delta=1e-6))
    for _ in range(releases):
        promise = Guarantee(epsilon=1, delta=1e-6)
        publish(Ratings.from_triples(["a"], ["x"]), promise, strategy=JLT(dim=2), users=["a"], ledger=ledger)
    pattern = r"pricdr (ledger show budget.jsonl --json -) \|\s+jq -r '(.*?)'"
    command, script = re.search(pattern, PAGE.read_text(), re.DOTALL).groups()
    assert run(command.split()) == 0
    shown = capsys.readouterr().out
    done = subprocess.run(["jq", "-r", script], input=shown, capture_output=True, text=True, check=True)
    assert done.stdout == f"pricdr_ledger_releases_left {left}\n"
    assert {"epsilon"} <= json.loads(shown)["room"].keys() & json.loads(shown)["spent"].keys()
