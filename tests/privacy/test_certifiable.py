"""Whatever is calibrated can be certified: nothing may fail once it was paid for."""

import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pricdr import Bounds, Guarantee, Ledger, Ratings, Unit, publish
from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.steps import Declared, calibrate
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


@settings(max_examples=300)
@given(st.sampled_from(KINDS), st.sampled_from(LIMITS), st.floats(0.3, 40), st.integers(2, 3_000_000), st.booleans())
@example(Spectral(learn_from="all", dim=4), (Unit.USER, Bounds(clip=10)), 2.0, 2, False)  # once charged, and failed
def test_what_is_settled_is_certified_and_checks(strategy, limits, epsilon, users, listed_items):
    unit, bounds = limits
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=unit)
    declared = Declared(bounds=bounds, unit=unit, users=users, items=20_000 if listed_items else None)
    try:
        calibrated = calibrate(strategy.steps(declared), guarantee, bounds)
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
    certificate = issue(draft, calibrated)
    check(certificate)


def test_what_cannot_be_certified_is_not_charged(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))

    def refuse(_draft, _calibrated):
        raise VerificationError("no")

    monkeypatch.setattr(sys.modules["pricdr._publish"], "issue", refuse)
    with pytest.raises(VerificationError):
        publish(Ratings.from_triples(["a", "b"], ["x", "x"]), Guarantee(epsilon=4, delta=1e-6), ledger=ledger)
    assert not ledger.read().spends
