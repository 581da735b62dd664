"""Exact reconstruction where the projection can be regenerated, and what is left of it against ours."""

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from pricdr import Bounds, Guarantee, Ratings, publish
from pricdr.data.reading.read import read_ratings
from pricdr.randomness import Simulation
from pricdr.strategies import JLT, SJLT
from tests.attacks import flawed
from tests.attacks.reconstruction import remove_lift, undo_constant_seed, undo_seed
from tests.attacks.target import Opened, Setting, item_names, settings
from tests.attacks.trials import coin_ratings, reconstruction_flawed, reconstruction_ours

DATA = Path(os.environ.get("PRICDR_DATA", Path(__file__).parents[2] / "../shared/data")) / "douban_book_music_official"


@pytest.mark.statistical
@pytest.mark.parametrize(("users", "items"), [(300, 200), (200, 300)])
def test_a_constant_seed_gives_every_rating_away(users, items, rng):
    tally, exactly = reconstruction_flawed(users=users, items=items, rng=rng)
    assert tally.success == 1
    assert exactly


@pytest.mark.parametrize("w", [1.0, 36.0, 700.0])
def test_a_lift_can_be_removed(w, rng):
    ratings = (rng.random((40, 25)) < 0.2).astype(float)
    np.testing.assert_allclose(remove_lift(flawed.thin_lift(ratings, w), w), ratings, atol=1e-5)


@pytest.mark.realdata
@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no data under PRICDR_DATA")
def test_every_interaction_of_douban_books_is_recovered():
    """The reference code's training matrix of the paper's own task, at its ε = 1: 48,581 of 48,581."""
    ratings = _training_matrix("book")
    assert ratings.sum() == 48_581
    users, items = ratings.shape
    w = flawed.per_column_w(1.0, 1 / users, dim=items + 84)
    published = flawed.constant_seed_release(ratings, w=w, dim=items + 84)
    recovered = np.rint(undo_constant_seed(published, n_items=items, w=w))
    assert np.array_equal(recovered, ratings)


def _training_matrix(name):
    """Rated or not, without the two items per user that the official split holds out."""
    source = read_ratings(DATA / f"{name}.csv.gz")
    matrix = source.positives().matrix.toarray()
    user_at, item_at = ({one: at for at, one in enumerate(ids)} for ids in (source.users, source.items))
    with gzip.open(DATA / f"official_split_{name}.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            for held_out in ("valid_item", "test_item"):
                matrix[user_at[row["user"]], item_at[row[held_out]]] = 0
    return matrix


@pytest.mark.parametrize("strategy", [JLT(dim=80), SJLT(dim=80)], ids=lambda s: s.name)
def test_a_seeded_release_gives_every_rating_away_and_says_it_is_not_private(strategy, rng):
    """Ours, with --insecure-seed: the seed regenerates E and the noise."""
    ratings, _, _ = coin_ratings(100, 60, rng)
    users, items = item_names(100), item_names(60)
    rows, columns = np.nonzero(ratings)
    source = Ratings.from_codes(rows, columns, np.ones(len(rows)), users, items)
    release = publish(
        source, Guarantee(epsilon=4, delta=1e-6), strategy=strategy, users=users, items=items, insecure_seed=7
    )
    opened = Opened.draw(Setting(strategy=strategy, bounds=Bounds()), items, Simulation(7))
    assert np.array_equal(np.rint(undo_seed(release.matrix, opened, 7)), ratings)
    assert not release.certificate.private
    assert not np.array_equal(np.rint(undo_seed(release.matrix, opened, 8)), ratings)


@pytest.mark.statistical
@pytest.mark.parametrize("known_rows", [False, True], ids=["E secret", "E known"])
@pytest.mark.parametrize("setting", settings(256), ids=str)
def test_our_release_gives_no_rating_away(setting, known_rows, rng):
    """As many columns as items and more: with E known this is least squares against the noise."""
    users = 120 if setting.wide else 500
    tally = reconstruction_ours(setting, users=users, rng=rng, known_rows=known_rows)
    assert not tally.refutes(setting.mu), tally
