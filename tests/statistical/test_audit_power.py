"""The audit stays below the claim, comes close to it, and notices noise of 0.8 times the scale."""

import pytest

from pricdr import Bounds, Guarantee, Unit
from pricdr.privacy.audit import Subject, audit_likelihood_ratio, audit_one_run
from pricdr.strategies import JLT, SJLT, Guided, Spectral

pytestmark = pytest.mark.statistical

SURE = 1 - 1e-6
"""A correct mechanism exceeds its claim once in a million audits."""
TINY = 1e-13
"""The one-run audit pays 2mδ for m canaries: so sure a bound needs a small δ."""
CASES = [
    (JLT(dim=32), Unit.RATING, Bounds()),
    (SJLT(dim=32), Unit.RATING, Bounds(rating_bound=5)),
    (JLT(dim=32), Unit.USER, Bounds(clip=3.0)),
]
LEARNT = [
    (Spectral(dim=8), Unit.RATING, Bounds()),
    (Guided(dim=8), Unit.RATING, Bounds(rating_bound=5)),
    (Guided(dim=8, refine=True), Unit.USER, Bounds(clip=3.0)),
]
"""Hundreds of numbers move at once, so there are fewer draws."""


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_bound_is_below_the_claim_and_close_to_it(case, epsilon):
    strategy, unit, bounds = case
    subject = Subject.of(Guarantee(epsilon=epsilon, delta=1e-6, unit=unit), strategy, bounds)
    finding = audit_likelihood_ratio(subject, draws=3_000_000, confidence=SURE)
    assert 0.85 * epsilon <= finding.lower_bound <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 16.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_noise_of_four_fifths_is_found_out(case, epsilon):
    strategy, unit, bounds = case
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6, unit=unit)
    subject = Subject.of(guarantee, strategy, bounds, noise_scale=0.8)
    assert audit_likelihood_ratio(subject, draws=3_000_000, confidence=SURE).refutes


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_run_stays_below_the_claim_and_finds_something(case, epsilon):
    strategy, unit, bounds = case
    subject = Subject.of(Guarantee(epsilon=epsilon, delta=TINY, unit=unit), strategy, bounds)
    finding = audit_one_run(subject, canaries=100_000, confidence=SURE)
    assert 0.1 * epsilon <= finding.lower_bound <= epsilon


def test_one_run_finds_out_a_mechanism_with_a_quarter_of_the_noise():
    subject = Subject.of(Guarantee(epsilon=1, delta=TINY), JLT(dim=32), Bounds(), noise_scale=0.25)
    assert audit_one_run(subject, canaries=100_000, confidence=SURE).refutes


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 16.0])
@pytest.mark.parametrize("case", LEARNT, ids=lambda case: case[0].name)
def test_all_steps_together_stay_below_the_claim_and_come_close(case, epsilon):
    strategy, unit, bounds = case
    subject = Subject.of(Guarantee(epsilon=epsilon, delta=1e-6, unit=unit), strategy, bounds)
    finding = audit_likelihood_ratio(subject, draws=200_000, confidence=SURE)
    assert 0.7 * epsilon <= finding.lower_bound <= epsilon


@pytest.mark.parametrize("case", LEARNT, ids=lambda case: case[0].name)
def test_four_fifths_of_the_noise_in_every_step_is_found_out(case):
    strategy, unit, bounds = case
    guarantee = Guarantee(epsilon=4, delta=1e-6, unit=unit)
    subject = Subject.of(guarantee, strategy, bounds, noise_scale=0.8)
    assert audit_likelihood_ratio(subject, draws=200_000, confidence=SURE).refutes
