"""Whatever a guide holds, every row that leaves has norm at most 1, or the guide is refused in one line."""

import tracemalloc
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import pricdr
from pricdr import Guarantee, Ratings, Release, publish
from pricdr.errors import InputError, ParameterError, PriCDRError
from pricdr.privacy.strategies.rounds import guide, matched
from pricdr.privacy.sums import GUIDE_STEPS, whole_guide
from pricdr.strategies import JLT, Guided, Spectral
from tests.attacks.integer_reference import Form, WholeSums
from tests.attacks.sensitivity import Neighbours

PROMISE = Guarantee(epsilon=4, delta=1e-6)
LISTED = tuple(f"u{at:02d}" for at in range(20))


def _longest(rows) -> float:
    """The longest row, squared, exactly: in whole numbers."""
    return max((sum(int(value) ** 2 for value in row) for row in rows.tolist()), default=0) / GUIDE_STEPS**2


class Sent(NamedTuple):
    """A guide as the other party may send it."""

    matrix: np.ndarray
    users: tuple[str, ...]
    sigma: float = 1.0


def _one_hot(rows, columns):
    out = np.zeros((rows, columns))
    out[0, 0] = 1e6
    return out


RNG = np.random.default_rng(0)
HARMLESS = {
    "one-hot": _one_hot(30, 4),
    "zero": np.zeros((30, 4)),
    "constant": np.full((30, 4), 7.5),
    "rank one": np.outer(np.arange(30.0), [1, -2, 3, 0]),
    "alternating": np.outer(np.where(np.arange(30) % 2, 1.0, -1.0), np.ones(4)),
    "huge": RNG.standard_normal((30, 4)) * 1e98,
    "tiny": RNG.standard_normal((30, 4)) * 1e-30,
    "mixed sizes": RNG.standard_normal((30, 4)) * 10.0 ** np.arange(-60, 60, 30),
    "one outlier": np.vstack([np.full((1, 4), 1e9), RNG.standard_normal((29, 4))]),
    "identity": np.eye(30)[:, :6],
    "one column": RNG.standard_normal((30, 1)),
    "more columns than users": RNG.standard_normal((30, 200)),
}


@settings(max_examples=100)
@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8),
        elements=st.one_of(
            st.floats(-1e100, 1e100, allow_nan=False), st.sampled_from([0.0, 1.0, -1.0, 1e100, -1e100, 1e-45, 1e-30])
        ),
    ),
    st.integers(1, 8),
    st.floats(0, 1e99),
    st.floats(1, 100),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_are_short_whatever_arrives(rows, dim, sigma, percentile):
    assert _longest(guide(rows, dim, sigma=sigma, percentile=percentile)) <= 1


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 40)), elements=st.floats(-1e100, 1e100)))
def test_whole_guides_are_short(rows):
    guide_rows = whole_guide(rows)
    assert _longest(guide_rows) <= 1
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.abs(guide_rows / GUIDE_STEPS - rows / np.maximum(norms, 1)).max(initial=0) < 1.001 / GUIDE_STEPS


def test_numbers_that_are_none_or_too_large_and_what_cannot_be_a_row_per_user_are_refused():
    for bad in (np.nan, np.inf, -np.inf, 1.5e100, -1.5e100):
        rows = np.random.default_rng(0).standard_normal((30, 4))
        rows[3, 2] = bad
        with pytest.raises(InputError, match=r"^[^\n]*finite numbers below 1e100[^\n]*$"):
            guide(rows, 4, sigma=1.0)
    with pytest.raises(InputError, match="one row per user"):
        matched(np.zeros((3, 2)), ("a", "b"), ("a", "b"))
    with pytest.raises(InputError, match="no row for any listed user"):
        guide(np.zeros((3, 2)), 2, sigma=1.0, present=np.zeros(3, dtype=bool))


def test_a_million_columns_are_refused_before_anything_large_is_allocated():
    hostile = Sent(np.broadcast_to(np.float32(1.0), (20, 1_000_000)), LISTED)  # takes no memory itself
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="columns"):
            Guided(guide=hostile, dim=4).resolved(Guarantee(epsilon=4, delta=1e-6), LISTED)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_missing_users_get_zeros_and_strangers_are_left_out(rng):
    rows = rng.standard_normal((4, 3))
    matched_rows, present = matched(rows, ("d", "a", "x", "b"), ("a", "b", "c"))
    assert present.tolist() == [True, True, False]
    assert np.array_equal(matched_rows, [rows[1], rows[3], [0, 0, 0]])
    whole = guide(matched_rows, 3, sigma=0.5, present=present)
    assert not whole[2].any()
    assert _longest(whole) <= 1
    alone = guide(rows[[1, 3]], 3, sigma=0.5)
    assert np.array_equal(whole[:2], alone)  # who is missing has no say in the centring


@pytest.mark.parametrize("name", HARMLESS)
def test_rows_are_short_and_neighbours_no_farther_apart_along_a_hostile_guide(name, rng):
    """The bound does not care what the guide is: ratings and values, with and without a prior."""
    for dim, sigma in product([1, 4, 8], [0.0, 1e-40, 1.0, 1e90]):
        guide_rows = guide(HARMLESS[name], dim, sigma=sigma)
        assert (guide_rows.shape, guide_rows.dtype) == ((30, dim), np.int64)
        assert _longest(guide_rows) <= 1
    along = guide(HARMLESS[name], 4, sigma=0.1) / GUIDE_STEPS
    for way in (WholeSums(), WholeSums(epsilon=0.01), WholeSums(form=Form.ROUND)):
        for _ in range(5):
            before = (rng.random((30, 6)) < 0.5).astype(np.float64)
            after = before.copy()
            after[rng.integers(30), rng.integers(6)] = 1
            pair = Neighbours(along, before, after, prior=float(rng.choice([0.0, 5.0])))
            assert way.ratio(pair) <= 1
            assert way.ratio(replace(pair, guide=100 * along)) <= 1  # clipped again, last of all


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_last_gate_lets_no_row_through_that_is_not_finite():
    """``guide`` refuses such rows, but centring comes here directly."""
    for bad in (np.nan, np.inf, 1e200):
        with pytest.raises(ParameterError, match="finite"):
            whole_guide(np.array([[bad, 1.0], [0.0, 0.5]]))


_CELLS = [(u, f"i{at}") for row, u in enumerate(LISTED) for at in range(8) if (row * 5 + at * 3) % 4]
RATINGS = Ratings.from_triples(*zip(*_CELLS, strict=True))
OTHER = publish(RATINGS, PROMISE, strategy=Spectral(dim=6), users=LISTED)


def _with_rows(rows, users=LISTED) -> Release:
    """The other party's release, its matrix (and users) replaced: a party can send whatever it likes."""
    rows = np.asarray(rows, dtype=np.float32)
    update = {"users": len(rows), "dim": rows.shape[1]}
    return Release(rows.copy(), users, OTHER.certificate.model_copy(update=update))


def _bad(value):
    rows = OTHER.matrix.copy()
    rows[3, 1] = value
    return _with_rows(rows)


REFUSED = {
    "nan": (lambda: _bad(np.nan), "finite"),
    "inf": (lambda: _bad(np.inf), "finite"),
    "zero": (lambda: _with_rows(np.zeros((20, 6))), "same for all users"),
    "constant": (lambda: _with_rows(np.full((20, 6), 3.0)), "same for all users"),
    "missing users": (lambda: _with_rows(OTHER.matrix[:15], LISTED[:15]), "lacks 5 of 20 listed users"),
    "other users": (lambda: _with_rows(OTHER.matrix, tuple(f"x{u}" for u in LISTED)), "lacks 20 of 20"),
    "duplicated users": (lambda: _with_rows(OTHER.matrix, (*LISTED[:19], LISTED[0])), "one row per user"),
    "too many columns": (lambda: _with_rows(np.ones((20, 5000))), "at most 4,096 columns"),
    "not a release": (
        lambda: SimpleNamespace(matrix=OTHER.matrix, users=LISTED, sigma=1.0),
        "must be a release of the other party",
    ),
    "not private": (
        lambda: publish(RATINGS, PROMISE, strategy=JLT(dim=6), users=LISTED, insecure_seed=1),
        "NOT PRIVATE",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_guide_that_cannot_serve_is_refused_in_one_line_and_costs_nothing(name, tmp_path):
    make, message = REFUSED[name]
    ledger = pricdr.Ledger.create(tmp_path / "ledger", PROMISE)
    with pytest.raises(InputError, match=message) as refusal:
        publish(RATINGS, PROMISE, strategy=Guided(guide=make(), dim=4), users=LISTED, ledger=ledger)
    assert "\n" not in str(refusal.value)
    assert ledger.read().spends == ()


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.filterwarnings("ignore:overflow")
def test_other_hostile_guides_are_harmless(name, refine):
    """They publish rows of the promised noise; the few that tell nothing apart, or overflow, are refused."""
    strategy = Guided(guide=_with_rows(HARMLESS[name][:20]), dim=4, refine=refine)
    if name in ("zero", "constant", "huge"):
        with pytest.raises(InputError):
            publish(RATINGS, PROMISE, strategy=strategy, users=LISTED)
        return
    release = publish(RATINGS, PROMISE, strategy=strategy, users=LISTED)
    assert release.certificate.private
    assert np.isfinite(release.matrix).all()
    assert np.abs(release.matrix).max() < 30 + 8 * max(step.sigma for step in release.certificate.steps)


def test_what_a_guide_lacks_can_be_allowed_and_is_disclosed():
    plain = publish(RATINGS, PROMISE, strategy=JLT(dim=6), users=LISTED, insecure_seed=1)
    release = publish(RATINGS, PROMISE, strategy=Guided(guide=plain, dim=4), users=LISTED, allow_not_private_guide=True)
    assert release.certificate.private
    assert release.certificate.guide.private is False
    strategy = Guided(guide=_with_rows(OTHER.matrix[:15], LISTED[:15]), dim=4, allow_missing=True)
    assert publish(RATINGS, PROMISE, strategy=strategy, users=LISTED).certificate.guide.missing_users == 5


@pytest.mark.parametrize("strategy", [Spectral(dim=256), Guided(guide=OTHER, dim=256)], ids=["spectral", "guided"])
def test_the_widest_release_is_published_and_a_wider_one_refused_before_the_spend(strategy, tmp_path):
    """Nothing fails once it is paid for, not even where a guide has fewer columns than the release."""
    for dim in (257, 4097):
        with pytest.raises(PriCDRError, match="at most 256 numbers per user"):
            strategy.with_dim(dim)
    ledger = pricdr.Ledger.create(tmp_path / "ledger", PROMISE)
    release = publish(RATINGS, PROMISE, strategy=strategy, users=LISTED, ledger=ledger)
    assert release.matrix.shape == (20, 256)
    assert len(ledger.read().spends) == 1
