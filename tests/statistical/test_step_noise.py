"""Every step has the noise it was calibrated with, and the noises of two steps have nothing to do with each other."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from pricdr import Bounds, Guarantee, Unit
from pricdr.data.blocks import InMemory
from pricdr.data.periods import Window
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.steps import UNITS_PER_STEP, Declared, calibrate
from pricdr.randomness import Secret, Simulation
from pricdr.strategies import Continued, Guided, Spectral
from tests.attacks.integer_reference import trace_steps
from tests.attacks.transcript import GuideOf
from tests.laws import ALPHA, has_scale, scale_p_value, shape_p_value

pytestmark = pytest.mark.statistical
USERS, ITEMS = 4000, 3000
NAMES = tuple(f"u{at}" for at in range(USERS))
GUIDE = GuideOf(np.random.default_rng(3).standard_normal((USERS, 6)).astype(np.float32), NAMES)
WEEKS = Window.parse("2026-01-01", "2027-01-01", "7d")
WAYS = {
    "spectral": (Spectral(dim=4), Unit.RATING, Bounds()),
    "spectral, values": (Spectral(dim=4), Unit.RATING, Bounds(rating_bound=5)),
    "spectral, user": (Spectral(dim=4), Unit.USER, Bounds(clip=3.0)),
    "spectral, user-period": (Spectral(dim=4), Unit.USER_PERIOD, Bounds(clip=3.0)),
    "guided": (Guided(guide=GUIDE, dim=4), Unit.RATING, Bounds()),
    "guided, values": (Guided(guide=GUIDE, dim=4), Unit.RATING, Bounds(rating_bound=5, rating_step=0.5)),
    "guided, one round": (Guided(guide=GUIDE, dim=8, refine=False), Unit.RATING, Bounds()),
    "guided, user": (Guided(guide=GUIDE, dim=4), Unit.USER, Bounds(clip=3.0)),
    "continued": (Continued(before=(GUIDE, GUIDE), dim=6), Unit.RATING, Bounds()),
}


def _matrix(rng, users, levels):
    cells = sp.random_array((users, ITEMS), density=0.004, rng=rng, format="csr")
    cells.data = rng.integers(1, levels + 1, cells.nnz)
    cells.sort_indices()
    return cells.astype(np.int64)


def _run(strategy, entries, calibrated, randomness):
    """What is published, and the noise of each step in grid steps: sums with noise less sums without."""
    with trace_steps() as seen:
        published = strategy.publish(entries, Run(calibrated, randomness))
    with trace_steps(seen) as exact:
        strategy.publish(entries, Run(calibrated, randomness, noisy=False))
    assert np.array_equal(published, seen["rows"].astype(np.float32))
    names = {one.step.name: one.grid.step for one in calibrated}
    return published, {name: (seen[name] - exact[name]) / step for name, step in names.items()}


@pytest.fixture(params=WAYS)
def noises(request, rng, any_seed):
    """The calibrated steps, what was published, and the noise of each step in grid steps."""
    strategy, unit, bounds = WAYS[request.param]
    window = WEEKS if unit is Unit.USER_PERIOD else None
    guarantee = Guarantee(epsilon=4, delta=1e-6, unit=unit, window=window)
    periods = 1 if window is None else window.periods
    declared = Declared(bounds=bounds, unit=unit, users=USERS, periods=periods)
    calibrated = calibrate(strategy.steps(declared), guarantee, bounds)
    by_user = unit is not Unit.RATING
    limit = bounds.limited if by_user else lambda matrix: matrix
    entries = Entries(
        InMemory(limit(_matrix(rng, USERS, bounds.levels))),
        NAMES,
        tuple(f"i{at}" for at in range(ITEMS)),
        bounds,
        value=bounds.rating_step / (UNITS_PER_STEP if by_user else 1),
    )
    randomness = Secret() if any_seed % 2 else Simulation(any_seed)
    return calibrated, *_run(strategy, entries, calibrated, randomness)


def test_every_step_has_the_noise_it_was_settled_with_and_no_other(noises, rng):
    calibrated, published, drawn = noises
    assert set(drawn) == {one.step.name for one in calibrated}
    for one in calibrated:
        noise = drawn[one.step.name]
        assert noise.shape == (one.step.rows, one.step.numbers)
        assert np.abs(noise - np.rint(noise)).max() < 1e-3  # whole grid steps
        if noise.size < 1000:  # a centring step: few numbers, looked at together below
            assert stats.norm.sf(np.abs(noise).max() * one.grid.step / one.grid.sigma) * 2 * noise.size > ALPHA
            continue
        assert has_scale(noise * one.grid.step, one.grid.sigma), one.step.name
        assert shape_p_value(noise + rng.uniform(-0.5, 0.5, noise.shape), one.grid.sigma / one.grid.step) > ALPHA
        for column in range(noise.shape[1]):
            assert abs(noise[:, column].mean()) < 6 * one.grid.sigma / one.grid.step / len(noise) ** 0.5
    assert published.shape[0] == USERS


def test_the_noises_of_steps_are_unrelated_and_a_tenth_of_one_in_the_other_would_be_noticed(noises, rng):
    one, fresh = rng.standard_normal((2, USERS * 4))
    assert stats.pearsonr(one, 0.1 * one + fresh).pvalue < ALPHA
    _, _, drawn = noises
    for one, two in combinations(drawn.values(), 2):
        flat = [noise.ravel() for noise in (one, two)]
        size = min(map(len, flat))
        assert stats.pearsonr(flat[0][:size], flat[1][:size]).pvalue > ALPHA
        rows = min(len(one), len(two))
        if rows == 1:  # a centring step
            continue
        limit = stats.norm.isf(ALPHA / 2 / one.shape[1] / two.shape[1])
        between = np.corrcoef(one[:rows].T, two[:rows].T)[: one.shape[1], one.shape[1] :]
        assert np.abs(between).max() * rows**0.5 < limit


@pytest.mark.parametrize("strategy", [Spectral(dim=4), Guided(guide=GUIDE, dim=4)], ids=["spectral", "guided"])
def test_centring_steps_have_their_noise(strategy, rng):
    """One has few numbers, so many small runs are looked at together."""
    declared = Declared(bounds=Bounds(), unit=Unit.RATING, users=3)
    calibrated = calibrate(strategy.steps(declared), Guarantee(epsilon=4, delta=1e-6), Bounds())
    matrix = sp.csr_array(np.array([[1, 0], [1, 1], [0, 1]]))
    entries = Entries(InMemory(matrix), NAMES[:3], ("i0", "i1"), Bounds())
    drawn = {one.step.name: [] for one in calibrated if one.step.rows == 1}
    for _ in range(250):
        with Secret() as secret:
            _, noise_of = _run(strategy, entries, calibrated, secret)
        for name, noises in drawn.items():
            noises.append(noise_of[name][0])
    together = []
    for one in calibrated:
        if one.step.name in drawn:
            sample = np.array(drawn[one.step.name]) * one.grid.step / one.grid.sigma
            assert sample.shape == (250, one.step.numbers)
            assert scale_p_value(sample, 1.0) > ALPHA
            assert shape_p_value(sample + rng.uniform(-0.5, 0.5, sample.shape) / 2**18, 1.0) > ALPHA
            together.append(sample.ravel())
    assert has_scale(np.concatenate(together), 1.0)


def test_the_noise_of_a_step_is_had_once_so_that_a_run_is_run_once(any_seed):
    strategy, users = Guided(guide=GUIDE, dim=4), NAMES[:3]
    declared = Declared(bounds=Bounds(), unit=Unit.RATING, users=3)
    calibrated = calibrate(strategy.steps(declared), Guarantee(epsilon=4, delta=1e-6), Bounds())
    entries = Entries(InMemory(sp.csr_array(np.eye(3, dtype=np.int64))), users, ("i0", "i1", "i2"), Bounds())
    run = Run(calibrated, Simulation(any_seed))
    strategy.publish(entries, run)
    with pytest.raises(RuntimeError, match="drawn already"):
        strategy.publish(entries, run)
    for one in calibrated:
        with pytest.raises(RuntimeError, match="a second draw would be a second release"):
            run.noise(one.step.name)
