"""Every metric, at several k, against ranx: 300 lists with 1 to 12 relevant items each, half of them with ties.

``make_ranx_cases.py`` wrote the cases. Here they go the whole way that ``evaluate`` goes: scores, ranks, metrics.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import pricdr
from pricdr.data.splits import HeldOut, Split
from tests.evaluation.test_comparison import TableModel

CONTENT = json.loads(Path(__file__).with_name("ranx_cases.json").read_text())
CASES, METRICS = CONTENT["cases"], CONTENT["metrics"]
SCORES = np.array([case["scores"] for case in CASES], dtype=float)
CUTOFFS = sorted({int(name.split("@")[1]) for name in METRICS})


@pytest.fixture(scope="module")
def split():
    """One user per case: what a user has seen is trained on, what is relevant is tested by."""
    users = tuple(f"u{at:03d}" for at in range(len(CASES)))
    items = tuple(f"i{at:02d}" for at in range(SCORES.shape[1]))
    seen = [(user, items[at]) for user, case in zip(users, CASES, strict=True) for at in case["seen"]]
    train = pricdr.Ratings.from_triples(*zip(*seen, strict=True)).select(users, items)
    rows = np.repeat(np.arange(len(CASES)), [len(case["relevant"]) for case in CASES])
    relevant = np.concatenate([case["relevant"] for case in CASES])
    test = HeldOut(rows, relevant, np.concatenate([case["negatives"] for case in CASES]))
    return Split(train, test.only(test.starts), test, seed=None)


@pytest.fixture(scope="module")
def found(split):
    comparison = pricdr.evaluate(
        {"table": TableModel(split.train.users, split.train.items, SCORES)}, split, cutoffs=CUTOFFS
    )
    values = comparison.values["table"]
    return {name: np.column_stack([values[name][metric] for metric in METRICS]) for name in ("full", "sampled")}


def told(name, ranking):
    return np.array([case[name][("full", "sampled").index(ranking)] for case in CASES])


TIED = np.array([len(set(case["scores"])) < len(case["scores"]) for case in CASES])


def test_half_of_the_cases_are_tied_and_all_have_something_to_tell():
    assert TIED.sum() == (~TIED).sum() == 150
    for ranking in ("full", "sampled"):
        assert np.array_equal(told("best", ranking)[~TIED], told("worst", ranking)[~TIED])
        assert (told("best", ranking)[TIED] > told("worst", ranking)[TIED]).any(axis=1).mean() > 0.5
    assert len({len(case["relevant"]) for case in CASES}) == 12


@pytest.mark.parametrize("ranking", ["full", "sampled"])
def test_without_ties_every_metric_is_that_of_ranx(found, ranking):
    np.testing.assert_allclose(found[ranking][~TIED], told("best", ranking)[~TIED], atol=6e-6)


@pytest.mark.parametrize("ranking", ["full", "sampled"])
def test_with_ties_every_metric_lies_between_the_best_and_the_worst_order(found, ranking):
    ours, best, worst = found[ranking], told("best", ranking), told("worst", ranking)
    assert (ours <= best + 6e-6).all()
    assert (ours >= worst - 6e-6).all()
    # Where the order of ties does not matter, nothing but equality will do.
    same = best == worst
    assert same[TIED].sum() > 500
    np.testing.assert_allclose(ours[same], best[same], atol=6e-6)
