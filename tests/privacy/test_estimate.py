"""The guess of a dry run at time and memory: both grow with the sizes, and memory is right within a few times."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from pricdr import Guarantee, Ratings, publish
from pricdr._publish import dry_run
from pricdr.strategies import JLT, SJLT, Spectral

PROMISE = Guarantee(epsilon=4, delta=1e-6)


def _ratings(users, items, count):
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, users * items, count))
    matrix = sp.csr_array((np.ones(len(cells)), (cells // items, cells % items)), shape=(users, items))
    return Ratings(matrix, tuple(f"u{i:07d}" for i in range(users)), tuple(f"i{i:07d}" for i in range(items)))


RATINGS = _ratings(12_000, 6_000, 200_000)


@pytest.mark.parametrize("strategy", [JLT(dim=100), SJLT(dim=100), Spectral(dim=8)], ids=lambda one: one.name)
def test_memory_is_about_right(strategy):
    """Time, which depends on the machine, is measured by ``benchmarks/publish.py``."""
    work = dry_run(RATINGS, PROMISE, strategy=strategy, users=RATINGS.users).work
    tracemalloc.start()
    publish(RATINGS, PROMISE, strategy=strategy, users=RATINGS.users)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak / 1.5 < work.memory < 4 * peak
    assert work.processor_seconds * 0.3 < work.seconds <= work.processor_seconds


def test_twice_the_size_is_about_twice_the_work():
    strategy, single = Spectral(dim=8), _ratings(1_000, 500, 20_000)
    small = dry_run(single, PROMISE, strategy=strategy, users=single.users).work
    many = _ratings(100_000, 500, 200_000)
    large = dry_run(many, PROMISE, strategy=strategy, users=many.users).work
    assert 20 < (large.processor_seconds - 0.05) / (small.processor_seconds - 0.05) < 100
    assert large.memory > 5 * small.memory
