"""What the demo says follows from what it measured."""

import numpy as np
import pytest

from pricdr.data.ratings import Ratings
from pricdr.data.splits import Split, hold_out
from pricdr.demo.outcome import (
    ALONE,
    NOT_FOR_REAL,
    PLAINTEXT,
    POPULARITY,
    RELEASE,
    SYNTHETIC,
    Estimate,
    Outcome,
    conclusion,
    outcome_lines,
    outcome_page,
)
from pricdr.evaluation.verdict import Difference

GAIN, NONE, LOSS = (Difference(m, m - 0.02, m + 0.02, 0.5) for m in (0.05, 0.001, -0.05))
METHODS = (POPULARITY, ALONE, RELEASE, PLAINTEXT)


def outcome(over_popularity: Difference, over_alone: Difference, price: Difference) -> Outcome:
    """The same for warm and cold users."""
    strata = ("warm", "cold")
    pairs = {(RELEASE, POPULARITY): over_popularity, (RELEASE, ALONE): over_alone, (PLAINTEXT, RELEASE): price}
    return Outcome(
        users={"warm": 2800, "cold": 1200},
        figures={(m, s, k): Estimate(0.3, 0.28, 0.32) for m in METHODS for s in strata for k in ("NDCG@10", "HR@10")},
        differences={(*pair, stratum): d for pair, d in pairs.items() for stratum in strata},
    )


def test_a_gain_is_claimed_where_both_intervals_lie_above_zero():
    for text in conclusion(outcome(GAIN, GAIN, GAIN)):
        assert "the release helps" in text
        assert "is 0.050 above popularity (95 % interval +0.030 to +0.070)" in text
        assert "0.050 above the target alone" in text
        assert "0.050 more (95 % interval +0.030 to +0.070): that is the price of privacy" in text
        assert "no gain" not in text


@pytest.mark.parametrize(("first", "second"), [(NONE, NONE), (GAIN, NONE), (NONE, GAIN), (LOSS, GAIN), (LOSS, LOSS)])
def test_no_gain_is_claimed_where_an_interval_includes_zero_or_lies_below(first, second):
    for text in conclusion(outcome(first, second, GAIN)):
        assert "no gain shown" in text
        assert "helps" not in text
        for difference, rival in ((first, "popularity"), (second, "the target alone")):
            said = {GAIN: f"above {rival}", NONE: f"cannot be told from {rival}", LOSS: f"below {rival}"}
            assert all((words in text) == (kind is difference) for kind, words in said.items())


def test_an_interval_that_touches_zero_is_no_gain():
    touching = Difference(0.02, 0.0, 0.04, 0.05)
    assert all("no gain shown" in text for text in conclusion(outcome(touching, touching, GAIN)))


@pytest.mark.parametrize(
    ("price", "words"), [(NONE, "No difference from the plaintext source is shown"), (LOSS, "no upper limit")]
)
def test_the_price_of_privacy_is_told_as_measured(price, words):
    for text in conclusion(outcome(GAIN, GAIN, price)):
        assert words in text
        assert "price of privacy" not in text


def test_strata_are_told_apart():
    mixed = outcome(GAIN, GAIN, GAIN)
    changed = {key: NONE if key[2] == "warm" else d for key, d in mixed.differences.items()}
    cold, warm = conclusion(Outcome(mixed.users, mixed.figures, changed))
    assert cold.startswith("Cold users: the release helps.")
    assert warm.startswith("Warm users: no gain shown.")


def test_the_screen_has_room_and_every_figure():
    found = outcome_lines(outcome(GAIN, GAIN, GAIN))
    assert max(map(len, found[1:])) <= 90
    text = "\n".join(found)
    assert "2,800 warm users" in text
    assert "1,200 cold users" in text
    assert text.count("0.300 ± 0.020") == 16
    assert text.count("+0.050 [+0.030, +0.070]") == 6


def test_the_page_says_the_same_as_the_screen():
    measured = outcome(GAIN, NONE, GAIN)
    page = outcome_page(measured, 8.0, [("What is promised", ["a < b"])], ["pricdr demo --out 'another'"]).replace(
        "\xa0", " "
    )
    for text in (*conclusion(measured), NOT_FOR_REAL, SYNTHETIC):
        assert text.replace("'", "&#39;") in page
    assert page.count("<img") == 1
    for words in ("epsilon 8", "a &lt; b", "pricdr demo --out &#39;another&#39;", "2,800 warm users"):
        assert words in page
    assert page.count('0.300 <span class="detail">± 0.020</span>') == 16


def split(cold: float = 0.5) -> Split:
    rng = np.random.default_rng(0)
    cells = [(f"u{u}", f"i{i}") for u in range(40) for i in rng.choice(300, 5, replace=False)]
    ratings = Ratings.from_triples(*zip(*cells, strict=True)).select(items=tuple(f"i{i}" for i in range(300)))
    return hold_out(ratings, seed=0, cold=cold)


def test_outcomes_hold_means_and_paired_differences_of_each_stratum():
    held = split()
    cold = held.cold[held.test.users]
    rng = np.random.default_rng(1)
    found = {
        name: {"NDCG@10": rng.random(40) + shift * cold, "HR@10": rng.random(40)}
        for name, shift in zip(METHODS, (0, 0, 5, 9), strict=True)
    }
    measured = Outcome.of(found, held)
    assert measured.users == {"warm": 20, "cold": 20}
    assert measured.methods == METHODS
    values = found[RELEASE]["NDCG@10"][cold]
    figure = measured.figures[RELEASE, "cold", "NDCG@10"]
    assert figure.mean == pytest.approx(values.mean())
    assert figure.high - figure.mean == pytest.approx(1.96 * values.std(ddof=1) / np.sqrt(20))
    difference = measured.differences[RELEASE, POPULARITY, "cold"]
    assert difference.mean == pytest.approx((values - found[POPULARITY]["NDCG@10"][cold]).mean())
    assert difference.low > 4
    assert abs(measured.differences[RELEASE, POPULARITY, "warm"].mean) < 1
