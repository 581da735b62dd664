import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, strategies as st
from hypothesis.extra import numpy as hnp

from pricdr.errors import ParameterError
from pricdr.privacy.mechanism import clip_rows, on_grid, release_rows, squared_norms
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.steps import Bounds, Grid
from pricdr.randomness import Simulation

rows_of_floats = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 6), st.integers(1, 40)), elements=st.floats(-1e3, 1e3, width=32)
)


@given(rows_of_floats, st.floats(0.01, 1e6))
@example(np.full((1, 9), 1 / 3, dtype=np.float32), 3 * (1 - 4e-13))  # nine equal coordinates round up to a norm of 3k
@example(np.full((1, 9), 1 / 3, dtype=np.float32), 300 * (1 - 4e-13))
def test_quantised_rows_never_leave_the_ball(rows, radius):
    whole = on_grid(rows, radius=radius)
    assert (np.linalg.norm(whole.astype(np.float64), axis=1) <= radius).all()


def unit_rows(rng, count, dim):
    rows = rng.standard_normal((count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(0, 1000), st.sampled_from([1, 7, 200, 800]), st.floats(20, 3000))
def test_quantising_keeps_unit_rows_to_within_two_steps(seed, dim, radius):
    rows = unit_rows(Simulation(seed).generator("x"), 20, dim)
    error = np.linalg.norm(on_grid(rows, radius=radius) - radius * rows, axis=1)
    # rounding: √(dim/12) on average; aiming one step inside, and rounding towards zero in the worst case
    assert (error <= 2 + dim / (12 * radius) + np.sqrt(dim)).all()


@given(
    hnp.arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 30)), elements=st.integers(-(10**6), 10**6)),
    st.floats(0.5, 1e7),
)
def test_clipped_rows_never_leave_the_ball_and_short_rows_stay(rows, radius):
    clipped = clip_rows(rows, radius)
    norms = np.linalg.norm(rows.astype(float), axis=1)
    assert (np.linalg.norm(clipped.astype(float), axis=1) <= radius).all()
    short = norms < radius * (1 - 1e-9)
    assert np.array_equal(clipped[short], rows[short])


def _small(seed=0, m=40, n=30):
    rng = Simulation(seed).generator("ratings")
    return sp.csr_array(rng.integers(0, 6, (m, n)) * (rng.random((m, n)) < 0.3)).astype(np.int32)


def test_without_noise_the_release_is_the_exact_product():
    entries, bounds = _small(), Bounds(rating_bound=5)
    grid = Grid(0.0, bounds.rating_step / 65_536)
    rows = on_grid(np.eye(30, 8, dtype=np.float32), radius=1 / grid.step)
    out = release_rows(entries, rows, grid=grid, bounds=bounds, noise=None)
    exact = entries.toarray() @ rows.astype(np.int64)
    assert np.array_equal(out, (exact * grid.step).astype(np.float32))


def test_blocks_and_threads_do_not_change_a_single_value_of_whole_grid_steps(monkeypatch):
    entries, grid = _small(m=300), Grid.for_noise(2.0, bounds=Bounds(rating_bound=5), dim=5)
    rows = on_grid(np.ones((30, 5), dtype=np.float32), radius=1 / grid.step)

    def run():
        noise = DiscreteGaussian(Simulation(1), "n")
        return release_rows(entries, rows, grid=grid, bounds=Bounds(rating_bound=5), noise=noise)

    published = run()
    monkeypatch.setattr("pricdr.privacy.mechanism.CELLS_PER_BLOCK", 35)
    assert np.array_equal(published, run())
    steps = published.astype(np.float64) / grid.step
    assert np.abs(steps - np.rint(steps)).max() < 1e-2


@given(
    st.integers(0, 500), st.sampled_from([Bounds(), Bounds(rating_bound=5), Bounds(rating_bound=5, rating_step=0.5)])
)
def test_one_changed_rating_moves_a_row_by_at_most_the_sensitivity(seed, bounds):
    """The promise that the accounting rests on, measured on the integer rows."""
    rng = Simulation(seed).generator("x")
    grid = Grid.for_noise(float(rng.uniform(0.2, 3000)), bounds=bounds, dim=16)
    rows = on_grid(unit_rows(rng, 30, 16), radius=grid.radius(bounds))
    before = np.minimum(_small(seed).toarray(), bounds.levels)
    after = before.copy()
    after[3, 7] = rng.integers(0, bounds.levels + 1)
    moved = np.linalg.norm((after - before) @ rows.astype(np.int64), axis=1)
    assert moved.max() <= bounds.largest / grid.step
    assert np.count_nonzero(moved) <= 1


@pytest.mark.parametrize("levels", [1, 10_000])
def test_sums_are_exact_even_where_32_bits_would_overflow(levels):
    bounds = Bounds(rating_bound=levels)
    entries = sp.csr_array(np.full((2, 50), levels, dtype=np.int32))
    rows = np.full((50, 3), 2**20, dtype=np.int32)
    out = release_rows(entries, rows, grid=Grid(0.0, 1.0), bounds=bounds, noise=None)
    assert np.array_equal(out, np.full((2, 3), np.float32(50 * levels * 2**20)))


def test_rows_that_are_not_finite_and_noise_too_small_for_exact_arithmetic_are_refused():
    with pytest.raises(ParameterError, match="not finite"):
        on_grid(np.array([[np.nan, 1.0]], dtype=np.float32), radius=10.0)
    with pytest.raises(ParameterError, match="too small for exact arithmetic"):
        Grid(1e-9, 1e-12).radius(Bounds())
    entries, rows = sp.csr_array((1, 10**6), dtype=np.int32), np.full((10**6, 1), 2**30, dtype=np.int32)
    with pytest.raises(AssertionError, match="bound every sum"):
        release_rows(entries, rows, grid=Grid(0.0, 1.0), bounds=Bounds(rating_bound=10_000), noise=None)


@pytest.mark.parametrize(
    ("sigma", "bounds"),
    [
        (0.5, Bounds()),
        (100.0, Bounds()),
        (2000.0, Bounds()),
        (20.0, Bounds(rating_bound=5, rating_step=0.01)),
        (250.0, Bounds(rating_bound=100)),
        (250.0, Bounds(clip=30.0)),
    ],
)
def test_the_grid_is_fine_enough_that_rounding_keeps_the_item_rows(sigma, bounds):
    """Large σ against one rating step: without refinement every row would round to nothing."""
    grid = Grid.for_noise(sigma, bounds=bounds, dim=200)
    rows = unit_rows(Simulation(0).generator("x"), 50, 200)
    radius = grid.radius(bounds)
    kept = np.einsum("ij,ij->i", on_grid(rows, radius=radius), rows) / radius
    assert (kept > 0.98).all()
    assert (grid.refinement > 1) == (sigma > 1)
    assert grid.keeps_signal(bounds, 200)
    assert not Grid.for_noise(1e9, bounds=bounds, dim=200).keeps_signal(bounds, 200)


@pytest.mark.parametrize("dim", [200, 8192, 9000, 20_000])
def test_clipping_a_user_does_not_depend_on_who_else_is_in_the_block(dim, rng):
    """numpy adds up 8,192 numbers at a time, across rows: the norms of wider ones differed from cut to cut."""
    rows = rng.integers(-(2**26), 2**26, size=(25, dim))
    radius = 0.9 * float(np.linalg.norm(rows[0].astype(np.float64)))
    exact = rows.astype(np.float64)
    whole = clip_rows(rows, radius)
    for size in (1, 2, 7):
        parts = [slice(at, at + size) for at in range(0, len(rows), size)]
        assert np.array_equal(whole, np.concatenate([clip_rows(rows[part], radius) for part in parts]))
        norms = np.concatenate([squared_norms(exact[part]) for part in parts])
        assert norms.tobytes() == squared_norms(exact).tobytes()
