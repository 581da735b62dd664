"""The ledger: exact composition, never over budget, never a lost line, whoever else writes and whenever it dies."""

import errno
import fcntl
import hashlib
import json
import math
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import date
from itertools import product
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings, strategies as st

from pricdr.errors import BudgetError, InputError, OutputError, ParameterError
from pricdr.privacy.accounting import LATTICE_FACTOR, Guarantee, Unit, composed_epsilon, composed_mu, mu_of
from pricdr.privacy.ledger import Ledger, compact

DELTA = 1e-6
BUDGET = Guarantee(epsilon=8, delta=DELTA)
MU = mu_of(8, DELTA) / LATTICE_FACTOR
"""The μ that costs the whole budget, but for the noise table's share of δ."""


def spend(ledger, mu=0.1, *, dim=10, unit=Unit.RATING, strategy="jlt"):
    return ledger.spend(mu=mu, dim=dim, unit=unit, strategy=strategy)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.jsonl", BUDGET)


def test_a_new_ledger_holds_its_budget_to_the_last_digit_and_nothing_spent(tmp_path):
    budget = Guarantee(epsilon=math.pi, delta=1 / 3e7, unit=Unit.USER)
    ledger = Ledger.create(tmp_path / "x", budget)
    balance, content = ledger.read(), ledger.path.read_bytes()
    assert (balance.budget, balance.spends, balance.mu, balance.epsilon) == (budget, (), 0, 0)
    with pytest.raises(OutputError, match="exists already"):
        Ledger.create(ledger.path, BUDGET)
    assert ledger.path.read_bytes() == content
    Ledger.create(tmp_path / "largest", Guarantee(epsilon=1e9, delta=1e-6))  # which a certificate can state
    with pytest.raises(ParameterError, match="at most epsilon"):
        Ledger.create(tmp_path / "larger", Guarantee(epsilon=1.1e9, delta=1e-6))


def test_squares_of_mu_add_and_the_total_is_the_composed_epsilon(ledger):
    releases = [(0.3, 10), (0.4, 200), (0.05, 1), (0.5, 800)]
    for mu, dim in releases:
        balance = spend(ledger, mu, dim=dim)
    assert balance.mu == pytest.approx(composed_mu(mu for mu, _ in releases), rel=1e-12)
    assert balance.epsilon == composed_epsilon(releases, DELTA)
    assert balance.epsilon < sum(composed_epsilon([release], DELTA) for release in releases)
    assert ledger.read() == balance
    assert [(s.mu, s.dim) for s in balance.spends] == releases


@pytest.mark.parametrize("parts", [1, 2, 20])
def test_releases_of_exactly_the_budget_fit_and_a_refusal_records_nothing(ledger, parts):
    for _ in range(parts):
        balance = spend(ledger, MU / parts**0.5)
    assert balance.epsilon == pytest.approx(8, rel=1e-9)
    before = (ledger.path.read_bytes(), ledger.path.stat().st_mtime_ns)
    says = r"budget.jsonl refuses: spent so far epsilon 8, with this release 8\.0.*, budget 8 at delta 1e-06"
    with pytest.raises(BudgetError, match=says) as caught:
        spend(ledger, MU / 100)
    assert caught.value.exit_code == 1
    assert (ledger.path.read_bytes(), ledger.path.stat().st_mtime_ns) == before


@given(st.lists(st.floats(1e-4, 3) | st.floats(1e-12, 1e300), max_size=8))
@settings(max_examples=25)
def test_no_sequence_of_spends_exceeds_the_budget_or_is_refused_what_fits(mus):
    with tempfile.TemporaryDirectory() as folder:
        ledger, accepted = Ledger.create(Path(folder) / "x", BUDGET), []
        for mu in mus:
            fits = composed_epsilon([(m, 10) for m in (*accepted, mu)], DELTA) <= 8
            try:
                spend(ledger, mu)
                accepted.append(mu)
            except BudgetError:
                assert not fits
            balance = ledger.read()
            assert [s.mu for s in balance.spends] == accepted
            assert balance.epsilon <= 8 * (1 + 1e-9)
            assert not fits or accepted[-1] == mu


def test_one_ledger_counts_one_unit(tmp_path):
    for held, asked in ((Unit.RATING, Unit.USER), (Unit.USER, Unit.RATING), (Unit.USER, Unit.USER_PERIOD)):
        ledger = Ledger.create(tmp_path / f"{held.value} {asked.value}", Guarantee(epsilon=8, delta=DELTA, unit=held))
        ledger.require_spendable(held)
        with pytest.raises(ParameterError, match=f"unit {held.value}, this release in unit {asked.value}"):
            ledger.require_spendable(asked)
        with pytest.raises(ParameterError, match=f"unit {held.value}, this release in unit {asked.value}"):
            spend(ledger, unit=asked)
        assert ledger.read().spends == ()


def test_a_line_says_what_was_released_and_when_and_is_chained(ledger):
    strategy = 'ünï🙂 two\nlines \u2028 "quoted"'
    spend(ledger, 0.25, dim=201, strategy=strategy)
    raw_header, raw_line = ledger.path.read_bytes().splitlines(keepends=True)
    header, line = json.loads(raw_header), json.loads(raw_line)
    assert header.items() >= {"pricdr_ledger": 3, "epsilon": 8.0, "delta": 1e-6, "unit": "rating"}.items()
    assert line.items() >= {"mu": 0.25, "dim": 201, "strategy": strategy, "number": 1}.items()
    assert date.fromisoformat(line["recorded"]).isoformat() == line["recorded"], "a day, and no time"
    assert line["before"] == hashlib.sha256(raw_header).hexdigest()
    alone = raw_line.replace(f',"hash":"{line["hash"]}"'.encode(), b"").rstrip(b"\n")
    assert line["hash"] == hashlib.sha256(alone).hexdigest()
    assert ledger.read().spends[0].strategy == strategy


def test_a_new_ledger_is_for_its_owner_alone_and_a_spend_keeps_the_mode(tmp_path):
    old = os.umask(0)
    try:
        ledger = Ledger.create(tmp_path / "x", BUDGET)
        for mode in (0o600, 0o640, 0o660):
            if mode != 0o600:  # what it is made with
                ledger.path.chmod(mode)
            spend(ledger)
            assert stat.S_IMODE(ledger.path.stat().st_mode) == mode
    finally:
        os.umask(old)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_spend_keeps_owner_and_group_and_where_it_cannot_nothing_is_spent(ledger, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    os.chown(ledger.path, 12345, 23456)
    spend(ledger)
    status = ledger.path.stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)
    before = ledger.path.read_bytes()
    monkeypatch.setattr("os.chown", refuse)
    with pytest.raises(OutputError, match="not permitted"):
        spend(ledger)
    assert ledger.path.read_bytes() == before


def test_a_ledger_with_a_second_name_or_for_reading_alone_is_not_spent_from_whoever_asks(ledger):
    """A hard link would go on showing the old balance: the same budget twice."""
    alias = ledger.path.with_name("alias")
    os.link(ledger.path, alias)
    for one in (ledger, Ledger(alias)):
        with pytest.raises(InputError, match="2 names"):
            spend(one)
    alias.unlink()
    ledger.path.chmod(0o444)
    with pytest.raises(InputError, match="read-only"):
        spend(ledger)
    assert ledger.read().spends == ()


def test_what_cannot_be_read_is_said_without_waiting(ledger, tmp_path, monkeypatch):
    def refused(path, says):
        for use in (Ledger(path).read, lambda: spend(Ledger(path))):
            with pytest.raises(InputError, match=says):
                use()

    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "nowhere", r"cannot read ledger .*nowhere: No such file")
    refused(tmp_path, "is not a ledger")
    refused(tmp_path / "pipe", "pipe is not a ledger")
    refused("/dev/zero", "/dev/zero is not a ledger: it is no regular file")
    monkeypatch.setattr("pricdr.privacy.ledger._LARGEST", ledger.path.stat().st_size)
    ledger.read()
    monkeypatch.setattr("pricdr.privacy.ledger._LARGEST", ledger.path.stat().st_size - 1)
    refused(ledger.path, "the most that is read")
    monkeypatch.setattr("pricdr.privacy.ledger.read_all", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    refused(ledger.path, r"cannot read ledger .*budget.jsonl: Input/output error")


def test_reading_and_spending_leave_no_descriptor_open(ledger):
    before = sorted(Path("/dev/fd").iterdir())
    ledger.read()
    spend(ledger)
    assert sorted(Path("/dev/fd").iterdir()) == before


HEADER = {"pricdr_ledger": 3, "epsilon": 8.0, "delta": 1e-6, "unit": "rating", "created": "now", "nonce": "a"}
LINE = {"mu": 0.1, "dim": 10, "strategy": "jlt", "promise": "", "recorded": "now", "nonce": "b"}


def ledger_of(header: dict[str, object], *lines: dict[str, object]) -> bytes:
    """Lines with every hash right, whatever else they say."""
    content = b""
    for number, line in enumerate((header, *lines)):
        placed = {**line, "number": number, "before": hashlib.sha256(content).hexdigest()} if number else line
        content += compact({**placed, "hash": hashlib.sha256(compact(placed)).hexdigest()}) + b"\n"
    return content


IMPOSSIBLE = [
    *({"pricdr_ledger": 1}, {"nonce": None}, {"signed": False}, {"unit": "week"}, {"extra": 1}),
    *({"epsilon": value} for value in (0, -1, math.nan, math.inf, 10**400)),
    *({"delta": value} for value in (0, 1)),
    *({"mu": value} for value in (0, -1, math.nan, math.inf, 10**400, None)),
    *({"dim": value} for value in (0, 10**400, 1.5)),
    {"strategy": 7},
    {"dim": 10, "extra": 1},
]


HONEST = ledger_of(HEADER, LINE)
HOSTILE = (b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"null\n", b"\xff\xfe", b"\n" * 9, b"\0" * 99)


def with_figure(figure: dict[str, object]) -> bytes:
    in_line = not figure.keys().isdisjoint(LINE.keys() - HEADER.keys())
    return ledger_of(HEADER, {**LINE, **figure}) if in_line else ledger_of({**HEADER, **figure}, LINE)


def test_a_figure_that_cannot_be_and_what_is_no_ledger_are_refused_and_not_touched(tmp_path):
    """Ledgers that were changed a little are the business of ``tests/fuzz``."""
    ledger = Ledger(tmp_path / "x")
    ledger.path.write_bytes(HONEST)
    assert ledger.read(), "it is the figure, and nothing else, that is refused below"
    for content in (*map(with_figure, IMPOSSIBLE), *HOSTILE, *(HONEST + end for end in HOSTILE)):
        ledger.path.write_bytes(content)
        for use in (ledger.read, lambda: spend(ledger)):
            with pytest.raises(InputError, match=r"x is not a (valid )?ledger"):
                use()
        assert ledger.path.read_bytes() == content, content[:40]


def test_extreme_figures_are_counted_not_crashed_on(tmp_path):
    ledger = Ledger(tmp_path / "x")
    for mu, dim in product((5e-324, 1e-300, 1e154, 1e308), (1, 2**62)):
        ledger.path.write_bytes(ledger_of(HEADER, {**LINE, "mu": mu, "dim": dim}))
        assert (ledger.read().epsilon > 8) == (mu > 1)
        if mu > 1:
            with pytest.raises(BudgetError):
                spend(ledger, 1e-3)


EIGHT = f"""
import json, os, sys
from pricdr.errors import BudgetError
from pricdr.privacy.accounting import Unit
from pricdr.privacy.ledger import Ledger

children, (ready, go) = [], os.pipe()
for number in range(8):
    if (child := os.fork()) == 0:
        os.close(go)
        os.read(ready, 1)  # returns for all at once, when the parent closes its end
        try:
            name = f"link{{number}}" if number % 2 else "budget.jsonl"
            Ledger(name).spend(mu={MU / 5**0.5!r}, dim=10, unit=Unit.RATING, strategy=str(number))
        except BudgetError:
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(ready)
os.close(go)
json.dump([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], sys.stdout)
"""


def test_of_eight_publishers_at_once_exactly_five_fit_a_budget_of_five(tmp_path, ledger):
    """Half of them under a name of their own: every name of a ledger shows the same budget."""
    for number in range(8):
        (tmp_path / f"link{number}").symlink_to(ledger.path.name)
    # Children of a process that has no threads.
    codes = json.loads(
        subprocess.run([sys.executable, "-c", EIGHT], cwd=tmp_path, capture_output=True, check=True).stdout
    )
    assert sorted(codes) == [0] * 5 + [1] * 3
    balance = ledger.read()
    assert sorted(s.strategy for s in balance.spends) == [str(number) for number in range(8) if codes[number] == 0]
    assert balance.epsilon == pytest.approx(8, rel=1e-9)
    assert (tmp_path / "link1").is_symlink()
    assert not [path for path in tmp_path.iterdir() if ".partial-" in path.name]


def test_a_process_forked_during_a_spend_neither_hangs_nor_holds_the_lock(ledger):
    asked, answer = os.pipe()
    with ledger._open_to_write():
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os.read(asked, 1)  # until the parent is done; then its own spend
            spend(ledger)
            os._exit(0)
    previous = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the lock is still held"))
    signal.alarm(20)
    try:
        spend(ledger)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        os.write(answer, b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(ledger.read().spends) == 2


@pytest.mark.parametrize("vanishes", [False, True])
def test_a_publisher_waits_for_the_lock_and_misses_a_ledger_that_vanished_meanwhile(ledger, vanishes):
    """It then holds the lock on a file without a name: a spend there would be forgotten."""
    with ThreadPoolExecutor(1) as pool:
        with ledger.path.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            waiting = pool.submit(spend, ledger)
            time.sleep(0.2)
            assert not waiting.done()
            assert ledger.read().spends == (), "reading waits for nobody"
            if vanishes:
                ledger.path.unlink()
        with pytest.raises(InputError, match="cannot read ledger") if vanishes else nullcontext():
            assert len(waiting.result(20).spends) == 1
