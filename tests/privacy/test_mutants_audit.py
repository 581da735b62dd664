"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import pytest
from scipy.special import ndtri

from pricdr import Bounds, Guarantee, Unit
from pricdr.errors import ParameterError
from pricdr.privacy.accounting import epsilon_of
from pricdr.privacy.audit import Finding, Subject, audit_likelihood_ratio, audit_one_run, worst_case
from pricdr.privacy.steps import Declared, calibrate
from pricdr.strategies import JLT, LearnFrom, Spectral


def _subject(epsilon: float) -> Subject:
    return Subject.of(Guarantee(epsilon=epsilon, delta=1e-6), JLT(dim=4), Bounds())


def test_reaching_the_claim_does_not_refute_it():
    assert not Finding(1.0, 1.0, 0.95, 10).refutes


def test_both_error_rates_share_the_allowance_equally():
    """At μ = 20 no error is ever made, so the bound is known: 0 errors in 10 draws, 2.5 % for either rate."""
    found = audit_likelihood_ratio(_subject(epsilon_of(20.0, 1e-6)), draws=20, confidence=0.95)
    rate = 1 - 0.025 ** (1 / 10)
    assert found.lower_bound == pytest.approx(epsilon_of(-2 * float(ndtri(rate)), 1e-6))
    assert found.draws == 20


def test_an_audit_in_one_run_needs_a_canary():
    with pytest.raises(ParameterError, match="canaries"):
        audit_one_run(_subject(2.0), canaries=0)


def test_the_number_of_guesses_suits_the_claim():
    """At μ = 2 the boldest 7 % of 10,000 guesses reach ε above 4; guessing all of them could not reach 2."""
    assert audit_one_run(_subject(epsilon_of(2.0, 1e-6)), canaries=10_000).lower_bound > 3


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(rating_bound=5, rating_step=0.5)])
def test_every_step_has_a_pair_nearly_as_far_apart_as_it_pays_for(bounds):
    """Step by step: the furthest group of steps alone would hide a weak pair in the other."""
    strategy = Spectral(dim=4, learn_from=LearnFrom.ALL)
    declared = Declared(bounds=bounds, unit=Unit.RATING, users=1000, items=500)
    for one in calibrate(strategy.steps(declared), Guarantee(epsilon=2, delta=1e-6), bounds):
        assert 0.99 * one.mu < worst_case(one, strategy, declared).distance <= one.mu
