"""Rows of other days, and a user's ratings in a period: attacks break the wrong order and wrong merging, not ours."""

import math
from functools import partial

import numpy as np
import pytest

from pricdr.randomness import Secret
from pricdr.strategies import JLT
from tests.attacks import periods
from tests.attacks.evidence import Tally, duel, guess_bound, refutation_power
from tests.attacks.rows import likelihood_ratio
from tests.attacks.target import Opened, Setting

SETTING = Setting(strategy=JLT(dim=16), epsilon=4.0)
ITEMS = tuple(f"i{at}" for at in range(30))
THIS_YEAR = "user,item,time\n" + "".join(f"u,{item},2026-05-01\n" for item in ITEMS)
NEXT_YEAR = "".join(f"u,{item},2027-05-01\n" for item in ITEMS)
TRIALS = 2_000


def guess(read, folder, rng) -> tuple[Tally, int]:
    """Guess from this year's release whether somebody rated the same items next year; also return what changed."""
    worlds = []
    for rows in (THIS_YEAR, THIS_YEAR + NEXT_YEAR):
        (folder / "r.csv").write_text(rows)
        worlds.append(SETTING.bounds.steps(read(folder / "r.csv").select(("u",), ITEMS).matrix))
    with Secret() as secret:
        opened = Opened.draw(SETTING, ITEMS, secret)
    absent, present = map(opened.signal, worlds)

    def publish(world: int) -> np.ndarray:
        with Secret() as noise:
            return opened.release(worlds[world], noise)

    def score(published: np.ndarray) -> float:
        return float(likelihood_ratio(published, absent, present).sum())

    return duel(publish, score, trials=400, rng=rng), worlds[0].nnz - worlds[1].nnz


@pytest.mark.statistical
def test_next_years_rows_show_in_this_years_release_where_repeats_are_merged_first_and_not_in_ours(tmp_path, rng):
    tally, changed = guess(periods.merged_first, tmp_path, rng)
    assert changed == len(ITEMS)
    assert tally.refutes(SETTING.mu), tally  # more than any one rating may cost, and the ledger counted none
    tally, changed = guess(periods.of_the_year, tmp_path, rng)
    assert changed == 0
    assert not tally.refutes(1e-9), tally


def test_a_period_moves_as_far_as_claimed_and_no_farther():
    tight = tuple(map(periods.adding_periods, periods.one_period()))
    assert 0.95 < periods.distance(tight) <= 1
    again = periods.every_item_again()
    assert periods.distance(tuple(map(periods.adding_periods, again))) <= 1
    # All earlier periods come back with the last one gone: eleven entries, where one may move.
    assert periods.distance(tuple(map(periods.last_period_counts, again))) > 9


@pytest.mark.parametrize("epsilon", [4.0, 0.003])  # of the smaller, rounding is a good part
def test_no_random_period_of_a_random_user_moves_farther_than_claimed(epsilon, rng):
    for _ in range(5):
        ratings = rng.integers(0, 2, (periods.FOLLOWERS + 1, periods.PERIODS, periods.PERIODS - 1)).astype(float)
        without = ratings.copy()
        without[rng.integers(len(ratings)), rng.integers(periods.PERIODS)] = 0
        pair = periods.adding_periods(ratings), periods.adding_periods(without)
        assert 0 < periods.distance(pair, epsilon=epsilon) <= 1


@pytest.mark.statistical
@pytest.mark.slow
def test_attacks_on_a_user_in_a_period(rng):
    mu, again = periods.claimed(), periods.every_item_again()
    tight = tuple(map(periods.adding_periods, periods.one_period()))
    whole = partial(periods.whole_matrix, rng=rng)
    flawed = whole(tuple(map(periods.last_period_counts, again)), trials=200)
    assert flawed.refutes(mu), flawed
    assert flawed.success > 0.97
    for worlds in (tight, tuple(map(periods.adding_periods, again))):
        ours = whole(worlds, trials=TRIALS)
        assert not ours.refutes(mu), ours
    ours = whole(tight, trials=TRIALS)
    assert ours.success > guess_bound(0.93 * mu) - 6 * math.sqrt(0.25 / TRIALS), ours
    assert refutation_power(TRIALS, claimed=mu, true=0.93 * mu / 0.5) > 1 - 1e-5
    assert whole(tight, trials=TRIALS, noise_scale=0.5).refutes(mu), "half of the noise"
