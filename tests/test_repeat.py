"""Methods trained over several splits."""

from dataclasses import replace

import numpy as np
import pytest

import pricdr
from pricdr import Guarantee, publish, synthetic_pair
from pricdr._repeat import whole_of
from pricdr.data.splits import described, drawn_at_random, hold_out
from pricdr.data.synthetic import SyntheticConfig
from pricdr.errors import InputError, ParameterError
from pricdr.models import BPR, BPRConfig, Popularity, RidgeRelease, TrainingOptions


@pytest.fixture(scope="module")
def pair():
    return synthetic_pair(SyntheticConfig(users=150, source_items=300, target_items=300))


@pytest.fixture(scope="module")
def release(pair):
    return publish(pair.source, Guarantee(epsilon=16, delta=1e-6), users=pair.users)


def test_each_repetition_is_a_split_and_a_training_of_its_own(pair, release):
    methods = {"popular": Popularity(), "ridge": RidgeRelease()}
    calls = []
    repeated = pricdr.repeat(
        methods,
        pair.target,
        releases={"ridge": release},
        times=3,
        seed=5,
        cold=0.3,
        progress=lambda what, done, total, note="": calls.append((what, done, total, note)),
    )
    assert list(repeated.comparisons) == [5, 6, 7]
    for seed, comparison in repeated.comparisons.items():
        split = pricdr.split(pair.target, cold=0.3, seed=seed)
        assert comparison.strata["cold"].sum() == split.cold.sum() > 0
        ridge = RidgeRelease().fit(split.train, release, validation=split.validation)
        alone = pricdr.evaluate({"ridge": ridge}, split, ranking="sampled")
        ndcg = [one.values["ridge"]["sampled"]["NDCG@10"] for one in (comparison, alone)]
        np.testing.assert_array_equal(*ndcg)
    assert {one.about_release for one in repeated.verdicts} == {True}
    assert calls[0] == ("repeating", 0, 6, "")
    assert calls[-1] == ("repeating", 6, 6, "ridge, seed 7")


def test_a_data_frame_is_repeated_over_like_its_ratings(pair, release):
    methods = {"popular": Popularity(), "ridge": RidgeRelease()}
    given = (pair.target, pair.target.to_frame(), pair.target.to_frame("pandas"))
    told = {str(pricdr.repeat(methods, target, releases={"ridge": release}, times=2)) for target in given}
    assert len(told) == 1


def test_trainings_have_the_seed_of_their_split(pair):
    options = TrainingOptions(epochs=1, device="cpu", seed=99)
    bpr = BPR(config=BPRConfig(width=4), options=options)
    repeated = pricdr.repeat({"popular": Popularity(), "bpr": bpr}, pair.target, times=2, seed=1)
    split = pricdr.split(pair.target, cold=0.2, seed=2)
    model = replace(bpr, options=replace(options, seed=2)).fit(split.train, validation=split.validation)
    expected = pricdr.evaluate({"bpr": model}, split, ranking="sampled").values["bpr"]["sampled"]["NDCG@10"]
    np.testing.assert_array_equal(repeated.comparisons[2].values["bpr"]["sampled"]["NDCG@10"], expected)


def test_what_cannot_be_repeated_is_refused(pair, release):
    two = {"a": Popularity(), "b": Popularity()}
    for methods, times in (({"a": Popularity()}, 3), (two, 1)):
        with pytest.raises(ParameterError, match="are the least to compare"):
            pricdr.repeat(methods, pair.target, times=times)
    with pytest.raises(ParameterError, match="a release for 'c', which is none of the methods"):
        pricdr.repeat(two, pair.target, releases={"c": release})


def test_a_split_is_put_together_again(pair):
    target = pair.target.positives().rated()
    split = hold_out(target, seed=3)
    assert whole_of(split).fingerprint() == target.fingerprint()
    shuffled = pair.target.select(users=pair.target.users[::-1])
    assert whole_of(split, shuffled).fingerprint() == target.fingerprint()


def test_hidden_histories_have_to_be_given_and_to_be_the_same(pair):
    target = pair.target.positives().rated()
    split = hold_out(target, seed=3, cold=0.2)
    with pytest.raises(InputError, match=r"does not hold the histories of its \d+ cold users"):
        whole_of(split)
    assert whole_of(split, pair.target).fingerprint() == target.fingerprint()
    rows = np.repeat(np.arange(len(target.users)), np.diff(target.matrix.indptr))
    of_cold = split.cold[rows]
    fewer = target.only(~((np.cumsum(~of_cold) == 5) & ~of_cold))
    with pytest.raises(InputError, match="made of ratings other than"):
        whole_of(split, fewer.select(target.users, target.items))
    held = np.zeros(len(target), dtype=bool)
    at = split.test.users[0]
    held[target.matrix.indptr[at] : target.matrix.indptr[at + 1]] = True
    with pytest.raises(InputError, match="made of ratings other than"):
        whole_of(split, target.only(~held))


def test_each_split_holds_out_as_much_as_is_asked_for(pair):
    methods = {"popular": Popularity(), "also": Popularity()}
    several = pricdr.repeat(methods, pair.target, times=2, cold=0.0, test_items=2)
    share = pricdr.repeat(methods, pair.target, times=2, cold=0.0, ratio=0.4)
    for seed in (1, 2):
        assert several.comparisons[seed].protocol == "2 ratings of each user, at random"
        assert share.comparisons[seed].protocol == "40 % of each user's ratings, at random"


@pytest.mark.parametrize(("test_items", "ratio"), [(1, None), (2, None), (17, None), (1, 0.2), (1, 1 / 3), (1, 1e-5)])
def test_a_protocol_is_read_off_its_words(test_items, ratio):
    words = described(test_items, ratio, by_time=False)
    assert drawn_at_random(words) == (test_items, ratio if ratio is None else pytest.approx(ratio, rel=1e-5))
    assert drawn_at_random(described(test_items, ratio, by_time=True)) is None
