"""Every attack breaks the flawed variant that it was written for, and stays within the bound on ours."""

import math

import pytest

from pricdr.privacy.accounting import LATTICE_FACTOR, mu_of
from pricdr.privacy.steps import total_mu
from tests.attacks.evidence import guess_bound, refutation_power
from tests.attacks.learnt import FLAWS
from tests.attacks.sensitivity import distance_ratio
from tests.attacks.table import FAR, FLAWED, MU, OURS, ROUNDS, SHOWN, TARGETS, TRIALS


@pytest.mark.statistical
@pytest.mark.parametrize("case", FLAWED, ids=str)
def test_the_attack_breaks_its_flawed_variant(case, rng, record_property):
    tally = case.run(rng=rng)
    record_property("tally", str(tally))
    assert tally.refutes(case.claimed), tally
    assert tally.success >= case.surely, tally
    assert not tally.refutes(case.within), tally


@pytest.mark.statistical
@pytest.mark.parametrize("case", [case for case in OURS if not case.target.startswith(SHOWN)], ids=str)  # test_learnt
def test_ours_stays_within_the_guarantee_and_has_no_more_noise_than_it_needs(case, rng, record_property):
    tallies = case.run(rng=rng)
    record_property("tallies", str(tallies))
    assert tallies.keys() <= {one.attack for one in FLAWED}
    for attack, tally in tallies.items():
        assert not tally.refutes(case.mu), (attack, tally)
        if case.reached:  # where neighbours are as far apart as claimed, the best attack comes that close to the bound
            assert tally.success > guess_bound(case.reached * case.mu) - 6 * math.sqrt(0.25 / tally.trials), attack


def test_what_is_attacked_is_held_to_what_is_certified():
    for mu, epsilon in ((MU, 4), *((target.mu, 4) for target in TARGETS), *((one.mu, 8) for one in ROUNDS.values())):
        assert mu == pytest.approx(mu_of(epsilon, 1e-6), rel=1e-6)
    target = TARGETS[0]
    assert target.mu / total_mu(target.way.calibrated(target.pair)) == pytest.approx(LATTICE_FACTOR, rel=1e-12)


def test_the_power_to_catch_too_little_noise_is_computed():
    """Where neighbours are as far apart as is checked, too little noise is caught all but surely, and enough is not."""
    assert refutation_power(TRIALS, claimed=MU, true=0.93 * MU / 0.7) > 1 - 1e-5
    assert refutation_power(TRIALS, claimed=MU, true=MU) < 1e-6
    for name in FAR:
        assert refutation_power(250, claimed=ROUNDS[name].mu, true=0.94 * ROUNDS[name].mu / 0.4) > 1 - 1e-4


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_a_flaw_of_learnt_rows_puts_neighbours_farther_apart_than_claimed(flaw):
    assert distance_ratio(flaw.formula, flaw.pair) > 3
