"""The frontier's rows and the synthetic pairs."""

import json

import pytest

from pricdr.errors import InputError
from pricdr.evaluation.verdict import Verdict
from pricdr.report.folder import read_folder
from pricdr.report.frontier import frontier_rows, synthetic_points
from tests.report import made_up

LINE = {
    **{"users": 1000, "seed": 1, "arm": "plaintext", "epsilon": None, "ndcg": 0.4, "gain": 0.1, "gain_error": 0.01},
    **{"dim": 8, "sigma": 0.0, "seconds": 2.0, "memory": 2.0**29, "chosen": "λ 0.003", "evaluated": 200, "key": "k"},
    "provenance": made_up.PROVENANCE,
}


def write(path, *lines):
    path.write_text("".join(json.dumps({**LINE, **line}) + "\n" for line in lines))
    return path


def test_rows_have_shares_epsilons_and_verdicts(tmp_path):
    (pair,) = read_folder(made_up.frontier(tmp_path, {"guided, ε = 4": 0.15, "jlt, ε = 8": 0.1})).experiments
    rows = {row.arm: row for row in frontier_rows(pair)}
    assert rows["guided, ε = 4"].share.value == pytest.approx(0.5, abs=0.02)
    assert rows["guided, ε = 4"].crosses["cold"][0] is Verdict.HELPS
    assert rows["guided, ε = 4"].crosses["warm"][0] is Verdict.UNCLEAR
    assert rows["jlt, ε = 8"].crosses["cold"][0] is Verdict.UNCLEAR
    assert (rows["jlt, ε = 8"].epsilon, rows["noise (control)"].epsilon) == (8.0, None)
    assert rows["noise (control)"].crosses == {}


def test_synthetic_shares_are_those_of_the_same_seed(tmp_path):
    path = write(
        tmp_path / "s.jsonl",
        {},
        {"seed": 2, "gain": 0.2},
        {"arm": "jlt", "epsilon": 8.0, "gain": 0.05},
        {"arm": "jlt", "epsilon": 8.0, "gain": 0.05, "seed": 2},
        {"arm": "jlt", "epsilon": 8.0, "gain": 0.07, "seed": 3},  # no plaintext of this seed
        {"arm": "noise", "epsilon": 8.0},
    )
    (point,) = synthetic_points(path)
    assert point.share.by_seed == pytest.approx({1: 0.5, 2: 0.25})
    assert point.error == pytest.approx(point.share.error)


def test_a_single_seed_has_the_error_over_users(tmp_path):
    (point,) = synthetic_points(write(tmp_path / "s.jsonl", {}, {"arm": "jlt", "epsilon": 8.0, "gain": 0.05}))
    assert point.error == pytest.approx(0.1)


def test_plaintext_that_gains_nothing_leaves_nothing_to_share(tmp_path):
    assert synthetic_points(write(tmp_path / "s.jsonl", {"gain": 0.0}, {"arm": "jlt", "epsilon": 8.0})) == ()


def test_a_line_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"s.jsonl, line 1: not a synthetic result: users must be a whole number"):
        synthetic_points(write(tmp_path / "s.jsonl", {"users": "many"}))
