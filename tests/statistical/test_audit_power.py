"""The audit stays below the claim, comes close to it, and notices noise of 0.8 times the scale."""

from dataclasses import replace
from itertools import product

import pytest

from pricdr import Bounds, Guarantee, Unit
from pricdr.data.periods import Window
from pricdr.privacy.audit import Subject, audit_likelihood_ratio, audit_one_run
from pricdr.strategies import JLT, SJLT, Guided, Spectral
from tests.attacks.learnt import with_noise

pytestmark = pytest.mark.statistical

SURE = 1 - 1e-6
"""A correct mechanism exceeds its claim once in a million audits."""
TINY = 1e-13
"""The one-run audit pays 2mδ for m canaries: so sure a bound needs a small δ."""
PLAIN = [
    (JLT(dim=8), Unit.RATING, Bounds()),
    (SJLT(dim=8), Unit.RATING, Bounds(rating_bound=5)),
    (JLT(dim=8), Unit.USER, Bounds(clip=3.0)),
]
LEARNT = [
    (Spectral(dim=8), Unit.RATING, Bounds()),
    (Guided(dim=8), Unit.RATING, Bounds(rating_bound=5)),
    (Guided(dim=8, refine=False), Unit.USER, Bounds(clip=3.0)),
    (Spectral(dim=8), Unit.USER_PERIOD, Bounds(clip=3.0)),
]


def _draws(case, epsilon):
    """As many as the bound needs: μ is small at ε = 0.5. In learnt releases hundreds of numbers move at once."""
    return 200_000 if case in LEARNT else 3_000_000 if epsilon < 1 else 600_000


def _subject(case, epsilon, delta=1e-6, *, noise_scale=1.0):
    strategy, unit, bounds = case
    window = Window.of_periods("7d") if unit is Unit.USER_PERIOD else None
    subject = Subject.of(Guarantee(epsilon=epsilon, delta=delta, unit=unit, window=window), strategy, bounds)
    return replace(subject, calibrated=tuple(with_noise(one, noise_scale) for one in subject.calibrated))


@pytest.mark.parametrize(
    ("case", "epsilon"), [*product(PLAIN, (0.5, 4.0, 16.0)), *product(LEARNT, (1.0, 16.0))], ids=str
)
def test_the_bound_is_below_the_claim_and_close_to_it(case, epsilon):
    finding = audit_likelihood_ratio(_subject(case, epsilon), draws=_draws(case, epsilon), confidence=SURE)
    assert (0.85 if case in PLAIN else 0.7) * epsilon <= finding.lower_bound <= epsilon


@pytest.mark.parametrize(("case", "epsilon"), [*product(PLAIN, (0.5, 4.0, 16.0)), *product(LEARNT, (4.0,))], ids=str)
def test_noise_of_four_fifths_is_found_out(case, epsilon):
    subject = _subject(case, epsilon, noise_scale=0.8)
    assert audit_likelihood_ratio(subject, draws=_draws(case, epsilon), confidence=SURE).refutes


@pytest.mark.parametrize(("case", "epsilon"), [(PLAIN[0], 1.0), *product(PLAIN, (4.0,))], ids=str)
def test_one_run_stays_below_the_claim_and_finds_something(case, epsilon):
    finding = audit_one_run(_subject(case, epsilon, TINY), canaries=100_000, confidence=SURE)
    assert 0.1 * epsilon <= finding.lower_bound <= epsilon


def test_one_run_finds_out_a_mechanism_with_a_quarter_of_the_noise():
    subject = _subject(PLAIN[0], 1.0, TINY, noise_scale=0.25)
    assert audit_one_run(subject, canaries=100_000, confidence=SURE).refutes
