from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from scipy.linalg import hadamard

from pricdr.errors import ParameterError
from pricdr.privacy.mechanism import Secrets, on_grid
from pricdr.privacy.strategies.random_projections import sparse_normals, walsh_hadamard
from pricdr.privacy.sums import directions
from pricdr.progress import silent
from pricdr.randomness import Secret, Simulation
from pricdr.strategies import JLT, SJLT, Spectral

ITEMS = tuple(f"item {i}" for i in range(300))
STRATEGIES = [JLT(dim=64), SJLT(dim=64), SJLT(dim=64, density=0.01), JLT(dim=1), SJLT(dim=1), JLT(dim=7), SJLT(dim=500)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_rows_have_unit_norm_repeat_for_a_seed_and_never_for_a_secret(strategy):
    rows = strategy.item_rows(ITEMS, Secret(), silent)
    assert rows.shape == (len(ITEMS), strategy.dim)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    first, again = (strategy.item_rows(ITEMS, Simulation(4), silent) for _ in range(2))
    assert np.array_equal(first, again)
    if strategy.dim > 1:
        one, other = (strategy.item_rows(ITEMS, Secret(), silent) for _ in range(2))
        assert not np.array_equal(one, other)


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=40, unique=True), st.randoms())
def test_a_jlt_row_depends_on_its_item_alone(items, shuffler):
    strategy, simulation = JLT(dim=10), Simulation(1)
    whole = dict(zip(items, strategy.item_rows(tuple(items), simulation, silent), strict=True))
    some = shuffler.sample(items, k=max(1, len(items) // 2))
    for item, row in zip(some, strategy.item_rows(tuple(some), simulation, silent), strict=True):
        assert np.array_equal(row, whole[item])


@pytest.mark.parametrize("dim", [6, 8192, 9000, 20_001])
def test_a_wide_jlt_row_and_what_is_added_up_of_it_depend_on_their_item_alone(dim, any_seed):
    """numpy adds up 8,192 numbers at a time where a row is alone: an item in a block of its own had other last bits."""
    items, strategy = tuple(f"item {at}" for at in range(1100 if dim == 6 else 20)), JLT(dim=dim)  # or over blocks

    def computed(items):
        rows = strategy.item_rows(items, Simulation(any_seed), silent)
        return dict(zip(items, zip(rows, on_grid(rows, radius=1e5), strict=True), strict=True))

    whole = computed(items)
    for some in (items[1:], items[::2], *zip(items[-20:])):
        for item, (row, steps) in computed(some).items():
            assert row.tobytes() == whole[item][0].tobytes()
            assert np.array_equal(steps, whole[item][1])


@given(st.integers(1, 9), st.integers(1, 5))
def test_walsh_hadamard_is_scipys(log_n, rows):
    n = 2**log_n
    matrix = Simulation(rows).generator("x").standard_normal((rows, n)).astype(np.float32)
    expected = matrix @ hadamard(n) / np.sqrt(n)
    np.testing.assert_allclose(walsh_hadamard(matrix.copy()), expected, atol=1e-4)


def test_sjlt_rows_are_those_of_p_h_d():
    """Rebuild E from its definition, with the same bits: (P H D)ᵀ, rows normalised."""
    n, padded, dim, simulation = 50, 64, 12, Simulation(9)
    bits = [simulation.stream(f"sjlt {name}").read(0, dim * padded * 4) for name in ("entries", "support")]
    # blocks of 16 columns are drawn at once, so 12 columns are one block
    p = sparse_normals(bits[0], bits[1], padded, 0.3)
    d = np.diag(1 - 2 * (simulation.stream("sjlt signs").read(0, n) & 1).astype(float))
    e = (p @ (hadamard(padded) / np.sqrt(padded)))[:, :n] @ d
    expected = e.T / np.linalg.norm(e.T, axis=1, keepdims=True)
    rows = SJLT(dim=dim, density=0.3).item_rows(tuple(map(str, range(n))), simulation, silent)
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_p_has_the_stated_density_and_no_empty_row():
    n, rows = 2048, 200
    bits = [Simulation(2).stream(name).read(0, rows * n * 4) for name in ("a", "b")]
    for density in (0.001, 0.1, 0.5, 1.0):
        p = sparse_normals(bits[0], bits[1], n, density)
        slack = 5 * np.sqrt(density * (1 - density) / (rows * n)) + 1 / n * np.exp(-density * n)
        assert abs((p != 0).mean() - density) <= slack + 1e-9
        assert (p != 0).any(axis=1).all()


def test_a_seed_draws_the_same_rows_everywhere():
    """An experiment that is run again with its seed, on any machine, is the same experiment."""
    rows = JLT(dim=20).item_rows(("dune", "emma"), Simulation(1), silent)
    expected = [[-0.115647, 0.064992, -0.335968, 0.202063], [-0.186729, -0.009782, 0.127933, 0.110867]]
    np.testing.assert_allclose(rows[:, [0, 9, 10, 19]], expected, atol=1e-5)


def test_the_constants_that_a_certificate_states_stay_what_they_are():
    """A release names its constants; other defaults would be another method under the same name."""
    assert Spectral().parameters() == {"centring": 0.01, "item_prior": 5.0, "percentile": 50.0}


IMPOSSIBLE = {"centring": (-0.01, 1.0), "percentile": (0.0, 100.1), "item_prior": (-1.0, np.nan)}


def test_constants_that_would_divide_by_zero_or_void_the_theorem_are_refused():
    assert Spectral(percentile=100.0).percentile == 100  # a guide clipped at its longest row, and not beyond
    for name, values in IMPOSSIBLE.items():
        for value in values:
            with pytest.raises(ParameterError, match=name.removeprefix("item_")):
                Spectral(**{name: value})
    for kind, dim in product((JLT, SJLT), (0, -1, 2.5)):
        with pytest.raises(ParameterError, match="dim"):
            kind(dim=dim)
    for density in (0, -0.1, 1.1, np.nan):
        with pytest.raises(ParameterError, match="density"):
            SJLT(density=density)


def test_a_direction_does_not_depend_on_the_unit_that_ratings_are_counted_in():
    """Without a prior all three sums under the root are squares of ratings: one rater gives 1/√2, in any unit."""
    matrix = sp.csr_array(np.array([[2, 3], [0, 1]], dtype=np.int64))
    along = np.array([[1 << 14, 0], [0, 1 << 14]])
    for value in (1 / 256, 0.5, 1.0, 5.0):
        found = directions(matrix, along, value=value, prior=0.0, secrets=Secrets())
        np.testing.assert_allclose(found, [[0.5**0.5, 0], [3 / 20**0.5, 1 / 20**0.5]])
