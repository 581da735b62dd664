import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from pricdr import Bounds, Guarantee, Ratings, Release, Unit, publish, verify
from pricdr.cli import run
from pricdr.errors import ParameterError
from pricdr.privacy.accounting import epsilon_of
from pricdr.privacy.audit import (
    Finding,
    Subject,
    audit_likelihood_ratio,
    audit_one_run,
    distance,
    guesses_for,
    largest_rate,
    one_run_bound,
    one_run_p_value,
    worst_case,
    worst_pair,
)
from pricdr.privacy.steps import Declared, calibrate
from pricdr.release.certify import calibrated_by, issue
from pricdr.strategies import JLT, SJLT, Features, Guided, Spectral

PROMISE = Guarantee(epsilon=2, delta=1e-6)
LEARNT = Spectral(dim=4)
STRATEGIES = (
    *(JLT(dim=20), SJLT(dim=20), Features(dim=4), Spectral(dim=8), Guided(dim=8), Guided(dim=8, refine=False)),
)


@pytest.mark.parametrize(("errors", "trials"), [(0, 50), (3, 50), (25, 50), (50, 50)])
def test_the_largest_rate_is_clopper_and_pearsons(errors, trials):
    expected = stats.binomtest(errors, trials).proportion_ci(0.9, "exact").high
    assert largest_rate(errors, trials, 0.05) == pytest.approx(expected)


def test_the_one_run_p_value_is_the_published_one():
    """The authors' loop, written out: β + 2mδ max_i Σ_{j<=i} P(v − j)/i."""
    for canaries, guesses, correct, epsilon, delta in [
        (1000, 100, 80, 1.0, 1e-5),
        (50, 50, 50, 0.5, 1e-3),
        (9, 5, 0, 1, 0.1),
    ]:
        q = 1 / (1 + np.exp(-epsilon))
        beta = stats.binom.sf(correct - 1, guesses, q)
        alpha = total = 0.0
        for i in range(1, correct + 1):
            total += stats.binom.pmf(correct - i, guesses, q)
            alpha = max(alpha, total / i)
        expected = min(1.0, beta + alpha * delta * 2 * canaries)
        assert one_run_p_value(canaries, guesses, correct, epsilon, delta) == pytest.approx(expected)


def test_the_one_run_bound_is_where_the_p_value_crosses():
    bound = one_run_bound(1000, 100, 95, 1e-6, 0.95)
    assert one_run_p_value(1000, 100, 95, bound * 0.999, 1e-6) <= 0.05
    assert one_run_p_value(1000, 100, 95, bound * 1.001, 1e-6) > 0.05
    assert one_run_bound(1000, 100, 50, 1e-6, 0.95) == 0


@pytest.mark.parametrize(
    ("unit", "bounds"),
    [(Unit.RATING, Bounds()), (Unit.RATING, Bounds(rating_bound=5)), (Unit.USER, Bounds(clip=3.5))],
)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: f"{strategy.name}-{strategy.dim}")
def test_the_pair_is_as_far_apart_as_the_unit_allows(unit, bounds, strategy):
    subject = Subject.of(Guarantee(epsilon=2, delta=1e-6, unit=unit), strategy, bounds)
    assert 0.98 * subject.claimed_mu < distance(worst_pair(subject)) <= subject.claimed_mu


def test_impossible_audits_are_refused():
    subject = Subject.of(PROMISE, JLT(dim=4), Bounds())
    for audit, wrong in (
        (audit_likelihood_ratio, {"draws": 0}),
        (audit_likelihood_ratio, {"confidence": 1.0}),
        (audit_one_run, {"canaries": 0}),
        (audit_one_run, {"confidence": 0}),
    ):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            audit(subject, **wrong)
    with pytest.raises(ParameterError, match="needs a dimension"):
        Subject.of(PROMISE, Spectral(), Bounds())
    with pytest.raises(ParameterError, match="nothing to audit"):  # rounding hides every change in pure noise
        audit_likelihood_ratio(Subject.of(Guarantee(epsilon=1e-9, delta=1e-9), Features(dim=2), Bounds()), draws=10)


def test_reaching_the_claim_does_not_refute_it():
    assert [Finding(1.0, bound, 0.95, 10).refutes for bound in (0.9, 1.0, 1.1)] == [False, False, True]
    assert Finding(2.0, 1.0, 0.95, 10).share == 0.5


def _subject_with(mu):
    return Subject.of(Guarantee(epsilon=epsilon_of(mu, 1e-6), delta=1e-6), JLT(dim=4), Bounds())


def test_both_error_rates_share_the_allowance_equally():
    """At μ = 20 no error is ever made, so the bound is known: 0 errors in 10 draws, 2.5 % for either rate."""
    found = audit_likelihood_ratio(_subject_with(20.0), draws=20, confidence=0.95)
    rate = 1 - 0.025 ** (1 / 10)
    assert found.lower_bound == pytest.approx(epsilon_of(-2 * float(ndtri(rate)), 1e-6))
    assert found.draws == 20


def test_the_number_of_guesses_suits_the_claim():
    """At μ = 2 the boldest 7 % of 10,000 guesses reach ε above 4; guessing all of them could not reach 2."""
    assert audit_one_run(_subject_with(2.0), canaries=10_000).lower_bound > 3
    assert 10 <= guesses_for(0.5, 10_000, 1e-6, 0.95) <= 10_000

    for canaries in (1, 5):  # a handful shows little and is no error
        assert 1 <= guesses_for(2.0, canaries, 1e-6, 0.95) <= canaries
        assert 0 <= audit_one_run(_subject_with(2.0), canaries=canaries).lower_bound < 2


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(rating_bound=5, rating_step=0.5)])
def test_every_step_has_a_pair_nearly_as_far_apart_as_it_pays_for(bounds):
    """Step by step: all of them together could hide one weak pair."""
    declared = Declared(bounds=bounds, unit=Unit.RATING, users=1000)
    for one in calibrate(LEARNT.steps(declared), PROMISE, bounds):
        assert 0.99 * one.mu < distance([worst_case(one, LEARNT, declared)]) <= one.mu


@pytest.fixture
def folder(tmp_path):
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    return publish(ratings, PROMISE, strategy=SJLT(dim=8, density=0.3), users=["a", "b"]).save(tmp_path / "release")


def test_a_forged_release_that_claims_no_epsilon_is_refused_in_one_line(folder, tmp_path, capsys):
    """At so large a delta it is no lie, so the release verifies; but nothing can be divided by such a claim."""
    release = verify(folder)
    draft = release.certificate.model_copy(update={"epsilon": 0.0, "delta": 0.9})
    forged = Release(release.matrix, release.users, issue(draft, calibrated_by(draft))).save(tmp_path / "forged")
    assert verify(forged).certificate.epsilon == 0
    assert run(["audit", str(forged), "--draws", "100", "--canaries", "20"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: claimed_epsilon must be")


def test_the_command_audits_a_folders_parameters(folder, tmp_path, capsys):
    out = tmp_path / "audit.json"
    assert run(["audit", str(folder), "--draws", "200000", "--canaries", "2000", "--json", str(out)]) in (0, 1)
    content = json.loads(out.read_text())
    assert {"claimed_epsilon", "lower_bound", "confidence", "draws", "one_run"} <= set(content)
    assert (content["claimed_epsilon"], content["strategy"], content["dim"]) == (2.0, "sjlt", 8)
    assert 0.85 * 2 < content["lower_bound"] < 1.1 * 2
    assert set(content["one_run"]) == {"claimed_epsilon", "lower_bound", "confidence", "draws"}
    assert "likelihood ratio" in capsys.readouterr().out


def test_the_command_exits_with_one_when_the_claim_is_refuted(monkeypatch, capsys):
    monkeypatch.setattr("pricdr.privacy.steps.sigma_for", lambda *_, **__: 0.5)
    arguments = ["audit", "--strategy", "jlt", "--epsilon", "0.1", "--delta", "1e-6", "--dim", "4"]
    assert run([*arguments, "--draws", "10000", "--canaries", "100"]) == 1
    assert "the claim is wrong" in capsys.readouterr().err


def test_bad_requests_end_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    publish(Ratings.from_triples(["a", "b"], ["x", "y"]), PROMISE, insecure_no_noise=True).save("plain")
    for arguments, says in {
        "": "",
        "--strategy jlt": "",
        "--strategy jlt --epsilon -1 --delta 1e-6": "",
        "--strategy jlt --epsilon 1 --delta 1e-6 --unit user": "clip",
        "nowhere": "no such folder",
        "plain": "no claim to audit",
    }.items():
        assert run(["audit", *arguments.split()]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert says in error
