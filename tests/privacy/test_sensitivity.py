"""No neighbours are farther apart than claimed, in the formula and in the integer code; a search would find them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from pricdr import Bounds, Guarantee, Unit
from pricdr.privacy.mechanism import Run, Secrets
from pricdr.privacy.steps import Declared, calibrate
from pricdr.privacy.sums import GUIDE_STEPS, directions, noisy_sums, whole_guide
from pricdr.randomness import Secret
from pricdr.strategies import Guided
from tests.attacks.integer_reference import Form, WholeSums, rounding_growth
from tests.attacks.sensitivity import (
    Neighbours,
    added_user,
    cancelling,
    centre_sums,
    climb,
    distance_ratio,
    learnt_sums,
    own_taste,
    random_item,
    replaced_user,
    self_guided_sums,
    sharing,
    unit_norm_sums,
    without_squares_sums,
)

ROUNDED = 1 + 1e-9
"""Double arithmetic in the formula; the integer code gets no such allowance."""
VALUES = WholeSums(bounds=Bounds(rating_bound=5))
USER = WholeSums(bounds=Bounds(clip=2.0), unit=Unit.USER)
CENTRE = WholeSums(form=Form.CENTRE)
ROUND = WholeSums(form=Form.ROUND)
USER_ROUND = replace(USER, form=Form.ROUND)
COARSE = 0.003
"""An ε at which the finest grid is coarse: some hundred steps in the sensitivity, and rounding counts."""


def two_tastes(followers: int) -> Neighbours:
    """Two items and two opposite tastes; one more of the first taste rates the first item. Centring changes nothing."""
    guide, after = np.zeros((2 * followers, 2)), np.zeros((2 * followers, 2))
    guide[:followers, 0], guide[followers:, 0] = 1.0, -1.0
    after[:followers, 0] = after[followers:, 1] = 1.0
    before = after.copy()
    before[0, 0] = 0
    return Neighbours(guide, before, after)


def stranger(raters: int) -> Neighbours:
    """Raters who are all alike, so that centring leaves nothing of them, and an opposite one who is then twice as long.

    Were the guide not clipped again, one rating would move everybody's row twice as far as claimed.
    """
    pair = sharing(raters)
    pair.guide[-1] *= -1
    return pair


def dropped_user(users: int) -> Neighbours:
    """A user whose ratings add up to the clip, and the same user with none."""
    after = np.ones((users, 2))
    before = after.copy()
    before[-1] = 0
    return Neighbours(np.eye(users, 2)[:1].repeat(users, axis=0), before, after)


@pytest.mark.parametrize(
    ("formula", "pair", "reached"),
    [
        (learnt_sums, sharing(1), 0.37),  # the first rating of an item
        (learnt_sums, sharing(2), 0.64),  # the second
        (learnt_sums, sharing(3000), 0.9995),  # a popular item, everybody alike
        (learnt_sums, sharing(3000, bound=5.0, before=2.5), 0.9995),
        (learnt_sums, cancelling(3000), 0.998),  # raters who cancel: every one of them moves a little
        (learnt_sums, cancelling(3000, bound=5.0, before=2.5), 0.98),
        (learnt_sums, replaced_user(3, 3000, 2.0), 0.9995),
        (centre_sums, sharing(3000), 0.9995),  # the count column costs what is claimed
    ],
)
def test_families_come_close_to_the_claim_and_no_further(formula, pair, reached):
    assert reached < distance_ratio(formula, pair) <= ROUNDED


@pytest.mark.parametrize(
    ("way", "pair", "reached"),
    [
        (WholeSums(), sharing(1), 0.37),
        (WholeSums(), sharing(2), 0.64),
        (WholeSums(), sharing(2000), 0.999),
        (WholeSums(), cancelling(2001), 0.99),
        (VALUES, sharing(2000, bound=5.0), 0.999),
        (VALUES, sharing(2000, bound=5.0, before=2.0), 0.599),  # three fifths of the bound
        (VALUES, cancelling(2001, bound=5.0), 0.99),
        (USER, added_user(2, 2000, 2.0), 0.99),
        (USER, added_user(5, 300, 7.0), 0.97),
        (CENTRE, sharing(1), 0.99),
        (CENTRE, sharing(2000), 0.99),
        (CENTRE, cancelling(2001), 0.99),
        (replace(CENTRE, bounds=Bounds(rating_bound=5)), sharing(2000, bound=5.0), 0.99),
        (replace(CENTRE, bounds=Bounds(clip=2.0), unit=Unit.USER), dropped_user(300), 0.98),
        (ROUND, cancelling(2001), 0.99),
        (ROUND, two_tastes(1000), 0.99),
        (ROUND, stranger(2001), 0.99),
        (replace(ROUND, bounds=Bounds(rating_bound=5)), cancelling(2001, bound=5.0), 0.99),
        (replace(ROUND, bounds=Bounds(clip=2.0), unit=Unit.USER), added_user(2, 2000, 2.0), 0.88),
        (replace(WholeSums(), epsilon=COARSE), sharing(100), 0.9),
        (replace(WholeSums(), epsilon=COARSE), cancelling(301), 0.8),
        (replace(VALUES, epsilon=COARSE), cancelling(301, bound=5.0), 0.8),
        (replace(CENTRE, epsilon=COARSE), sharing(100), 0.8),
        (replace(ROUND, epsilon=COARSE), two_tastes(100), 0.8),
    ],
)
def test_the_integer_code_comes_close_to_the_claim_and_no_further(way, pair, reached):
    assert reached < way.ratio(pair) <= 1


@pytest.mark.parametrize("way", [USER, USER_ROUND], ids=lambda way: way.form.name)
def test_who_replaces_a_users_ratings_pays_twice_and_no_more(way):
    assert 1.7 < way.ratio(replaced_user(2, 2000, 2.0)) <= 2


@settings(max_examples=60)
@given(
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([1.0, 5.0]),
    st.sampled_from([0.0, 0.3, 5.0, 40.0]),
    st.integers(0, 2**32 - 1),
)
def test_no_random_neighbours_exceed_the_claim(users, items, dim, bound, prior, seed):
    """Any change of any entries counts with the sum of its absolute values: one rating, a user, anything."""
    rng = np.random.default_rng(seed)
    guide = rng.standard_normal((users, dim))
    guide /= np.maximum(np.linalg.norm(guide, axis=1, keepdims=True), 1)
    before, after = (bound * rng.random((users, items)) * (rng.random((users, items)) < 0.5) for _ in range(2))
    pair = Neighbours(guide, before, after, prior=prior, bound=bound)
    assert distance_ratio(learnt_sums, pair) <= ROUNDED
    assert distance_ratio(centre_sums, pair) <= ROUNDED


@settings(max_examples=40)
@given(
    st.sampled_from([WholeSums(), VALUES, USER, CENTRE, ROUND, USER_ROUND]),
    st.integers(1, 8),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from([COARSE, 0.02, 4.0, 300.0]),
    st.integers(0, 2**32 - 1),
)
def test_no_random_neighbours_of_the_integer_code_exceed_the_claim(way, users, items, dim, epsilon, seed):
    rng = np.random.default_rng(seed)
    before = rng.integers(0, 6, (users, items)) * (rng.random((users, items)) < 0.6).astype(np.float64)
    after = before.copy()
    user = rng.integers(users)
    if way.unit is Unit.USER:
        after[user] = 0
    else:
        after[user, rng.integers(items)] = rng.integers(0, 6)
    pair = Neighbours(3 * rng.standard_normal((users, dim)), before, after, prior=float(rng.choice([0.0, 5.0])))
    assert replace(way, epsilon=epsilon).ratio(pair) <= 1


@pytest.mark.slow
def test_climbs_reach_the_claim_and_stop_there(rng):
    best = 0.0
    for attempt in range(8):
        bound = float(rng.choice([1, 5]))
        start = random_item(int(rng.integers(1, 9)), int(rng.integers(1, 5)), rng, bound=bound, whole=attempt % 2 == 0)
        best = max(best, climb(lambda pair: distance_ratio(learnt_sums, pair), start, steps=3000, rng=rng)[0])
    assert 0.95 < best <= ROUNDED


@pytest.mark.slow
@pytest.mark.parametrize("way", [WholeSums(), VALUES, CENTRE, ROUND], ids=lambda way: f"{way.form.name} {way.bounds}")
def test_climbs_on_the_integer_code_stop_at_the_claim(way, rng):
    best = 0.0
    for epsilon in (4.0, COARSE):
        start = random_item(int(rng.integers(2, 12)), int(rng.integers(1, 4)), rng, bound=way.bounds.largest)
        best = max(best, climb(replace(way, epsilon=epsilon).ratio, start, steps=300, rng=rng)[0])
    assert 0.75 < best <= 1


def test_the_search_finds_every_flaw(rng):
    """The same search on variants with one flaw each: it has power."""
    assert distance_ratio(unit_norm_sums, cancelling(101)) > 10
    assert distance_ratio(without_squares_sums, cancelling(101)) > 4
    assert [distance_ratio(self_guided_sums, own_taste(t)) > t / 3 for t in (1, 4, 16, 64, 256)] == [True] * 5
    start = random_item(8, 2, rng)
    for formula in (unit_norm_sums, without_squares_sums):
        assert climb(lambda pair, f=formula: distance_ratio(f, pair), start, steps=1500, rng=rng)[0] > 1.5
    long = climb(lambda pair: distance_ratio(learnt_sums, pair), replace(start, longest=3.0), steps=1500, rng=rng)[0]
    assert long > 1.3


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_a_direction_depends_on_its_own_column_alone_bit_for_bit(dim, shift, seed):
    """Where a column stands, and which others exist, changes nothing: otherwise a new item would move everybody."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((40, 12)) < 0.3).astype(np.int64)
    guide = whole_guide(rng.standard_normal((40, dim)))
    alone = directions(sp.csr_array(matrix), guide, value=1.0, prior=5.0, secrets=Secrets())
    more = sp.csr_array(np.hstack([np.ones((40, shift), dtype=np.int64), matrix]))
    assert np.array_equal(alone, directions(more, guide, value=1.0, prior=5.0, secrets=Secrets())[shift:])


def test_directions_never_overflow():
    """A setting that is accepted: 1.5 million users, 10,000 levels, unit user. Every direction is shorter than 1."""
    users, bounds = 1_500_000, Bounds(rating_bound=100, rating_step=0.01, clip=100.0)
    declared = Declared(bounds=bounds, unit=Unit.USER, users=users)
    calibrate(Guided(dim=4, refine=False).steps(declared), Guarantee(epsilon=8, delta=1e-6, unit=Unit.USER), bounds)
    units = np.full(users, bounds.levels * 256, dtype=np.int64)
    matrix = sp.csr_array((units, (np.arange(users), np.zeros(users, dtype=np.int64))), shape=(users, 1))
    guide = np.zeros((users, 4), dtype=np.int64)
    guide[:1000, 0] = GUIDE_STEPS - 1
    vectors = directions(matrix, guide, value=0.01 / 256, prior=5 * 100.0**2, secrets=Secrets())
    assert np.linalg.norm(vectors) < 1


@pytest.mark.parametrize("before", [0.0, 7000.0])
@pytest.mark.slow
def test_no_number_grows_by_more_than_is_counted(before):
    """Ten thousand levels and only 14 binary places below a grid step: rounding directions down counts as well."""
    way, rng = WholeSums(bounds=Bounds(rating_bound=10_000), epsilon=300.0), np.random.default_rng(1)
    grown = []
    for _ in range(400):
        guide = rng.uniform(-1, 1, (2, 1))
        earlier, later = np.array([[1e4], [before]]), np.array([[1e4], [1e4 - float(rng.integers(3000))]])
        pair = Neighbours(guide, earlier, later, prior=5e8 * rng.random(), bound=1e4)
        exact = partial(_exact, pair)
        grown.append(rounding_growth(way, pair, exact))
    assert 0.5 < max(grown) <= 1


@pytest.mark.parametrize(
    "way", [WholeSums(), VALUES, replace(VALUES, epsilon=COARSE)], ids=["ratings", "values", "coarse"]
)
def test_numbers_are_rounded_down_and_by_no_more_than_is_counted(way, rng):
    """Never up, whatever the sign: then the parts that are cut off cannot add up between two inputs."""
    for _ in range(20):
        bound = int(way.bounds.largest)
        ratings = rng.integers(0, bound + 1, (6, 1)).astype(np.float64)
        pair = Neighbours(_short_rows(rng, 6, 3), ratings, ratings, prior=5.0 * bound**2, bound=bound)
        (calibrated,) = way.calibrated(pair)
        cut = _exact(pair, ratings) / calibrated.grid.step - way.sums(pair, ratings, (calibrated,))["rows"]
        allowed = 1 + calibrated.step.spread * 2.0 ** -calibrated.step.fine_bits(calibrated.grid)
        assert cut.min() > -1e-6
        assert cut.max() < allowed + 1e-6


class Kept(Secrets):
    """Secrets that a test can look at."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def keep(self, array):
        self.kept.append(array)
        return super().keep(array)


def test_vectors_are_rounded_down_whatever_their_sign(rng):
    vectors = rng.uniform(-1, 1, (50, 2)) / 2
    (calibrated,) = WholeSums().calibrated(sharing(50))
    matrix = sp.csr_array(np.eye(50, dtype=np.int64))
    secrets = Kept()
    noisy_sums(matrix, vectors, Run((calibrated,), Secret(), noisy=False), "rows", value=1.0, secrets=secrets)
    exact = vectors * (1 - 1e-12) / calibrated.grid.step * 2.0 ** calibrated.step.fine_bits(calibrated.grid)
    cut = exact - secrets.kept[0]
    assert cut.min() > -1e-3
    assert 0.9 < cut.max() < 1 + 1e-3


def _short_rows(rng, users, dim):
    rows = rng.standard_normal((users, dim))
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)


def _exact(pair, ratings):
    return learnt_sums(whole_guide(pair.guide) / GUIDE_STEPS, ratings, pair.prior)
