"""Strategies that learn: the item model is that of its definition, and its constants are what certificates say."""

import numpy as np
import pytest
import scipy.sparse as sp

from pricdr.data.blocks import InMemory
from pricdr.errors import ParameterError
from pricdr.privacy.accounting import Guarantee, Unit
from pricdr.privacy.mechanism import Entries, Run, Secrets
from pricdr.privacy.steps import Bounds, Declared, calibrate
from pricdr.privacy.strategies.jlt import unit_gaussian_rows
from pricdr.privacy.strategies.spectral import into_buckets
from pricdr.privacy.sums import directions, noisy_sums, whole_guide
from pricdr.progress import silent
from pricdr.randomness import Simulation
from pricdr.strategies import JLT, LearnFrom, Spectral

USERS, ITEMS = 60, 40


def _item_rows(noisy: np.ndarray, variance: float, *, last: bool) -> np.ndarray:
    """What docs/mathematics.md, section 8, makes of noisy sums: centred, whitened, shortened (Wiener), at norm 1."""
    counts, sums = np.maximum(noisy[:, -1] / 0.3, 0), noisy[:, :-1]
    sums = sums - counts[:, None] * (sums.sum(axis=0) / counts.sum())
    values, vectors = np.linalg.eigh(sums.T @ sums - ITEMS * variance * np.eye(16))
    scale = np.maximum(values, 0.02 * values.max()) ** -0.5
    white = sums @ vectors * scale
    squares = (white**2).sum(axis=1, keepdims=True)
    shorter = np.sqrt(np.maximum(0, 1 - variance * (scale**2).sum() / squares))
    return white / np.sqrt(squares) * (1 if last else shorter)


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_an_item_model_is_that_of_its_definition(epsilon):
    bounds, strategy = Bounds(), Spectral(dim=4, learn_from=LearnFrom.ALL)
    declared = Declared(bounds=bounds, unit=Unit.RATING, users=USERS, items=ITEMS)
    calibrated = calibrate(strategy.steps(declared), Guarantee(epsilon=epsilon, delta=1e-6), bounds)
    matrix = sp.csr_array((np.random.default_rng(0).random((USERS, ITEMS)) < 0.3).astype(np.int64))
    entries = Entries(InMemory(matrix), (), (), bounds, universe_declared=True, unlisted=InMemory(matrix))
    found = strategy.start(entries, Run(calibrated, Simulation(5)), Secrets())

    again = Run(calibrated, Simulation(5))
    rows = unit_gaussian_rows(Simulation(5).stream("first item rows"), ITEMS, 16).astype(np.float64)
    for number in (1, 2):
        name = f"item sums {number}"
        users = directions(matrix.T, whole_guide(rows), value=1.0, prior=4.0, secrets=Secrets())
        noisy = noisy_sums(
            matrix.T,
            np.column_stack([users, np.full(USERS, 0.3)]),
            step=again.step(name),
            grid=again.grid(name),
            value=1.0,
            noise=again.noise(name),
            secrets=Secrets(),
        )
        rows = _item_rows(noisy, again.grid(name).sigma ** 2, last=number == 2)
    np.testing.assert_allclose(found @ found.T, rows @ rows.T, atol=1e-3)  # whichever way the axes point


def test_a_seed_hashes_items_into_the_same_buckets_everywhere():
    """An experiment that is run again with its seed, on any machine, is the same experiment."""
    items = ("dune", "emma", "ulysses", "0042")
    entries = InMemory(sp.csr_array(np.ones((1, 4), dtype=np.int64)))
    _, places = into_buckets(entries, items, 1 << 16, Simulation(1).stream("buckets"), cap=16)
    assert places.tolist() == [26277, 57761, 33940, 53551]


def test_a_seed_draws_the_same_rows_everywhere():
    rows = JLT(dim=20).item_rows(("dune", "emma"), Simulation(1), silent)
    expected = [[-0.115647, 0.064992, -0.335968, 0.202063], [-0.186729, -0.009782, 0.127933, 0.110867]]
    np.testing.assert_allclose(rows[:, [0, 9, 10, 19]], expected, atol=1e-5)


def test_the_constants_that_a_certificate_states_stay_what_they_are():
    """A release names its constants; other defaults would be another method under the same name."""
    everybody = {"buckets": 65536.0, "item_rounds": 2.0, "count_weight": 0.3, "user_prior": 4.0, "floor": 0.02}
    listed = {"centring": 0.01, "item_prior": 5.0, "percentile": 50.0}
    assert Spectral().parameters() == listed
    assert Spectral(learn_from="all").parameters() == {"learn_from_all": 1.0, **listed, **everybody}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"user_prior": value} for value in (-5.9, float("nan"))),
        *({"item_rounds": value} for value in (0, 9)),
        *({"floor": value} for value in (0.0, 1e-310, 1.0)),
        *({"centring": value} for value in (-0.01, 1.0)),
        *({"percentile": value} for value in (0.0, 100.1)),
        {"count_weight": 0.0},
        {"item_prior": -1.0},
        {"learn_from": "nobody"},
    ],
    ids=str,
)
def test_constants_that_would_divide_by_zero_or_void_the_theorem_are_refused(wrong):
    assert Spectral(percentile=100.0).percentile == 100  # a guide clipped at its longest row, and not beyond
    with pytest.raises(ParameterError, match=next(iter(wrong)).removeprefix("item_")):
        Spectral(**{"dim": 4, "learn_from": "all", **wrong})


@pytest.mark.parametrize("value", [1 / 256, 0.5, 1.0, 5.0])
def test_a_direction_does_not_depend_on_the_unit_that_ratings_are_counted_in(value):
    """Without a prior all three sums under the root are squares of ratings: one rater gives 1/√2, in any unit."""
    matrix = sp.csr_array(np.array([[2, 3], [0, 1]], dtype=np.int64))
    along = np.array([[1 << 14, 0], [0, 1 << 14]])
    found = directions(matrix, along, value=value, prior=0.0, secrets=Secrets())
    np.testing.assert_allclose(found, [[0.5**0.5, 0], [3 / 20**0.5, 1 / 20**0.5]])
