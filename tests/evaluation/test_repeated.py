"""A verdict over several splits."""

import json

import numpy as np
import pytest

from pricdr import Comparison
from pricdr.errors import ParameterError
from pricdr.evaluation.comparison import RepeatedComparison
from pricdr.evaluation.verdict import Training, Verdict, over_repetitions


def comparison(gain, users=6, cold=2):
    """Two models: the second gains so much for cold users, and nothing for the others."""
    strata = {name: np.zeros(users, dtype=bool) for name in ("all", "warm", "few", "cold")}
    strata["all"][:] = True
    strata["warm"][cold:] = True
    strata["cold"][:cold] = True
    base = np.linspace(0.1, 0.6, users)
    better = base + gain * strata["cold"]
    values = {name: {"sampled": {"NDCG@10": own}} for name, own in (("A", base), ("B", better))}
    trainings = {"A": Training("hetero", with_release=False), "B": Training("hetero", with_release=True)}
    return Comparison(tuple(f"u{at}" for at in range(users)), strata, values, trainings)


def test_the_verdict_is_over_the_means_of_the_splits():
    gains = [0.02, 0.03, 0.025]
    repeated = RepeatedComparison(dict(zip((4, 5, 6), map(comparison, gains), strict=True)))
    by_stratum = {one.stratum: one for one in repeated.differences}
    assert list(by_stratum) == ["all", "warm", "cold"]  # nobody has few ratings here
    assert by_stratum["cold"].by_split == pytest.approx(gains)
    assert by_stratum["all"].by_split == pytest.approx([gain / 3 for gain in gains])
    assert by_stratum["cold"].difference == over_repetitions(np.array(by_stratum["cold"].by_split))
    verdicts = {one.stratum: one for one in repeated.verdicts}
    assert verdicts["cold"].verdict is Verdict.HELPS
    assert verdicts["warm"].verdict is Verdict.UNCLEAR
    assert len(verdicts["cold"].by_split) == 3
    assert verdicts["cold"].sentence.endswith("over 3 splits)")
    assert "cold users: the release helps" in str(repeated)
    content = json.loads(json.dumps(repeated.to_dict(), allow_nan=False))
    assert content["seeds"] == [4, 5, 6]
    first, second = (content["models"][model]["sampled"]["cold"] for model in ("A", "B"))
    assert np.subtract(second, first).tolist() == pytest.approx(gains)
    assert [one["stratum"] for one in content["verdicts"]] == ["warm", "cold"]


def test_splits_that_disagree_leave_it_open():
    repeated = RepeatedComparison(dict(enumerate(map(comparison, [0.05, -0.04, 0.02, -0.01]))))
    cold = next(one for one in repeated.verdicts if one.stratum == "cold")
    assert cold.verdict is Verdict.UNCLEAR
    assert "+0.0500 -0.0400 +0.0200 -0.0100" in str(repeated)


def test_a_split_without_such_users_is_left_out():
    splits = [comparison(0.02), comparison(0.03), comparison(0.5, cold=0)]
    repeated = RepeatedComparison(dict(enumerate(splits)))
    cold = next(one for one in repeated.differences if one.stratum == "cold")
    assert cold.by_split == pytest.approx((0.02, 0.03))
    assert {one.stratum: len(one.by_split) for one in repeated.verdicts} == {"warm": 3, "cold": 2}
    none = RepeatedComparison(dict(enumerate([comparison(0.02), *splits[2:]])))
    assert "cold" not in {one.stratum for one in none.verdicts}


def test_one_split_is_no_repetition():
    with pytest.raises(ParameterError, match="two or more, got 1"):
        RepeatedComparison({1: comparison(0.1)})


def test_names_begin_no_line_of_their_own():
    first = comparison(0.1)
    values = {"A\nB helps": first.values["A"], "B": first.values["B"]}
    odd = Comparison(first.users, first.strata, values)
    text = str(RepeatedComparison({1: odd, 2: odd}))
    assert "A\\u000aB helps" in text
    assert not any(line.startswith("B helps") for line in text.split("\n"))
