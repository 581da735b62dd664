"""A short form of ``make fuzz``, and proof that it can fail: bugs planted in the readers are reported, each by name."""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pricdr import Ledger
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError
from pricdr.privacy.ledger import Balance
from tests.fuzz.cases import Files, Kind, Outcome, Seed
from tests.fuzz.runner import KINDS, Bench, Options, run

pytestmark = pytest.mark.slow
_EVERY = 3
"""One case in so many meets a planted bug that ends the process, or has to be stopped."""
_EATEN = 400 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_no_mutated_input_crashes_or_means_what_it_should_not(kind, tmp_path):
    bench = Bench(kind, tmp_path, Options())
    assert bench.judge_seeds() == Outcome("accepted")
    outcomes = {number: bench.run(number) for number in range(80)}
    assert {outcome.result for outcome in outcomes.values()} == {"accepted", "refused"}, outcomes


def test_a_case_follows_from_seed_kind_and_number_alone(tmp_path):
    def results(seed: int, numbers: range) -> list[str]:
        bench = Bench("alignments", tmp_path, Options(seed=seed))
        return [bench.run(number).result for number in numbers]

    whole = results(1, range(40))
    assert whole == [*results(1, range(20)), *results(1, range(20, 40))]
    assert any(results(seed, range(40)) != whole for seed in (2, 3, 4))


def _abort(*_: object, **__: object) -> None:
    os.abort()


def _hang(*_: object, **__: object) -> None:
    time.sleep(3600)


def _eat(*_: object, **__: object) -> None:
    eaten = bytearray(_EATEN)
    eaten[:: 1 << 12] = b"x" * len(eaten[:: 1 << 12])
    raise InputError("refused after all")


def _raise(*_: object, **__: object) -> None:
    raise KeyError("user")


def _warn(*given: Any, **named: Any) -> Any:
    warnings.warn("invalid value encountered", RuntimeWarning, stacklevel=1)
    return read(*given, **named)


def _ramble(*_: object, **__: object) -> None:
    raise InputError("no " * 1000)


def _agree(*_: object) -> bool:
    return True


class _ForgetfulLedger(Ledger):
    """A ledger that does not count its last release."""

    def read(self) -> Balance:
        balance = super().read()
        return replace(balance, spends=balance.spends[:-1])


READ = "tests.fuzz.stage_one.read"
PLANTS: dict[str, tuple[str, str, Any, str, int]] = {
    "abort": ("ratings", READ, _abort, "died of SIGABRT", 5),
    "hang": ("ratings", READ, _hang, "took over 3 seconds", 5),
    "memory": ("ratings", READ, _eat, "took over 256 MiB more than honest input", 5),
    "exception": ("ratings", READ, _raise, "KeyError in", 5),
    "warning": ("ratings", READ, _warn, "RuntimeWarning at", 5),
    "long refusal": ("ratings", READ, _ramble, "a refusal of 600 characters or more", 5),
    # A wrong meaning shows only in what is accepted: one changed ledger in twenty, one release in two hundred.
    "stronger promise": ("releases", "pricdr.release.certify.check", _agree, "accepted: a promise beyond its", 600),
    "forged notice": ("notices", "pricdr.release.revocation.is_signed_by", _agree, "accepted: a notice that", 60),
    "forgotten spend": ("ledgers", "tests.fuzz.stage_one.Ledger", _ForgetfulLedger, "accepted: releases that", 300),
}
"""The kind, what is replaced by what, how it is reported, and in how many cases it is met."""


def _planted(kind: Kind, *, target: str, bug: Callable[..., Any], every: int = 1) -> Kind:
    cases = count(1)

    def judge(folder: Path, seed: Seed, files: Files) -> None:
        with patch(target, bug) if next(cases) % every == 0 else warnings.catch_warnings():
            kind.judge(folder, seed, files)

    return replace(kind, judge=judge)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant, tmp_path):
    kind, target, bug, reason, cases = PLANTS[plant]
    plants = partial(_planted, target=target, bug=bug)
    if bug not in (_abort, _hang, _eat):  # which end the process, or have to be stopped
        bench = Bench(kind, tmp_path, Options(plant=plants))
        assert bench.judge_seeds() == Outcome("accepted")
        assert any(bench.run(number).reason.startswith(reason) for number in range(cases))
        return
    options = Options(count=cases, plant=partial(plants, every=_EVERY), case_seconds=3, case_bytes=256 << 20)
    outcomes = run(kind, options)
    assert len(outcomes) == cases
    (failure,) = [outcome for outcome in outcomes.values() if outcome.result == "failed"]
    assert failure.reason == reason


def test_a_kind_whose_seeds_are_refused_is_given_up_as_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(READ, _raise)
    assert Bench("ratings", tmp_path, Options()).judge_seeds().reason.startswith("honest seed")
