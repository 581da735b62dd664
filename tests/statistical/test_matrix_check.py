"""Floors and ceilings for released matrices: honest noise passes at the stated rate, too little noise does not."""

import numpy as np
import pytest

from pricdr import Bounds, Guarantee, Ratings, Unit, publish
from pricdr.errors import VerificationError
from pricdr.release.checks import LEVELS, check_floors, check_matrix, too_short
from pricdr.strategies import JLT, SJLT, Spectral

pytestmark = pytest.mark.statistical
STEPS = 1024
SHAPES = [(1, 1), (2, 1), (50, 1), (50, 2), (400, 3), (3, 40), (1, 300), (200, 8)]


def _noise(rng, shape):
    return (np.rint(rng.standard_normal(shape) * STEPS) / STEPS).astype(np.float32)


def _refused(values, sigma=1.0) -> bool:
    try:
        check_floors(values, sigma, sigma / STEPS)
    except VerificationError:
        return True
    return False


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("signal", [0.0, 0.3, 5.0])
def test_each_floor_refuses_honest_noise_as_often_as_it_may(any_seed, shape, signal):
    """At an error rate that can be seen: one per cent for each level of a floor instead of 10^-12."""
    alpha, trials, refused = 0.01, 1500, 0
    rng = np.random.default_rng([any_seed, *shape])
    under = (signal * rng.standard_normal(shape)).astype(np.float32)
    for trial in range(trials):
        noise = _noise(rng, shape)
        squares = ((noise + under).astype(np.float64) ** 2).sum(axis=1)
        refused += too_short(squares, shape[1], 0.5 / STEPS, alpha=alpha)
        assert signal or trial >= 300 or not _refused(noise)
    most = alpha * (len(LEVELS) + 1)
    assert refused <= trials * most + 4 * (trials * most) ** 0.5


@pytest.mark.parametrize(
    ("shape", "left"), [((200, 8), 0.7), ((50, 8), 0.5), ((1000, 2), 0.75), ((3, 300), 0.7)], ids=str
)
def test_less_noise_than_stated_is_refused(any_seed, shape, left):
    rng = np.random.default_rng([any_seed, *shape])
    assert all(_refused((left * _noise(rng, shape)).astype(np.float32)) for _ in range(50))


def test_less_noise_in_one_column_or_row_is_refused_and_so_are_copies_of_rows(any_seed):
    """A signal does not hide that rows are copies."""
    rng = np.random.default_rng(any_seed)
    quiet = _noise(rng, (500, 8))
    quiet[:, 3] *= 0.5
    assert _refused(quiet)
    quiet = _noise(rng, (500, 64))
    quiet[7] *= 0.2
    assert _refused(quiet)
    rows = 10 * rng.standard_normal((250, 8)) + _noise(rng, (250, 8))
    assert _refused(np.repeat(rows, 2, axis=0).astype(np.float32))
    assert _refused(np.concatenate([rows, rows]).astype(np.float32))


@pytest.mark.parametrize(
    ("strategy", "unit", "bounds"),
    [
        (JLT(dim=8), Unit.RATING, Bounds()),
        (JLT(dim=1), Unit.RATING, Bounds()),
        (SJLT(dim=2), Unit.RATING, Bounds(rating_bound=5)),
        (Spectral(dim=4), Unit.RATING, Bounds()),
        (Spectral(dim=4), Unit.USER, Bounds(clip=3.0)),
        (JLT(dim=3), Unit.USER, Bounds(clip=3.0)),
    ],
    ids=str,
)
@pytest.mark.parametrize("epsilon", [0.1, 4, 60])
def test_what_publish_makes_passes(strategy, unit, bounds, epsilon):
    """Every kind of release, from nothing but noise to hardly any; the heaviest users are at the ceiling's side."""
    users = [f"u{at}" for at in range(40)]
    pairs = [(user, f"i{item}") for at, user in enumerate(users) for item in range(at)]
    ratings = Ratings.from_triples(*map(list, zip(*pairs, strict=True)), [5.0] * len(pairs))
    items = [f"i{item}" for item in range(40)]
    for _ in range(5):
        guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=unit)
        release = publish(ratings, guarantee, strategy=strategy, users=users, items=items, bounds=bounds)
        check_matrix(release.matrix, release.certificate)
