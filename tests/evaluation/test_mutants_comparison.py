"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import pricdr
from pricdr.data.ids import Ids
from pricdr.data.splits import hold_out
from pricdr.errors import InputError
from pricdr.evaluation.ranking import ranks

ITEMS = tuple(f"i{at:03d}" for at in range(220))


@dataclass
class TableModel:
    """Scores written out in a table."""

    users: Ids
    items: Ids
    table: np.ndarray

    def score(self, users):
        return self.table[users]

    def score_candidates(self, users, candidates):
        return np.take_along_axis(self.table[users], candidates, axis=1)


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    pairs = [(f"u{user:02d}", item) for user in range(30) for item in rng.choice(ITEMS, 6, replace=False)]
    ratings = pricdr.Ratings.from_triples(*zip(*pairs, strict=True)).select(items=ITEMS)
    return hold_out(ratings, seed=0, cold=0.2)


def model(split, seed):
    table = np.random.default_rng(seed).random((len(split.train.users), len(ITEMS)))
    return TableModel(split.train.users, split.train.items, table)


def test_two_models_are_told_apart_by_name_and_one_is_not(split):
    both = pricdr.evaluate({"a": model(split, 1), "b": model(split, 2)}, split, ranking="sampled").to_dict()
    alone = pricdr.evaluate({"a": model(split, 1)}, split, ranking="sampled").to_dict()
    assert {"a", "b"} <= set(both)
    assert "a" not in alone
    assert both["a"] == {"sampled": alone["sampled"]} == alone["models"]["a"]


def test_a_stratum_of_one_user_has_a_value_and_no_standard_error(split):
    one = replace(split, test=split.test.only(np.arange(len(split.test)) < 1))
    frame = pricdr.evaluate({"a": model(split, 1)}, one, ranking="sampled").to_frame()
    rows = frame.filter(frame["stratum"] == "all")
    assert rows["users"].unique().to_list() == [1]
    assert rows["value"].null_count() == 0
    assert rows["standard_error"].null_count() == len(rows)


def test_each_comparison_is_printed_once_under_its_own_ranking(split):
    comparison = pricdr.evaluate({"a": model(split, 1), "b": model(split, 2)}, split)
    lines = comparison.lines()
    second = next(at for at, line in enumerate(lines) if line.startswith("full ranking"))
    for ranking, printed in (("sampled", lines[:second]), ("full", lines[second:])):
        means = [f"{one.difference.mean:+.4f} [" for one in comparison.differences if one.ranking == ranking]
        shown = [line for line in printed if line.startswith("  b − a, ")]
        assert len(shown) == len(means) > 1
        assert all(mean in line for mean, line in zip(means, shown, strict=True))


@pytest.mark.parametrize("other", ["users", "items"])
def test_a_model_with_other_users_or_other_items_is_refused(split, other):
    own = model(split, 1)
    wrong = replace(own, **{other: getattr(own, other)[::-1]})
    with pytest.raises(InputError, match="a has other users or items than the split"):
        pricdr.evaluate({"a": wrong}, split)


def test_ranking_reports_how_many_users_are_done(split, monkeypatch):
    """Eleven users at a time; the last block has fewer."""
    monkeypatch.setattr("pricdr.evaluation.ranking._CELLS_PER_BLOCK", 11 * len(ITEMS))
    reported = []
    ranks(
        model(split, 1).score,
        split.test,
        split.train.matrix,
        progress=lambda what, done, total, note="": reported.append((what, done, total)),
    )
    assert reported == [("ranking", 11, 30), ("ranking", 22, 30), ("ranking", 30, 30)]
