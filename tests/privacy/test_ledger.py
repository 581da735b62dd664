"""The ledger: exact composition, never over budget, never a lost line, whoever else writes and whenever it dies."""

import hashlib
import json
import math
import os
import signal
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricdr.errors import BudgetError, InputError, OutputError, ParameterError
from pricdr.privacy.accounting import LATTICE_FACTOR, Guarantee, Unit, composed_epsilon, composed_mu, mu_of
from pricdr.privacy.ledger import Ledger, compact

DELTA = 1e-6
BUDGET = Guarantee(epsilon=8, delta=DELTA)
MU = mu_of(8, DELTA) / LATTICE_FACTOR
"""The μ that costs the whole budget, but for the noise table's share of δ."""


def spend(ledger, mu, *, dim=10, unit=Unit.RATING, strategy="jlt"):
    return ledger.spend(mu=mu, dim=dim, unit=unit, strategy=strategy)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "budget.jsonl", BUDGET)


def test_a_new_ledger_holds_its_budget_and_nothing_spent(ledger):
    balance = ledger.read()
    assert (balance.budget, balance.spends) == (BUDGET, ())
    assert (balance.mu, balance.epsilon) == (0, 0)


def test_the_budget_survives_to_the_last_digit(tmp_path):
    budget = Guarantee(epsilon=math.pi, delta=1 / 3e7, unit=Unit.USER)
    assert Ledger.create(tmp_path / "x", budget).read().budget == budget


def test_creating_never_overwrites(ledger):
    spend(ledger, 0.1)
    content = ledger.path.read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        Ledger.create(ledger.path, Guarantee(epsilon=99, delta=DELTA))
    assert ledger.path.read_bytes() == content


def test_squares_of_mu_add(ledger):
    mus = [0.3, 0.4, 0.05, 0.5]
    for number, mu in enumerate(mus, 1):
        balance = spend(ledger, mu)
        assert balance.mu == pytest.approx(composed_mu(mus[:number]), rel=1e-12)
    assert ledger.read() == balance
    assert [s.mu for s in balance.spends] == mus


def test_the_total_is_the_composed_epsilon(ledger):
    for mu, dim in ((0.3, 10), (0.4, 200), (0.5, 800)):
        balance = spend(ledger, mu, dim=dim)
    assert balance.epsilon == composed_epsilon([(0.3, 10), (0.4, 200), (0.5, 800)], DELTA)
    assert balance.epsilon < sum(composed_epsilon([(mu, 10)], DELTA) for mu in (0.3, 0.4, 0.5))


@pytest.mark.parametrize("parts", [1, 2, 5, 100])
def test_releases_of_exactly_the_budget_fit_and_nothing_more(ledger, parts):
    for _ in range(parts):
        balance = spend(ledger, MU / parts**0.5)
    assert balance.epsilon == pytest.approx(8, rel=1e-9)
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetError, match=r"spent so far epsilon 8, with this release 8\.0"):
        spend(ledger, MU / 100)
    assert ledger.path.read_bytes() == before


def test_a_refusal_names_the_file_and_the_figures_and_records_nothing(ledger):
    spend(ledger, MU / 2)
    before = (ledger.path.read_bytes(), ledger.path.stat().st_mtime_ns)
    with pytest.raises(BudgetError) as caught:
        spend(ledger, MU)
    for words in ("budget.jsonl refuses", "spent so far", "with this release", "budget 8 at delta 1e-06"):
        assert words in str(caught.value)
    assert caught.value.exit_code == 1
    assert (ledger.path.read_bytes(), ledger.path.stat().st_mtime_ns) == before
    assert spend(ledger, MU / 2).mu == pytest.approx(MU / 2**0.5)


def test_the_first_release_can_be_too_much_already(ledger):
    for mu in (MU * 1.001, 1e6, 1e300):
        with pytest.raises(BudgetError, match="spent so far epsilon 0"):
            spend(ledger, mu)
    assert ledger.read().spends == ()


@pytest.mark.parametrize(("held", "asked"), [(Unit.RATING, Unit.USER), (Unit.USER, Unit.RATING)])
def test_one_ledger_counts_one_unit(tmp_path, held, asked):
    ledger = Ledger.create(tmp_path / "x", Guarantee(epsilon=8, delta=DELTA, unit=held))
    ledger.require_spendable(held)
    for refused in (lambda: ledger.require_spendable(asked), lambda: spend(ledger, 0.1, unit=asked)):
        with pytest.raises(ParameterError, match=f"unit {held.value}, this release in unit {asked.value}"):
            refused()
    assert ledger.read().spends == ()


def test_a_line_says_what_was_released_and_when(ledger):
    spend(ledger, 0.25, dim=201, strategy="sjlt")
    header, line = map(json.loads, ledger.path.read_text().splitlines())
    assert header.items() >= {"pricdr_ledger": 2, "epsilon": 8.0, "delta": 1e-6, "unit": "rating"}.items()
    assert line.items() >= {"mu": 0.25, "dim": 201, "strategy": "sjlt"}.items()
    assert date.fromisoformat(line["recorded"]).isoformat() == line["recorded"], "a day, and no time"
    assert line["number"] == 1
    raw_header, raw_line = ledger.path.read_bytes().splitlines(keepends=True)
    assert line["before"] == hashlib.sha256(raw_header).hexdigest()
    alone = raw_line.replace(f',"hash":"{line["hash"]}"'.encode(), b"").rstrip(b"\n")
    assert line["hash"] == hashlib.sha256(alone).hexdigest()


def test_the_file_is_for_its_owner_alone_and_stays_so(tmp_path):
    old = os.umask(0)
    try:
        ledger = Ledger.create(tmp_path / "x", BUDGET)
        assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
        for _ in range(3):
            spend(ledger, 0.1)
            assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    finally:
        os.umask(old)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_every_name_of_a_ledger_shows_the_same_budget(tmp_path, ledger):
    (tmp_path / "sub").mkdir()
    link = tmp_path / "sub" / "link"
    link.symlink_to("../budget.jsonl")
    spend(Ledger(link), 0.1)
    spend(ledger, 0.2)
    assert link.is_symlink()
    assert [s.mu for s in Ledger(link).read().spends] == [0.1, 0.2]
    assert Ledger(link).read() == ledger.read()


def test_a_missing_last_line_break_does_not_spoil_the_file(ledger):
    spend(ledger, 0.1)
    ledger.path.write_bytes(ledger.path.read_bytes().rstrip(b"\n"))
    spend(ledger, 0.2)
    assert [s.mu for s in ledger.read().spends] == [0.1, 0.2]


def test_a_strategy_of_any_name_can_be_recorded(ledger):
    for name in ("ünï🙂", "two\nlines", "\u2028", '"quoted"', ""):
        spend(ledger, 0.01, strategy=name)
    assert [s.strategy for s in ledger.read().spends] == ["ünï🙂", "two\nlines", "\u2028", '"quoted"', ""]


def test_no_such_file_is_said(tmp_path):
    with pytest.raises(InputError, match=r"cannot read ledger .*nowhere: No such file"):
        Ledger(tmp_path / "nowhere").read()
    with pytest.raises(InputError, match="cannot read ledger"):
        spend(Ledger(tmp_path / "nowhere"), 0.1)
    with pytest.raises(InputError, match="is not a ledger"):
        Ledger(tmp_path).read()


def test_a_process_forked_during_a_spend_neither_hangs_nor_holds_the_lock(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", Guarantee(epsilon=4, delta=1e-6))
    asked, answer = os.pipe()
    with ledger._open_to_write():
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os.read(asked, 1)  # until the parent is done; then its own spend
            spend(ledger, 0.1)
            os._exit(0)
    previous = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the lock is still held"))
    signal.alarm(20)
    try:
        spend(ledger, 0.1)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        os.write(answer, b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(ledger.read().spends) == 2


def test_a_device_without_an_end_is_no_ledger():
    with pytest.raises(InputError, match="/dev/zero is not a ledger: it is no regular file"):
        Ledger("/dev/zero").read()


def test_a_pipe_is_no_ledger_and_no_reason_to_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for use in (Ledger(tmp_path / "pipe").read, lambda: spend(Ledger(tmp_path / "pipe"), 0.1)):
        with pytest.raises(InputError, match="pipe is not a ledger"):
            use()


HEADER = {"pricdr_ledger": 2, "epsilon": 8.0, "delta": 1e-6, "unit": "rating", "created": "now", "nonce": "a"}
LINE = {"mu": 0.1, "dim": 10, "strategy": "jlt", "promise": "", "recorded": "now", "nonce": "b"}


def ledger_of(header: dict[str, object], *lines: dict[str, object]) -> bytes:
    """Lines with every hash right, whatever else they say."""
    content = b""
    for number, line in enumerate((header, *lines)):
        placed = {**line, "number": number, "before": hashlib.sha256(content).hexdigest()} if number else line
        content += compact({**placed, "hash": hashlib.sha256(compact(placed)).hexdigest()}) + b"\n"
    return content


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ({}, None),
        ({"pricdr_ledger": 1}, None),
        ({"nonce": None}, None),
        ({"signed": False}, None),
        ({"epsilon": 0}, None),
        ({"epsilon": -1}, None),
        ({"epsilon": math.nan}, None),
        ({"epsilon": math.inf}, None),
        ({"epsilon": 10**400}, None),
        ({"delta": 0}, None),
        ({"delta": 1}, None),
        ({"unit": "week"}, None),
        ({"extra": 1}, None),
        (None, {"mu": 0}),
        (None, {"mu": -1}),
        (None, {"mu": math.nan}),
        (None, {"mu": math.inf}),
        (None, {"mu": 10**400}),
        (None, {"mu": None}),
        (None, {"dim": 0}),
        (None, {"dim": 10**400}),
        (None, {"dim": 1.5}),
        (None, {"extra": 1}),
        (None, {"strategy": 7}),
    ],
    ids=repr,
)
def test_a_figure_that_cannot_be_makes_the_file_invalid(tmp_path, header, line):
    first = {**HEADER, **header} if header else HEADER if header is None else header
    ledger = Ledger(tmp_path / "x")
    ledger.path.write_bytes(ledger_of(HEADER, LINE))
    assert ledger.read(), "it is the figure, and nothing else, that is refused below"
    ledger.path.write_bytes(ledger_of(first, {**LINE, **(line or {})}))
    for use in (ledger.read, lambda: spend(ledger, 0.1)):
        with pytest.raises(InputError, match=r"x is not a (valid )?ledger"):
            use()


@pytest.mark.parametrize("mu", [5e-324, 1e-300, 1e-12, 1e154, 1e308])
@pytest.mark.parametrize("dim", [1, 2**62])
def test_extreme_figures_are_counted_not_crashed_on(tmp_path, mu, dim):
    (tmp_path / "x").write_bytes(ledger_of(HEADER, {**LINE, "mu": mu, "dim": dim}))
    ledger = Ledger(tmp_path / "x")
    assert ledger.read().epsilon >= 0
    if mu > 1:
        assert ledger.read().epsilon > 8
        with pytest.raises(BudgetError):
            spend(ledger, 1e-3)


def read_or_refuse(content: bytes) -> None:
    """Whatever the bytes, reading and spending work or raise :class:`InputError` or :class:`BudgetError`."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "x")
        ledger.path.write_bytes(content)
        try:
            before = ledger.read()
        except InputError:
            with pytest.raises(InputError, match="ledger"):
                spend(ledger, 0.1)
            assert ledger.path.read_bytes() == content
            return
        assert before.epsilon >= 0
        with suppress(BudgetError, ParameterError):
            spend(ledger, 0.1)
            assert ledger.read().spends[:-1] == before.spends


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_ledger_or_an_input_error(content):
    read_or_refuse(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys((*HEADER, *LINE), JSON)), max_size=3),
    st.booleans(),
)
def test_arbitrary_json_lines_are_a_ledger_or_an_input_error(lines, headed):
    objects = [HEADER, *lines] if headed else lines
    read_or_refuse("".join(json.dumps(line) + "\n" for line in objects).encode())


@given(st.data())
@settings(max_examples=150)
def test_a_damaged_ledger_is_a_ledger_or_an_input_error(data):
    content = bytearray(ledger_of(HEADER, LINE, LINE))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not content:
            break
    read_or_refuse(bytes(content))


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"\xef\xbb\xbf{}", b"\n" * 9])
def test_hostile_files_are_an_input_error(content):
    read_or_refuse(content)


@given(st.lists(st.floats(1e-4, 3) | st.floats(1e-12, 1e12), max_size=8))
@settings(max_examples=40, deadline=None)
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


def drive(folder, script):
    """Run a script of several processes (children of one that has no threads), and return what it prints."""
    preamble = (
        "import json, os, random, signal, sys, time\n"
        "from pricdr.errors import BudgetError\n"
        "from pricdr.privacy.accounting import Guarantee, Unit\n"
        "from pricdr.privacy.ledger import Ledger\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", preamble + script], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("links", [False, True], ids=["one name", "a link each"])
def test_of_eight_publishers_at_once_exactly_five_fit_a_budget_of_five(tmp_path, ledger, links):
    share = MU / 5**0.5
    for number in range(8):
        (tmp_path / f"link{number}").symlink_to(ledger.path.name)
    codes = drive(
        tmp_path,
        f"""
children, (ready, go) = [], os.pipe()
for number in range(8):
    if (child := os.fork()) == 0:
        os.close(go)
        os.read(ready, 1)  # returns for all at once, when the parent closes its end
        try:
            name = f"link{{number}}" if {links} else "budget.jsonl"
            Ledger(name).spend(mu={share!r}, dim=10, unit=Unit.RATING, strategy=str(number))
        except BudgetError:
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(ready)
os.close(go)
json.dump([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], sys.stdout)
""",
    )
    assert sorted(codes) == [0] * 5 + [1] * 3
    balance = ledger.read()
    winners = {str(number) for number, code in enumerate(codes) if code == 0}
    assert {s.strategy for s in balance.spends} == winners
    assert len(balance.spends) == 5
    assert balance.epsilon == pytest.approx(8, rel=1e-9)
    assert not [path for path in tmp_path.iterdir() if ".partial-" in path.name]


def test_many_spends_of_many_publishers_are_all_recorded(tmp_path, ledger):
    acknowledged = drive(
        tmp_path,
        """
children = []
for number in range(4):
    if (child := os.fork()) == 0:
        for turn in range(25):
            Ledger("budget.jsonl").spend(mu=0.001, dim=1, unit=Unit.RATING, strategy=f"{number}.{turn}")
        os._exit(0)
    children.append(child)
json.dump([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], sys.stdout)
""",
    )
    assert acknowledged == [0] * 4
    recorded = [s.strategy for s in ledger.read().spends]
    assert len(recorded) == 100
    for number in range(4):
        mine = [name for name in recorded if name.startswith(f"{number}.")]
        assert mine == [f"{number}.{turn}" for turn in range(25)]


KILLS = """
ledger, log = Ledger("budget.jsonl"), []
for attempt in range({attempts}):
    before = open("budget.jsonl", "rb").read()
    said, saying = os.pipe()
    if (child := os.fork()) == 0:
        while True:
            ledger.spend(mu=1e-4, dim=1, unit=Unit.RATING, strategy="x" * 2000)
            os.write(saying, b".")
    time.sleep(random.uniform(0, {longest}))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(saying)
    acknowledged = len(os.read(said, 1 << 16))
    os.close(said)
    after = open("budget.jsonl", "rb").read()
    log.append([acknowledged, len(ledger.read().spends), after.startswith(before), after.endswith(b"\\n")])
json.dump(log, sys.stdout)
"""


@pytest.mark.parametrize(
    ("attempts", "longest"), [(25, 0.1), pytest.param(400, 0.03, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_a_killed_spender_never_loses_a_line_or_leaves_half_of_one(tmp_path, ledger, attempts, longest):
    log = drive(tmp_path, KILLS.format(attempts=attempts, longest=longest))
    recorded = 0
    for acknowledged, lines, kept, whole in log:
        assert recorded + acknowledged <= lines <= recorded + acknowledged + 1
        assert kept
        assert whole
        recorded = lines
    assert recorded > 0
    spend(ledger, 1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["budget.jsonl"], "the next spend sweeps what the dead left"


def test_a_publisher_that_holds_the_lock_makes_others_wait_and_its_death_frees_them(tmp_path, ledger):
    codes = drive(
        tmp_path,
        """
import fcntl
locked, saying = os.pipe()
if (holder := os.fork()) == 0:
    file = os.open("budget.jsonl", os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(saying, b".")
    time.sleep(60)
os.read(locked, 1)
if (waiting := os.fork()) == 0:
    Ledger("budget.jsonl").spend(mu=0.1, dim=1, unit=Unit.RATING, strategy="waited")
    os._exit(0)
time.sleep(0.2)
early = os.waitpid(waiting, os.WNOHANG)[0]
readable = len(Ledger("budget.jsonl").read().spends)
os.kill(holder, signal.SIGKILL)
code = os.waitstatus_to_exitcode(os.waitpid(waiting, 0)[1])
json.dump([early, readable, code], sys.stdout)
""",
    )
    assert codes == [0, 0, 0]
    assert [s.strategy for s in ledger.read().spends] == ["waited"]


def test_a_ledger_with_a_second_name_is_refused(tmp_path):
    """A hard link would go on showing the old balance: the same budget twice."""
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=1, delta=1e-6))
    os.link(tmp_path / "ledger", tmp_path / "alias")
    for name in ("ledger", "alias"):
        with pytest.raises(InputError, match="2 names"):
            Ledger(tmp_path / name).spend(mu=0.01, dim=1, unit=Unit.RATING, strategy="jlt")
    (tmp_path / "alias").unlink()
    assert len(ledger.spend(mu=0.01, dim=1, unit=Unit.RATING, strategy="jlt").spends) == 1


def test_threads_of_one_process_spend_one_after_another(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", Guarantee(epsilon=8, delta=1e-6))
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(ledger.spend, mu=0.05, dim=1, unit=Unit.RATING, strategy="jlt") for _ in range(24)]
        counts = sorted(len(future.result().spends) for future in done)
    assert counts == list(range(1, 25))
