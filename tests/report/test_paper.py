"""The paper's tables are those of the paper, and what contradicts itself in them is counted."""

import numpy as np
import pytest

from pricdr.evaluation.metrics import NAMES, per_user
from pricdr.experiments.paper import contradictions, paper_tasks, table2


def test_the_table_has_ten_methods_on_six_tasks():
    table = table2()
    tasks, methods = (list(dict.fromkeys(place[at] for place in table)) for at in (0, 1))
    assert tasks == [task.data.title for task in paper_tasks() if task.counts]
    assert list(table) == [(task, method) for task in tasks for method in methods]
    assert (methods[0], methods[-1], len(methods)) == ("BPR", "PriCDR-S", 10)
    assert table["Douban Book→Music", "PriCDR-S"] == dict(
        zip(NAMES, (0.3701, 0.2582, 0.2212, 0.5097, 0.3032, 0.2397), strict=True)
    )


def test_the_papers_impossible_rows_are_counted():
    found = [method for (_, method), figures in table2().items() if contradictions(figures)]
    assert len(found) == 32
    assert not [method for method in found if method.startswith("PriCDR")]


@pytest.mark.parametrize(
    ("task", "method", "why", "metrics"),
    [
        ("Amazon Music→Book", "NeuMF", "NDCG is below MRR", ("NDCG@10", "MRR@10")),
        ("Douban Book→Music", "BPR", "does not fit HR's", ("NDCG@5", "NDCG@10")),
    ],
)
def test_a_contradiction_names_its_cells(task, method, why, metrics):
    found = contradictions(table2()[task, method])
    assert all(why in found[metric] for metric in metrics)


def test_a_metric_that_falls_as_the_list_grows_is_impossible():
    figures = dict(zip(NAMES, (0.4, 0.3, 0.2, 0.39, 0.3, 0.2), strict=True))
    assert "falls from k = 5 to k = 10" in contradictions(figures)["HR@10"]


def test_figures_of_rankings_never_contradict_themselves(rng):
    """Whatever the ranks: the rules are theorems, also for figures that are rounded to four digits."""
    for _ in range(200):
        ranks = rng.integers(1, 101, size=rng.integers(1, 400)).astype(np.float64)
        figures = {name: round(float(values.mean()), 4) for name, values in per_user(ranks).items()}
        assert contradictions(figures) == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_that_is_off_is_noticed(name):
    """The rules have power: one figure of honest rankings moved by a tenth breaks one of them."""
    ranks = np.arange(1, 101, dtype=np.float64)
    honest = {metric: float(values.mean()) for metric, values in per_user(ranks).items()}
    moved = [{**honest, name: honest[name] + step} for step in (0.1, -0.1)]
    assert any(contradictions(figures) for figures in moved)
