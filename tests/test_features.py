"""``features`` through ``publish``: public item rows, whose promise holds for any table."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from pricdr import Guarantee, Ratings, publish
from pricdr.data.features import ItemFeatures
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.mechanism import on_grid
from pricdr.privacy.steps import Bounds, Declared, calibrate
from pricdr.progress import silent
from pricdr.randomness import Simulation
from pricdr.strategies import Features

PROMISE = Guarantee(epsilon=1, delta=1e-6)
USERS = tuple(f"u{at:02d}" for at in range(12))
ITEMS = tuple(f"i{at}" for at in range(6))
CELLS = [(user, item) for row, user in enumerate(USERS) for at, item in enumerate(ITEMS) if (row + 2 * at) % 3]
RATINGS = Ratings.from_triples(*zip(*CELLS, strict=True))
TABLE = ItemFeatures(ITEMS, np.random.default_rng(5).standard_normal((6, 5)))


def _rows(features, dim, items=ITEMS):
    return Features(features=features, dim=dim).item_rows(items, Simulation(0), silent)


def _published(ratings, features=TABLE, dim=3, **more):
    return publish(ratings, PROMISE, strategy=Features(features=features, dim=dim), users=USERS, **more)


def test_the_certificate_names_the_strategy_and_a_declared_universe():
    certificate = _published(RATINGS).certificate
    assert certificate.strategy.name == "features"
    assert certificate.input.item_universe == "declared"
    assert certificate.items == len(ITEMS)
    assert (certificate.dim, certificate.sensitivity, len(certificate.steps)) == (3, 1.0, 1)
    fewer = Ratings.from_triples(*zip(*[cell for cell in CELLS if cell[1] != "i5"], strict=True))
    assert _published(fewer).certificate.items == len(ITEMS), "the catalogue is the table, not what was rated"


def test_items_without_features_add_nothing():
    known = ItemFeatures(ITEMS[:4], TABLE.rows[:4])
    more = Ratings.from_triples(*zip(*[*CELLS, *((user, "unheard of") for user in USERS)], strict=True))
    less = Ratings.from_triples(*zip(*[cell for cell in CELLS if cell[1] in ITEMS[:4]], strict=True))
    matrices = [_published(ratings, known, insecure_seed=3).matrix for ratings in (RATINGS, more, less)]
    np.testing.assert_array_equal(matrices[0], matrices[1])
    np.testing.assert_array_equal(matrices[0], matrices[2])
    assert not _rows(known, 3)[4:].any()
    tagged = _rows(ItemFeatures.of_tags(ITEMS, [("war",), ("war", "love"), ("love",), (), ("farce",), ()]), 2)
    np.testing.assert_allclose(np.linalg.norm(tagged, axis=1), [1, 1, 1, 0, 1, 0], atol=1e-6)
    wider = _published(RATINGS, known, insecure_seed=3, items=ITEMS)  # a declared universe adds nothing either
    np.testing.assert_array_equal(matrices[0], wider.matrix)
    assert wider.certificate.items == len(ITEMS)


TABLES = hnp.arrays(
    np.float64,
    st.tuples(st.just(6), st.integers(1, 5)),
    elements=st.one_of(st.floats(-1e100, 1e100), st.sampled_from([0.0, 0.1, 1.0, 1e-300, 5e-324, -1e100])),
)


@settings(deadline=None, max_examples=40)
@given(TABLES, st.data())
def test_rows_have_norm_at_most_one_whatever_the_table(table, data):
    dim = data.draw(st.integers(1, table.shape[1]))
    rows = _rows(ItemFeatures(ITEMS, table), dim)
    assert rows.shape == (6, dim)
    assert np.isfinite(rows).all()
    assert (np.linalg.norm(rows.astype(np.float64), axis=1) <= 1 + 1e-6).all()
    strategy, bounds = Features(dim=dim), Bounds()
    declared = Declared(bounds=bounds, unit=PROMISE.unit, users=12)
    radius = calibrate(strategy.steps(declared), PROMISE, bounds)[-1].grid.radius(bounds)
    whole = on_grid(rows, radius=radius).astype(np.int64)  # what the certified sensitivity rests on
    assert (np.square(whole).sum(axis=1) <= radius**2).all()


def test_a_change_of_one_rating_moves_one_row_by_at_most_one():
    every = [(user, item) for user in USERS for item in ITEMS]
    full = _published(Ratings.from_triples(*zip(*every, strict=True)), insecure_no_noise=True).matrix
    for left_out in every[::5]:
        less = Ratings.from_triples(*zip(*[cell for cell in every if cell != left_out], strict=True))
        moved = np.linalg.norm(full - _published(less, insecure_no_noise=True).matrix, axis=1)
        assert np.flatnonzero(moved).tolist() == [USERS.index(left_out[0])]
        assert moved.max() <= 1 + 1e-6


def test_neighbouring_inputs_leave_identical_metadata():
    """Also where the change takes away an item's only rating, or a user's."""
    lone = [*(cell for cell in CELLS if cell[1] != "i5" and cell[0] != "u03"), ("u03", "i5")]
    left, right = (Ratings.from_triples(*zip(*cells, strict=True)) for cells in (lone, lone[:-1]))
    releases = [_published(ratings) for ratings in (left, right)]
    assert releases[0].users == releases[1].users
    assert releases[0].matrix.shape == releases[1].matrix.shape
    assert releases[0].certificate.to_bytes() == releases[1].certificate.to_bytes()


@pytest.mark.parametrize("table", [np.full((6, 3), 0.1), np.zeros((6, 3)), np.full((6, 1), 1e100)])
def test_features_that_are_the_same_for_all_items_are_refused(table):
    with pytest.raises(InputError, match="same for all items"):
        _published(RATINGS, ItemFeatures(ITEMS, table), dim=1)


def test_the_number_of_columns_follows_epsilon_and_the_table_and_scale_does_not_matter():
    strategy = Features(features=TABLE)
    assert strategy.resolved(PROMISE, USERS).dim == 4
    assert strategy.resolved(Guarantee(epsilon=8, delta=1e-6), USERS).dim == 5
    with pytest.raises(ParameterError, match="dim 6 is above the 5 columns"):
        Features(features=TABLE, dim=6)
    with pytest.raises(ParameterError, match="needs item features"):
        publish(RATINGS, PROMISE, strategy=Features(), users=USERS)
    for scale in (1e-150, 1e-20, 1e90):
        scaled = _rows(ItemFeatures(ITEMS, TABLE.rows * scale), 3)
        np.testing.assert_allclose(np.abs(scaled), np.abs(_rows(TABLE, 3)), atol=1e-5)


def test_a_release_by_item_features_says_what_its_promise_rests_on_and_does_not_count_on_rows_to_cancel():
    """Two items may have the same features: then a user's ratings add up like t, not like √t."""
    strategy = Features(features=ItemFeatures(("x", "y"), np.eye(2)), dim=2)
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    certificate = publish(ratings, PROMISE, strategy=strategy).certificate
    rests_on = "and the promise rests on their not being made from these ratings."
    assert f"The item features: they were declared public, {rests_on}" in certificate.not_protected
    assert [figure.removed_typically for figure in certificate.whole_user] == [None, None, None]
    with pytest.raises(ParameterError, match="for its own jlt and sjlt"):
        publish(ratings, PROMISE, strategy=strategy, calibration="paper")
