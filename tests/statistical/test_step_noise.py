"""Every step has the noise it was settled with, and the noises of two steps have nothing to do with each other."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from pricdr import Bounds, Guarantee, Unit
from pricdr.privacy.run import Entries, Run, Secrets
from pricdr.privacy.steps import Declared, settle
from pricdr.privacy.strategies import Guided, LearnFrom, Spectral
from pricdr.privacy.sums import noisy_sums
from pricdr.randomness import Secret, Simulation
from pricdr.testing.contracts import Rows
from pricdr.testing.laws import ALPHA, has_scale, shape_p_value

pytestmark = pytest.mark.statistical
USERS, ITEMS, UNLISTED = 4000, 3000, 500
NAMES = tuple(f"u{at}" for at in range(USERS))
GUIDE = Rows(np.random.default_rng(3).standard_normal((USERS, 6)).astype(np.float32), NAMES)
WAYS = {
    "spectral, buckets": (Spectral(dim=4, buckets=2500), False, Unit.RATING, Bounds()),
    "spectral, catalogue, values": (Spectral(dim=4), True, Unit.RATING, Bounds(rating_bound=5)),
    "spectral, everybody": (Spectral(dim=4, learn_from=LearnFrom.ALL), True, Unit.RATING, Bounds()),
    "spectral, user": (Spectral(dim=4), True, Unit.USER, Bounds(clip=3.0)),
    "guided": (Guided(guide=GUIDE, dim=4), True, Unit.RATING, Bounds()),
    "refine": (Guided(guide=GUIDE, dim=8, refine=True), True, Unit.RATING, Bounds()),
}


def _matrix(rng, users, levels):
    cells = sp.random_array((users, ITEMS), density=0.004, rng=rng, format="csr")
    cells.data = rng.integers(1, levels + 1, cells.nnz)
    cells.sort_indices()
    return cells.astype(np.int64)


@pytest.fixture(params=WAYS)
def noises(request, rng, any_seed, monkeypatch):
    """(settled steps, what was published, noise of each step in grid steps): sums with noise less sums without."""
    strategy, declared_items, unit, bounds = WAYS[request.param]
    recorded = {}

    def recording(matrix, vectors, *, step, noise, **rest):
        out = noisy_sums(matrix, vectors, step=step, noise=noise, **rest)
        exact = noisy_sums(matrix, vectors, step=step, noise=None, **{**rest, "secrets": Secrets()})
        recorded[step.name] = (out, exact, noise)
        return out

    for module in ("pricdr.privacy.item_model", "pricdr.privacy.strategies.learnt"):
        monkeypatch.setattr(f"{module}.noisy_sums", recording)
    declared = Declared(bounds=bounds, unit=unit, users=USERS, items=ITEMS if declared_items else None)
    settled = settle(strategy.steps(declared), Guarantee(epsilon=4, delta=1e-6, unit=unit), bounds)
    everybody = getattr(strategy, "learn_from", None) is LearnFrom.ALL
    entries = Entries(
        _matrix(rng, USERS, bounds.levels),
        NAMES,
        tuple(f"i{at}" for at in range(ITEMS)),
        bounds,
        value=bounds.rating_step,
        most=bounds.levels,
        universe_declared=declared_items,
        unlisted=_matrix(rng, UNLISTED, bounds.levels) if everybody else None,
    )
    randomness = Secret() if any_seed % 2 else Simulation(any_seed)
    published = strategy.publish(entries, Run(settled, randomness))
    grids = {one.step.name: one.grid for one in settled}
    return settled, published, {n: (out - exact) / grids[n].step for n, (out, exact, _) in recorded.items()}


def test_every_step_has_the_noise_it_was_settled_with_and_no_other(noises, rng):
    settled, published, drawn = noises
    assert set(drawn) == {one.step.name for one in settled}
    for one in settled:
        noise = drawn[one.step.name]
        assert noise.shape == (one.step.rows, one.step.numbers)
        assert np.abs(noise - np.rint(noise)).max() < 1e-3  # whole grid steps
        assert has_scale(noise * one.grid.step, one.grid.sigma), one.step.name
        assert shape_p_value(noise + rng.uniform(-0.5, 0.5, noise.shape), one.grid.sigma / one.grid.step) > ALPHA
        for column in range(noise.shape[1]):
            assert abs(noise[:, column].mean()) < 6 * one.grid.sigma / one.grid.step / len(noise) ** 0.5
    assert published.shape[0] == USERS


def test_the_noises_of_steps_are_unrelated(noises):
    _, _, drawn = noises
    limit = stats.norm.isf(ALPHA / 2)
    for one, two in combinations(drawn.values(), 2):
        flat = [noise.ravel() for noise in (one, two)]
        size = min(map(len, flat))
        assert abs(np.corrcoef(flat[0][:size], flat[1][:size])[0, 1]) * size**0.5 < limit
        rows = min(len(one), len(two))
        for left in one.T:
            for right in two.T:
                assert abs(np.corrcoef(left[:rows], right[:rows])[0, 1]) * rows**0.5 < limit


def test_the_correlation_test_has_power(rng):
    """A tenth of one noise in the other is noticed."""
    one, fresh = rng.standard_normal((2, USERS * 4))
    two = 0.1 * one + fresh
    assert abs(np.corrcoef(one, two)[0, 1]) * len(one) ** 0.5 > stats.norm.isf(ALPHA / 2)


def test_noise_is_had_once(any_seed):
    declared = Declared(bounds=Bounds(), unit=Unit.RATING, users=5, items=4)
    settled = settle(Spectral(dim=4).steps(declared), Guarantee(epsilon=4, delta=1e-6), Bounds())
    run = Run(settled, Simulation(any_seed))
    for one in settled:
        first = run.noise(one.step.name)
        assert first is not None
        with pytest.raises(RuntimeError, match="a second draw would be a second release"):
            run.noise(one.step.name)


def test_a_strategy_cannot_be_run_twice_on_one_run(rng, any_seed):
    strategy = Guided(guide=GUIDE, dim=4)
    declared = Declared(bounds=Bounds(), unit=Unit.RATING, users=USERS, items=None)
    settled = settle(strategy.steps(declared), Guarantee(epsilon=4, delta=1e-6), Bounds())
    items = tuple(f"i{at}" for at in range(ITEMS))
    entries = Entries(_matrix(rng, USERS, 1), NAMES, items, Bounds())
    run = Run(settled, Simulation(any_seed))
    strategy.publish(entries, run)
    with pytest.raises(RuntimeError, match="drawn already"):
        strategy.publish(entries, run)
