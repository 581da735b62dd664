"""The sentence at the end of a comparison, and the rule behind it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import pricdr
from pricdr.data.splits import hold_out
from pricdr.evaluation.verdict import (
    WITHOUT_RELEASE,
    Difference,
    PairedDifference,
    Training,
    Verdict,
    compare,
    over_repetitions,
    verdict_lines,
)
from pricdr.models import DataAccess, Origin
from pricdr.models.catalogue import METHODS, method_class
from pricdr.models.fitted import ReleaseOrigin
from tests.evaluation.test_comparison import TableModel

HELPING, HURTING = Difference(0.02, 0.01, 0.03, 0.01), Difference(-0.02, -0.03, -0.01, 0.05)
ZERO_INSIDE = Difference(0.02, -0.01, 0.05, 0.01)


def test_interval_and_test_must_agree_and_a_handful_of_users_tells_nothing_however_much_each_gains():
    assert Verdict.of(HELPING) is Verdict.HELPS
    assert Verdict.of(HURTING) is Verdict.HURTS
    disagreeing = [replace(one, p_value=0.051) for one in (HELPING, HURTING)]
    few = [compare(np.ones(users), np.zeros(users)) for users in (1, 5)]
    for difference in (ZERO_INSIDE, replace(HELPING, low=0.0), *disagreeing, *few):
        assert Verdict.of(difference) is Verdict.UNCLEAR
    assert Verdict.of(compare(np.ones(8), np.zeros(8))) is Verdict.HELPS


def judgement(about_release=True, **changes):
    trainings = Training("hetero", with_release=False), Training("hetero", with_release=about_release)
    given = {
        "model": "B",
        "baseline": "A",
        "ranking": "full",
        "stratum": "cold",
        "metric": "NDCG@10",
        "difference": HELPING,
        "trainings": trainings[::-1],
    }
    return PairedDifference(**{**given, **changes})


def test_sentences():
    figures = "(NDCG@10 +0.0200, 95 % interval +0.0100 to +0.0300"
    assert judgement().sentence == f"cold users: the release helps {figures})"
    assert judgement(by_split=(0.02,) * 5).sentence == f"cold users: the release helps {figures}, over 5 splits)"
    assert judgement(about_release=False).sentence == f"cold users: B helps over A {figures})"
    assert judgement(difference=HURTING, stratum="few").sentence.startswith(
        "users with few ratings: the release hurts ("
    )
    unclear_sentence = judgement(difference=ZERO_INSIDE, stratum="warm").sentence
    assert unclear_sentence.startswith("warm users: it cannot be told whether the release helps (NDCG@10 +0.0200")
    same = judgement(difference=Difference(0.0, 0.0, 0.0, 1.0))
    assert same.sentence == "cold users: the release makes no difference, NDCG@10 is the same for every user"
    assert replace(same, by_split=(0.0,) * 3).sentence.endswith("NDCG@10 is the same on every split")
    assert same.verdict is Verdict.UNCLEAR
    assert judgement().to_dict()["verdict"] == "helps"
    assert verdict_lines([judgement(), judgement(stratum="few", model="C", about_release=False)])[::2] == [
        "B against A, full ranking: does the release help?",
        "C against A, full ranking: does it help?",
    ]


@dataclass
class Scores(TableModel):
    origin: Origin | None
    method: str = "dmf"


ALONE, WITH = Origin({}, "f"), Origin({}, "f", (ReleaseOrigin("hash"),))
PLAINTEXT = Origin({}, "f", plaintext_source=True)


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    items = tuple(f"i{at:03d}" for at in range(230))
    pairs = [(f"u{user:02d}", item) for user in range(40) for item in rng.choice(items, 5, replace=False)]
    ratings = pricdr.Ratings.from_triples(*zip(*pairs, strict=True)).select(items=items)
    return hold_out(ratings, seed=0, cold=0.3)


def models_of(split, first, second):
    """One that guesses, and one that is far better; each by the name of its method, and its origin."""
    users, items = split.train.users, split.train.items
    guess = np.random.default_rng(1).random((len(users), len(items)))
    good = guess.copy()
    good[split.test.users, split.test.items] += 1
    return {"a": Scores(users, items, guess, *first), "b": Scores(users, items, good, *second)}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(ALONE, WITH, True), (WITH, WITH, False), (None, WITH, False), (PLAINTEXT, WITH, False), (WITH, ALONE, False)],
)
def test_the_release_is_spoken_of_where_it_is_the_difference(split, first, second, expected):
    models = models_of(split, (first, "hetero"), (second, "hetero"))
    comparison = pricdr.evaluate(models, split, ranking="sampled")
    assert {one.about_release for one in comparison.verdicts} == {expected}
    assert [one.stratum for one in comparison.verdicts] == ["warm", "few", "cold"]
    assert {one.verdict for one in comparison.verdicts} == {Verdict.HELPS}
    assert (str(comparison).count("the release helps") == 3) == expected
    alone = pricdr.evaluate({"a": models["a"]}, split, ranking="sampled")
    assert alone.verdicts == ()
    assert "help" not in str(alone)


def test_what_a_model_was_trained_with():
    nothing = np.zeros((0, 0))
    assert [Training.of(Scores((), (), nothing, origin)) for origin in (ALONE, WITH, PLAINTEXT, None)] == [
        *(Training("dmf", with_release=False), Training("dmf", with_release=True), None, None)
    ]
    assert Training.of(object()) is None


@pytest.mark.parametrize("baseline", ["popularity", "ease"])
def test_another_method_as_the_baseline_says_nothing_about_the_release(split, baseline):
    text = str(pricdr.evaluate(models_of(split, (ALONE, baseline), (WITH, "ease-release")), split, ranking="sampled"))
    assert ("does the release help?" in text) == (baseline == "ease")
    assert ("what the release adds shows only beside ease" in text) == (baseline != "ease")


def test_every_method_that_reads_a_release_has_its_baseline():
    access = {name: method_class(name).data_access() for name in METHODS.own}
    assert set(WITHOUT_RELEASE) == {name for name, seen in access.items() if DataAccess.RELEASE in seen}
    assert {DataAccess.TARGET in access[name] for name in WITHOUT_RELEASE.values()} == {True}


def test_students_interval_over_repetitions():
    values = np.array([0.010, 0.014, 0.006, 0.012])
    half = 3.182446 * values.std(ddof=1) / 2  # the 97.5 % point of Student's law with three degrees of freedom
    found = over_repetitions(values)
    assert found.mean == pytest.approx(0.0105)
    assert (found.low, found.high) == pytest.approx((0.0105 - half, 0.0105 + half), rel=1e-5)
    assert 0 < found.p_value < 0.05
    assert over_repetitions(np.zeros(3)) == Difference(0.0, 0.0, 0.0, 1.0)
    assert over_repetitions(np.full(3, 0.5)) == Difference(0.5, 0.5, 0.5, 0.0)
    with pytest.raises(pricdr.PriCDRError, match="two or more, got 1"):
        over_repetitions(values[:1])
