"""Whatever is settled can be certified: nothing may fail once it was paid for."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricdr import Bounds, Guarantee, Ledger, Ratings, Unit, publish, verify
from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.steps import Declared, calibrate
from pricdr.privacy.strategies.spectral import ItemModel
from pricdr.release.certificate import Certificate, GuideStatement, InputStatement, NoiseStatement, StrategyStatement
from pricdr.release.certify import bounds_statement, check, issue
from pricdr.strategies import Guided, Spectral

KINDS = [
    Spectral(dim=8),
    Spectral(dim=4),
    Guided(dim=8),
    Guided(dim=5, refine=False),
    Spectral(dim=8, learn_from="all"),
]
LIMITS = [
    (Unit.RATING, Bounds()),
    (Unit.RATING, Bounds(rating_bound=5, rating_step=0.5)),
    (Unit.RATING, Bounds(rating_bound=5, rating_step=0.0005)),
    (Unit.USER, Bounds(clip=10)),
    (Unit.USER, Bounds(rating_bound=5, rating_step=0.0005, clip=20)),
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(KINDS), st.sampled_from(LIMITS), st.floats(0.3, 40), st.integers(2, 3_000_000), st.booleans())
def test_what_is_settled_is_certified_and_checks(strategy, limits, epsilon, users, listed_items):
    unit, bounds = limits
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=unit)
    declared = Declared(bounds=bounds, unit=unit, users=users, items=20_000 if listed_items else None)
    try:
        settled = calibrate(strategy.steps(declared), guarantee, bounds)
    except ParameterError:
        return  # refused beforehand, which costs nothing
    hashed = strategy.name == "spectral" and strategy.parameters().get("learn_from_all")
    universe = "declared" if listed_items else "hashed into buckets" if hashed else "not needed"
    guide = None
    if strategy.name == "guided":
        guide = GuideStatement(
            sha256="0" * 64, strategy="jlt", private=True, epsilon=1.0, delta=1e-6, unit="rating", missing_users=0
        )
    draft = Certificate.model_construct(
        epsilon=epsilon,
        delta=1e-6,
        unit=unit.value,
        calibration="exact",
        bounds=bounds_statement(bounds),
        noise=NoiseStatement.model_construct(source="secret"),
        users=declared.users,
        items=declared.items,
        strategy=StrategyStatement(name=strategy.name, parameters=strategy.parameters()),
        dim=strategy.dim,
        input=InputStatement(
            threshold=None, user_list="declared", item_universe=universe, filtered_by=None, alignment=None
        ),
        guide=guide,
        ledger=None,
        software="pricdr 0.3.0",
        issuer=None,
        issued=None,
    )
    certificate = issue(draft, settled)
    check(certificate)


def test_the_case_that_once_was_charged_and_failed(tmp_path):
    ratings = Ratings.from_triples(["a", "b", "c", "c"], ["x", "x", "x", "y"])
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=2, delta=1e-6, unit=Unit.USER))
    guarantee = Guarantee(epsilon=2, delta=1e-6, unit=Unit.USER)
    strategy, bounds = Spectral(learn_from="all"), Bounds(clip=10)
    release = publish(ratings, guarantee, strategy=strategy, users=["a", "b"], bounds=bounds, ledger=ledger)
    assert verify(release.save(tmp_path / "release")).certificate.epsilon == 2


def test_what_cannot_be_certified_is_not_charged(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))

    def refuse(_draft, _settled):
        raise VerificationError("no")

    monkeypatch.setattr(sys.modules["pricdr._publish"], "issue", refuse)
    with pytest.raises(VerificationError):
        publish(Ratings.from_triples(["a", "b"], ["x", "x"]), Guarantee(epsilon=4, delta=1e-6), ledger=ledger)
    assert not ledger.read().spends


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_prior": -5.9},
        {"user_prior": float("nan")},
        {"count_weight": 0.0},
        {"item_rounds": 0},
        {"item_rounds": 2000},
        {"floor": 0.0},
        {"item_prior": -1.0},
        {"centring": 1.0},
        {"percentile": 0.0},
        {"learn_from": "nobody"},
    ],
    ids=str,
)
def test_constants_that_would_void_the_theorem_are_refused(wrong):
    with pytest.raises(ParameterError):
        Spectral(**{"dim": 4, "learn_from": "all", **wrong})


def test_the_item_model_checks_its_own_constants():
    good = {"dim": 4, "rounds": 2, "count_weight": 0.3, "user_prior": 4.0, "floor": 0.02}
    ItemModel(**good)
    for wrong in ({"user_prior": -1.0}, {"count_weight": 0.0}, {"rounds": 9}, {"floor": 1.0}):
        with pytest.raises(ParameterError):
            ItemModel(**{**good, **wrong})
