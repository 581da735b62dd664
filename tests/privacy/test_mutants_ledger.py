"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import errno
import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from pricdr import Guarantee, Ledger, Unit
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.ledger import LARGEST_BUDGET


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.jsonl", Guarantee(epsilon=4, delta=1e-6))


def test_reading_and_spending_leave_no_descriptor_open(ledger):
    before = sorted(Path("/dev/fd").iterdir())
    ledger.read()
    ledger.spend(mu=0.1, dim=1, unit=Unit.RATING, strategy="jlt")
    assert sorted(Path("/dev/fd").iterdir()) == before


@pytest.mark.slow  # it holds a quarter of a gigabyte
def test_a_file_of_more_bytes_than_any_ledger_has_is_not_parsed(tmp_path):
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, (1 << 28) + 1)
    with pytest.raises(InputError, match="more than 268,435,456 bytes"):
        Ledger(path).read()


def test_the_largest_budget_is_one_that_a_certificate_can_state(tmp_path):
    assert LARGEST_BUDGET == 1e9
    Ledger.create(tmp_path / "largest", Guarantee(epsilon=1e9, delta=1e-6))
    with pytest.raises(ParameterError, match="at most epsilon"):
        Ledger.create(tmp_path / "larger", Guarantee(epsilon=1.1e9, delta=1e-6))


def test_a_forfeit_is_a_single_number(ledger):
    ledger.spend(mu=0.1, dim=7, unit=Unit.RATING, strategy="jlt")
    ledger.path.write_bytes(ledger.path.read_bytes()[:-40])
    assert [line.dim for line in ledger.forfeit().spends] == [1]


def test_a_ledger_that_vanishes_while_a_publisher_waits_is_missed(ledger):
    """Whoever waited for the lock holds it on a file without a name: a spend there would be forgotten."""
    refused = []

    def spend() -> None:
        try:
            ledger.spend(mu=0.1, dim=1, unit=Unit.RATING, strategy="jlt")
        except InputError as error:
            refused.append(str(error))

    with ledger.path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=spend)
        waiting.start()
        time.sleep(0.2)
        ledger.path.unlink()
    waiting.join(timeout=20)
    assert "cannot read ledger" in refused[0]


def test_a_ledger_that_the_disk_cannot_read_is_named(ledger, monkeypatch):
    def broken(descriptor: int, limit: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("pricdr.privacy.ledger.read_all", broken)
    with pytest.raises(InputError, match=r"cannot read ledger .*budget.jsonl: Input/output error"):
        ledger.read()
