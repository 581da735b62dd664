"""A short form of ``make fuzz``, and proof that it can fail: bugs planted in the readers are reported, each by name."""

import pytest

from tests.fuzz.runner import KINDS, Options, run

pytestmark = pytest.mark.slow

PLANTED = {
    "abort": ("ratings", "died of SIGABRT"),
    "hang": ("ratings", "took over 3 seconds"),
    "memory": ("ratings", "took over 256 MiB more than honest input"),
    "memory of a child": ("ratings", "took over 256 MiB more than honest input"),
    "exception": ("ratings", "KeyError in"),
    "warning": ("ratings", "RuntimeWarning at"),
    "long refusal": ("ratings", "a refusal of 600 characters or more"),
    "stronger promise": ("releases", "accepted: a promise beyond its noise"),
    "forged notice": ("notices", "accepted: a notice that the key never signed"),
    "forgotten spend": ("ledgers", "accepted: releases that are not those recorded"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_mutated_input_crashes_hangs_or_means_what_it_should_not(kind, tmp_path):
    tally = run(Options(keep=tmp_path, kinds=(kind,), count=150))[kind]
    assert tally.cases == 150
    assert tally.accepted
    assert tally.refused
    assert not tally.failures


@pytest.mark.parametrize("plant", PLANTED)
def test_a_planted_bug_is_found(plant, tmp_path):
    kind, reason = PLANTED[plant]
    # A wrong meaning shows only in what is accepted: one changed ledger in twenty, one release in two hundred.
    count = {"ratings": 5, "releases": 600, "notices": 60, "ledgers": 300}[kind]
    limits = {"case_seconds": 3, "case_bytes": 256 << 20}
    tally = run(Options(keep=tmp_path, kinds=(kind,), count=count, plant=plant, **limits))[kind]
    assert tally.cases == count
    numbers = [number for number, outcome in sorted(tally.failures.items()) if outcome.reason.startswith(reason)]
    assert numbers
    kept = tmp_path / f"{kind}-{numbers[0]}"
    assert list((kept / "input").iterdir())
    assert reason in (kept / "reason.txt").read_text()


def test_a_case_follows_from_seed_kind_and_number_alone(tmp_path):
    def results(**which):
        tally = run(Options(keep=tmp_path, kinds=("ratings",), **which))["ratings"]
        return tally.accepted, tally.refused, sorted(tally.failures)

    whole, start, rest = results(count=40), results(count=20), results(first=20, count=20)
    assert whole == tuple(one + other for one, other in zip(start, rest, strict=True))
    assert any(results(count=40, seed=seed) != whole for seed in (2, 3, 4))


def test_a_kind_whose_workers_cannot_start_is_given_up_as_a_failure(tmp_path):
    tally = run(Options(keep=tmp_path, kinds=("ratings",), count=5, plant="no such bug"))["ratings"]
    assert list(tally.failures) == [-1]
    assert "KeyError: 'no such bug'" in tally.failures[-1].detail


def test_the_run_ends_when_its_time_is_up(tmp_path):
    tally = run(Options(keep=tmp_path, kinds=("ratings",), count=10**9, seconds=3))["ratings"]
    assert 0 < tally.cases < 10**9
