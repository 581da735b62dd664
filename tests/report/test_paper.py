"""The paper's tables are those of the paper, and what contradicts itself in them is counted."""

import numpy as np
import pytest

from pricdr.evaluation.metrics import NAMES, per_user
from pricdr.report.paper import METHODS, TASKS, PaperRow, paper_table


def test_the_table_has_ten_methods_on_six_tasks():
    table = paper_table()
    assert list(table) == [(task, method) for task in TASKS for method in METHODS]
    assert table["Douban Book→Music", "PriCDR-S"].figures == dict(
        zip(NAMES, (0.3701, 0.2582, 0.2212, 0.5097, 0.3032, 0.2397), strict=True)
    )


def test_the_papers_impossible_rows_are_counted():
    found = [row for row in paper_table().values() if row.contradictions]
    assert len(found) == 32
    assert not [row for row in found if row.method.startswith("PriCDR")]


@pytest.mark.parametrize(
    ("task", "method", "why", "metrics"),
    [
        ("Amazon Music→Book", "NeuMF", "NDCG is below MRR", ("NDCG@10", "MRR@10")),
        ("Douban Book→Music", "BPR", "does not fit HR's", ("NDCG@5", "NDCG@10")),
    ],
)
def test_a_contradiction_names_its_cells(task, method, why, metrics):
    found = paper_table()[task, method].contradictions
    assert all(why in found[metric] for metric in metrics)


def test_a_metric_that_falls_as_the_list_grows_is_impossible():
    figures = dict(zip(NAMES, (0.4, 0.3, 0.2, 0.39, 0.3, 0.2), strict=True))
    assert "falls from k = 5 to k = 10" in PaperRow("t", "m", figures).contradictions["HR@10"]


def test_figures_of_rankings_never_contradict_themselves(rng):
    """Whatever the ranks: the rules are theorems, also for figures that are rounded to four digits."""
    for _ in range(200):
        ranks = rng.integers(1, 101, size=rng.integers(1, 400)).astype(np.float64)
        figures = {name: round(float(values.mean()), 4) for name, values in per_user(ranks).items()}
        assert PaperRow("t", "m", figures).contradictions == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_that_is_off_is_noticed(name):
    """The rules have power: one figure of honest rankings moved by a tenth breaks one of them."""
    ranks = np.arange(1, 101, dtype=np.float64)
    honest = {metric: float(values.mean()) for metric, values in per_user(ranks).items()}
    moved = [{**honest, name: honest[name] + step} for step in (0.1, -0.1)]
    assert any(PaperRow("t", "m", figures).contradictions for figures in moved)
