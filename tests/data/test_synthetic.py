from dataclasses import replace

import numpy as np
import pytest

from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.synthetic import STRONGLY_SHARED, SyntheticConfig, synthetic_pair
from pricdr.errors import ParameterError

SMALL = SyntheticConfig(users=400, source_items=200, target_items=150, source_ratings_per_user=10)


@pytest.fixture(scope="module")
def pair():
    return synthetic_pair()


def test_the_same_seed_gives_the_same_pair():
    first, again, other = synthetic_pair(SMALL, seed=7), synthetic_pair(SMALL, seed=7), synthetic_pair(SMALL, seed=8)
    assert first.fingerprint() == again.fingerprint()
    assert first.source.matrix.data.tolist() == again.source.matrix.data.tolist()
    assert not set(first.fingerprint().split()) & set(other.fingerprint().split())


@pytest.mark.parametrize(
    "config",
    [
        SyntheticConfig(),
        SMALL,
        SyntheticConfig(target_ratings_per_user=1.5),
        SyntheticConfig(activity_spread=0, focus=20.0, off_taste=0.0),
        SyntheticConfig(source_items=100, source_ratings_per_user=25, popularity_exponent=1.2),
    ],
)
def test_mean_activity_is_the_requested_one(config):
    pair = synthetic_pair(config, seed=1)
    for ratings, mean in (
        (pair.source, config.source_ratings_per_user),
        (pair.target, config.target_ratings_per_user),
    ):
        per_user = np.diff(ratings.matrix.indptr)
        assert per_user.mean() == pytest.approx(mean, rel=0.1)
        assert per_user.min() >= 1


def test_shapes_ids_and_values(pair):
    assert (len(pair.users), len(pair.source.items), len(pair.target.items)) == (3000, 1500, 1200)
    assert (pair.users[0], pair.users[-1]) == ("u0000001", "u0003000")
    assert (pair.source.items[0], pair.target.items[-1]) == ("s00001", "t01200")
    assert list(pair.users) == sorted(pair.users)
    popularity = np.bincount(pair.source.matrix.indices, minlength=1500)
    assert abs(np.corrcoef(np.arange(1500), popularity)[0, 1]) < 0.1, "ids say nothing about popularity"
    for ratings in (pair.source, pair.target):
        assert set(np.unique(ratings.matrix.data)) == {1.0, 2.0, 3.0, 4.0, 5.0}


def shares(ratings: Ratings) -> tuple[float, float]:
    """Return the share of the ratings that the top tenth of the items has, and the share of the lower half."""
    popularity = np.sort(np.bincount(ratings.matrix.indices, minlength=len(ratings.items)))[::-1] / len(ratings)
    return popularity[: len(popularity) // 10].sum(), popularity[len(popularity) // 2 :].sum()


def test_activity_and_popularity_have_long_tails_in_the_demos_pair_too(pair):
    demo = synthetic_pair(replace(STRONGLY_SHARED, users=1000))
    assert 0 < STRONGLY_SHARED.own_taste < 0.5
    for one, top, tail in ((pair, 0.35, 4), (demo, 0.28, 2)):
        per_user = np.diff(one.source.matrix.indptr)
        assert np.percentile(per_user, 98) > tail * np.median(per_user)
        assert min(shares(ratings)[0] for ratings in (one.source, one.target)) > top
    assert 24 <= np.median(per_user) <= 60
    assert max(shares(ratings)[1] for ratings in (pair.source, pair.target)) < 0.25
    assert shares(synthetic_pair(SyntheticConfig(popularity_exponent=0.0)).source)[0] < 0.2


def neighbour_agreement(source: Ratings, target: Ratings) -> float:
    """How similar users are in the target whose source rows are the nearest."""
    rows = [np.asarray(r.positives().matrix.todense()) for r in (source, target)]
    rows = [row / np.linalg.norm(row, axis=1, keepdims=True) for row in rows]
    close = rows[0] @ rows[0].T
    np.fill_diagonal(close, -1)
    nearest = close.argmax(axis=1)
    return float((rows[1] * rows[1][nearest]).sum(axis=1).mean())


def test_tastes_are_shared_across_domains_and_own_taste_leaves_less_to_share():
    def pair_of(own: float) -> DomainPair:
        return synthetic_pair(SyntheticConfig(users=800, source_items=300, target_items=300, own_taste=own))

    pair = pair_of(0.0)
    shuffled = pair.target.select(users=pair.users[1:] + pair.users[:1]).matrix
    apart = neighbour_agreement(pair.source, Ratings(shuffled, pair.users, pair.target.items))
    same, half, none = (neighbour_agreement(one.source, one.target) for one in (pair, pair_of(0.5), pair_of(1.0)))
    assert same > 1.5 * apart
    assert same > half + 0.01
    assert half > none + 0.01


def test_ratings_are_higher_where_tastes_match(pair):
    # The taste of an item is not published, but its number decides it: see the generator.
    taste = np.arange(len(pair.source.items)) % SyntheticConfig().tastes
    coo = pair.source.matrix.tocoo()
    counts = np.zeros((len(pair.users), SyntheticConfig().tastes))
    np.add.at(counts, (coo.row, taste[coo.col]), 1)
    matches = counts.argmax(axis=1)[coo.row] == taste[coo.col]
    assert coo.data[matches].mean() > coo.data[~matches].mean() + 0.5


def test_configurations_that_make_no_sense(refused):
    for name, wrong in (
        *(("users", 0), ("tastes", 0), ("tastes", 2000), ("focus", 0.0), ("off_taste", 1.5), ("users", 1.5)),
        *(("own_taste", -0.1), ("source_ratings_per_user", 0.5), ("target_ratings_per_user", 301)),
        *(("popularity_exponent", -1.0), ("focus", float("inf"))),
        *((name, float("nan")) for name in ("own_taste", "activity_spread", "source_ratings_per_user")),
    ):
        message = refused(lambda name=name, wrong=wrong: SyntheticConfig(**{name: wrong}), ParameterError)
        assert name in message or name == "tastes"
