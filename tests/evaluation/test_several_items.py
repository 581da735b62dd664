"""Several test items per user: places, metrics, blocks, and what people are shown of it."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import pricdr
from pricdr.data.splits import HeldOut, hold_out
from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.metrics import MEASURES, averaged, of_lists, per_user, require_cutoffs
from tests.evaluation.test_comparison import _model, _ratings

GROUPS = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=8), min_size=1, max_size=6)


def flat(groups):
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    return np.array([rank for group in groups for rank in group], dtype=float), starts


@given(GROUPS, st.lists(st.integers(1, 30), min_size=1, max_size=3, unique=True))
def test_metrics_are_their_definitions_over_the_written_out_list(groups, cutoffs):
    """Each rank counts the irrelevant items before a relevant one: that writes out the whole list."""
    found = of_lists(*flat(groups), cutoffs)
    for at, group in enumerate(groups):
        listed = sorted(rank + before for before, rank in enumerate(sorted(group)))
        relevance = [1.0 if place in listed else 0.0 for place in range(100)]
        for k in cutoffs:
            top = relevance[:k]
            dcg = sum(r / math.log2(place + 2) for place, r in enumerate(top))
            ideal = sum(1 / math.log2(place + 2) for place in range(min(k, len(group))))
            precisions = [sum(top[: place + 1]) / (place + 1) for place, r in enumerate(top) if r]
            assert found[f"HR@{k}"][at] == max(top)
            assert found[f"Recall@{k}"][at] == pytest.approx(sum(top) / len(group))
            assert found[f"NDCG@{k}"][at] == pytest.approx(dcg / ideal)
            assert found[f"MRR@{k}"][at] == pytest.approx(max((r / (p + 1) for p, r in enumerate(top)), default=0))
            assert found[f"MAP@{k}"][at] == pytest.approx(sum(precisions) / len(group))


@given(st.lists(st.integers(0, 200).map(lambda doubled: doubled / 2), min_size=1, max_size=30))
def test_with_one_item_recall_is_hr_and_map_is_mrr_and_all_are_as_they_always_were(places):
    values = np.array(places)
    found, starts = of_lists(values, np.arange(len(values))), np.arange(len(values))
    for k in (5, 10):
        hit = (values < k).astype(float)
        for measure, expected in (
            *(("HR", hit), ("Recall", hit), ("NDCG", hit / np.log2(values + 2))),
            *(("MRR", hit / (values + 1)), ("MAP", hit / (values + 1))),
        ):
            assert np.array_equal(found[f"{measure}@{k}"], expected)
    for name, own in averaged(values, starts).items():
        assert np.array_equal(own, found[name])
    assert all(np.array_equal(own, found[name]) for name, own in per_user(values).items())


@given(GROUPS)
def test_the_sampled_metrics_of_a_user_are_means_over_the_items(groups):
    values, starts = flat(groups)
    found, each = averaged(values, starts, [7]), of_lists(values, np.arange(len(values)), [7])
    for name in found:
        parts = np.split(each[name], starts[1:])
        np.testing.assert_allclose(found[name], [part.mean() for part in parts])


def test_a_comparison_counts_users_and_shows_a_table_per_k():
    split = hold_out(_ratings(most=30), seed=1, cold=0.2, ratio=0.3)
    users = len(split.test.evaluated)
    assert len(split.test) > users
    models = {"guess": _model(split, 1), "good": _model(split, 2, skill=0.5)}
    comparison = pricdr.evaluate(models, split, cutoffs=[20, 5])
    assert (comparison.cutoffs, comparison.compared_by) == ((5, 20), "NDCG@20")
    assert comparison.metrics == tuple(f"{measure}@{k}" for k in (5, 20) for measure in MEASURES)
    content = comparison.to_dict()
    assert (content["users"], content["test_items"], content["cutoffs"]) == (users, len(split.test), [5, 20])
    assert content["models"]["good"]["full"]["all"]["users"] == users
    assert all(one["metric"] == "NDCG@20" for one in content["differences"])
    full = content["models"]["good"]["full"]["all"]
    assert full["HR@20"] > full["Recall@20"] > full["Recall@5"] > full["MAP@5"] > 0
    sampled = content["models"]["good"]["sampled"]["all"]
    assert sampled["HR@5"] == sampled["Recall@5"]
    lines = str(comparison).split("\n")
    assert lines[0] == "tested by 30 % of each user's ratings, at random"
    assert lines[1] == "sampled ranking (each test item among its own 99 stored negatives, averaged per user)"
    heads = [line.split() for line in lines if line.split()[:2] == ["model", "kind"] and "p-value" not in line]
    shown = ["users", *(f"{measure}@{k}" for k in (5, 20) for measure in MEASURES)]
    assert heads == [["model", "kind", *shown[:7]], ["model", "kind", *shown[7:]]] * 2
    assert "Recall is HR" not in str(comparison)
    assert all(len(line) < 150 for line in lines if " ± " in line)


def test_one_user_has_figures_without_an_error():
    split = hold_out(_ratings(), seed=1)
    one = split.test.only(np.arange(len(split.test)) < 1)
    comparison = pricdr.evaluate({"a": _model(split, 1)}, type(split)(split.train, one, one, split.cold, 0))
    assert "nan" not in str(comparison)
    assert comparison.to_dict()["models"]["a"]["full"]["all"]["standard_error"]["HR@5"] is None


@pytest.mark.parametrize(
    ("cutoffs", "message"),
    [([], "at least one k"), ([5, 5], "counts once, got 5, 5"), ([0], "at least 1, got 0"), ([10**7], "at most")],
)
def test_cutoffs_outside_their_rule_are_refused(cutoffs, message):
    with pytest.raises(ParameterError, match=message):
        require_cutoffs(cutoffs)


def test_held_out_items_of_a_user_are_adjacent_and_distinct():
    negatives = np.zeros((3, 99), dtype=np.int64)
    for users, items, says in (([0, 1, 0], [1, 2, 3], "must follow one another"), ([0, 0, 1], [1, 1, 3], "out twice")):
        with pytest.raises(InputError, match=says):
            HeldOut(np.array(users), np.array(items), negatives)
    held_out = HeldOut(np.array([4, 4, 1]), np.array([1, 2, 2]), negatives)
    assert (held_out.evaluated.tolist(), held_out.user_of_row.tolist()) == ([4, 1], [0, 0, 1])
    assert repr(held_out) == "HeldOut(3 items of 2 users, 99 negatives each)"
