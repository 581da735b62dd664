"""``guided`` through ``publish``: hostile guides are refused in one line or harmless, and cost the source nothing."""

from types import SimpleNamespace

import numpy as np
import pytest

import pricdr
from pricdr import Guarantee, Ratings, Release, publish
from pricdr.errors import InputError, PriCDRError
from pricdr.strategies import JLT, Guided, Spectral

PROMISE = Guarantee(epsilon=4, delta=1e-6)
USERS = tuple(f"u{at:02d}" for at in range(20))
_CELLS = [(u, f"i{at}") for row, u in enumerate(USERS) for at in range(8) if (row * 5 + at * 3) % 4]
RATINGS = Ratings.from_triples(*zip(*_CELLS, strict=True))
OTHER = publish(RATINGS, PROMISE, strategy=Spectral(dim=6), users=USERS)


def _with_rows(rows, users=USERS) -> Release:
    """The other party's release, its matrix (and users) replaced: a party can send whatever it likes."""
    rows = np.asarray(rows, dtype=np.float32)
    update = {"users": len(rows), "dim": rows.shape[1]}
    return Release(rows.copy(), users, OTHER.certificate.model_copy(update=update))


def _bad(value):
    rows = OTHER.matrix.copy()
    rows[3, 1] = value
    return _with_rows(rows)


def _outlier():
    rows = np.zeros((20, 6))
    rows[0, 0] = 1e30
    return rows


REFUSED = {
    "nan": (lambda: _bad(np.nan), "finite"),
    "inf": (lambda: _bad(np.inf), "finite"),
    "zero": (lambda: _with_rows(np.zeros((20, 6))), "same for all users"),
    "constant": (lambda: _with_rows(np.full((20, 6), 3.0)), "same for all users"),
    "missing users": (lambda: _with_rows(OTHER.matrix[:15], USERS[:15]), "lacks 5 of 20 listed users"),
    "other users": (lambda: _with_rows(OTHER.matrix, tuple(f"x{u}" for u in USERS)), "lacks 20 of 20"),
    "duplicated users": (lambda: _with_rows(OTHER.matrix, (*USERS[:19], USERS[0])), "one row per user"),
    "too many columns": (lambda: _with_rows(np.ones((20, 5000))), "at most 4,096 columns"),
    "not a release": (
        lambda: SimpleNamespace(matrix=OTHER.matrix, users=USERS, sigma=1.0),
        "must be a release of the other party",
    ),
    "not private": (
        lambda: publish(RATINGS, PROMISE, strategy=JLT(dim=6), users=USERS, insecure_seed=1),
        "NOT PRIVATE",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_guide_that_cannot_serve_is_refused_in_one_line_and_costs_nothing(name, tmp_path):
    make, message = REFUSED[name]
    ledger = pricdr.Ledger.create(tmp_path / "ledger", PROMISE)
    with pytest.raises(InputError, match=message) as refusal:
        publish(RATINGS, PROMISE, strategy=Guided(guide=make(), dim=4), users=USERS, ledger=ledger)
    assert "\n" not in str(refusal.value)
    assert ledger.read().spends == ()


@pytest.mark.parametrize(
    "rows",
    [
        _outlier(),
        np.eye(20)[:, :6],
        np.outer(np.arange(20), np.ones(6)),
        np.random.default_rng(0).standard_normal((20, 6)) * 1e30,
        np.random.default_rng(0).standard_normal((20, 6)) * 1e-30,
        np.random.default_rng(0).standard_normal((20, 512)),
    ],
    ids=["outlier", "one-hot", "rank one", "huge", "tiny", "many columns"],
)
@pytest.mark.parametrize("refine", [False, True])
def test_other_hostile_guides_are_harmless(rows, refine):
    """They publish rows of the promised noise, or are refused: never a traceback of another kind."""
    try:
        strategy = Guided(guide=_with_rows(rows), dim=4, refine=refine)
        release = publish(RATINGS, PROMISE, strategy=strategy, users=USERS)
    except PriCDRError:
        return
    assert release.certificate.private
    assert np.isfinite(release.matrix).all()
    assert np.abs(release.matrix).max() < 30 + 8 * max(step.sigma for step in release.certificate.steps)


def test_a_guide_that_is_not_private_can_be_allowed_and_is_disclosed():
    plain = publish(RATINGS, PROMISE, strategy=JLT(dim=6), users=USERS, insecure_seed=1)
    release = publish(RATINGS, PROMISE, strategy=Guided(guide=plain, dim=4), users=USERS, allow_not_private_guide=True)
    assert release.certificate.private
    assert release.certificate.guide.private is False


def test_missing_users_can_be_filled_in_and_are_counted():
    strategy = Guided(guide=_with_rows(OTHER.matrix[:15], USERS[:15]), dim=4, allow_missing=True)
    assert publish(RATINGS, PROMISE, strategy=strategy, users=USERS).certificate.guide.missing_users == 5


@pytest.mark.parametrize("strategy", [Spectral, Guided])
def test_a_dimension_that_cannot_be_learnt_is_refused_before_the_spend(strategy):
    with pytest.raises(PriCDRError, match="at most 256 numbers per user"):
        strategy(dim=257)
    with pytest.raises(PriCDRError, match="at most 256 numbers per user"):
        strategy().with_dim(4097)


@pytest.mark.parametrize("strategy", [Spectral(dim=256), Guided(guide=OTHER, dim=256)], ids=["spectral", "guided"])
def test_the_widest_release_is_published(strategy, tmp_path):
    """Nothing fails once it is paid for, not even where a guide has fewer columns than the release."""
    ledger = pricdr.Ledger.create(tmp_path / "ledger", PROMISE)
    release = publish(RATINGS, PROMISE, strategy=strategy, users=USERS, ledger=ledger)
    assert release.matrix.shape == (20, 256)
    assert len(ledger.read().spends) == 1
