"""Interrupted, terminated or killed at any moment: a complete release or none, and nothing beside it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from pricdr import Ledger, cli, verify
from tests.cli.conftest import default_signals
from tests.settings import config

KILLED_AT_EVERY_STEP = """
import os, signal, sys
import pricdr.release.certificate, pricdr.data.reading.read, pricdr.release.readme, pricdr.signing
from pricdr import cli, publish
from pricdr.privacy.noise import alias_table
alias_table()
events = {"open", "os.mkdir", "os.rename", "os.listdir", "os.remove"}
here, at, armed = os.getcwd(), 0, False

def hook(event, arguments):
    global at
    if armed and event in events and isinstance(arguments[0], (str, os.PathLike)) and here in os.fspath(arguments[0]):
        at -= 1
        if at == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
sys.stdout = sys.stderr = open(os.devnull, "w")
step, finished = 0, False
while not finished and step < 100:
    step += 1
    ledger = f"{here}/{step}.jsonl"
    cli.run(["ledger", "init", ledger, "--epsilon", "9", "--delta", "1e-6", "--unit", "rating"])
    out = f"{here}/{step}"
    child = os.fork()
    if child == 0:
        at, armed = step, True
        command = ["publish", f"{here}/ratings.csv", "--epsilon", "4", "--delta", "1e-6", "--dim", "8"]
        os._exit(cli.run([*command, "--out", out, "--ledger", ledger]))
    finished = os.waitpid(child, 0)[1] == 0
print(step, file=sys.__stdout__)
"""

# The key is pressed in the first of four rounds. Until the end the command writes 100 kB of progress, and a terminal
# that nobody reads holds 8 kB: however slowly this process is scheduled, the command cannot be done before the key.
ON_A_TERMINAL = """
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests themselves run in the background
    fixed = ["--epsilon", "4", "--delta", "1e-6", "--out", "release", "--strategy", "spectral", "--dim", "256"]
    os.execv(sys.executable, [sys.executable, "-m", "pricdr", "publish", "many.parquet", *fixed])
seen, pressed = b"", False
try:
    while content := os.read(terminal, 1 << 16):
        seen += content
        if not pressed and b"rows of round 1" in seen:
            os.write(terminal, b"\\x03")
            pressed = True
except OSError:
    pass  # how a terminal says that its last user has left
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.stdout.buffer.write(b"%d\\n" % code + seen)
"""


def partials(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".partial-" in path.name)


@pytest.fixture
def stalled(here, ratings, start, until):
    """A publish that has begun its output and waits for its user list."""
    os.mkfifo(here / "users.fifo")
    fixed = ("--epsilon", 4, "--delta", 1e-6, "--out", "sub/release", "--users", "users.fifo")
    child = start("publish", ratings, *fixed, *config(log="log.jsonl"))
    until(lambda: (here / "sub").exists() and bool(partials(here / "sub")), child)
    yield child
    (here / "users.fifo").unlink()


INTERRUPTED = "error: interrupted; no output was left half-written\n"


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [(signal.SIGINT, 130, INTERRUPTED), (signal.SIGTERM, 143, ""), (signal.SIGHUP, 129, "")],
    ids=["interrupt", "terminate", "hang up"],
)
def test_a_signal_has_its_own_exit_code_and_leaves_nothing_behind(here, stalled, sent, code, said):
    stalled.send_signal(sent)
    out, err = stalled.communicate(timeout=60)
    assert (stalled.returncode, out, err) == (code, "", said)
    assert json.loads((here / "log.jsonl").read_text().splitlines()[-1])["exit_code"] == code
    assert sorted(path.name for path in here.iterdir()) == ["log.jsonl", "ratings.csv", "users.fifo"]


@pytest.mark.slow
def test_a_signal_ends_a_run_also_where_compiled_code_makes_an_error_of_the_exit(monkeypatch):
    def schema(*_: object, **__: object) -> None:
        try:
            cli.end(signal.SIGHUP, None)
        except SystemExit as ended:
            raise ValueError(f"Error building `model` serializer: SystemExit: {ended}") from None

    monkeypatch.setattr(cli, "_ended_with", [])
    monkeypatch.setattr(cli, "app", schema)
    with pytest.raises(SystemExit) as ended:
        cli.run(["verify", "somewhere"])
    assert ended.value.code == 129


def test_control_c_on_a_terminal_ends_the_progress_bar_and_leaves_nothing_behind(here):
    many = pl.DataFrame({"user": range(60_000), "item": [at % 997 for at in range(60_000)]})
    many.write_parquet(here / "many.parquet")
    done = subprocess.run([sys.executable, "-c", ON_A_TERMINAL], cwd=here, capture_output=True, timeout=60, check=True)
    code, _, seen = done.stdout.partition(b"\n")
    assert code == b"130"
    assert seen.endswith(INTERRUPTED.strip().encode() + b"\r\n")
    assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l") > 0, "the cursor is shown again"
    assert [path.name for path in here.iterdir()] == ["many.parquet"]


@pytest.mark.slow
def test_a_read_that_blocks_has_lines_in_the_log_and_an_interrupt_ends_it(here, start):
    """Some libraries have blocked calls resumed after a signal when they are imported; DuckDB does not."""
    os.mkfifo(here / "fifo.csv")
    soon = "import sys, pricdr.progress as lines, pricdr.cli; lines.SECONDS = 0.05; sys.exit(pricdr.cli.main())"
    words = ("publish", "fifo.csv", "--epsilon", "4", "--delta", "1e-6", "--out", "release")
    child = start(*words, program=("-c", soon))
    lines = iter(child.stderr.readline, "")
    assert any(line.startswith("progress: reading fifo.csv; ") for line in lines)
    while "duckdb" not in Path(f"/proc/{child.pid}/maps").read_text():
        assert child.poll() is None
    for _ in range(20):  # until it reads
        assert next(lines).startswith("progress: reading fifo.csv; ")
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=10)
    assert (child.returncode, err.splitlines()[-1]) == (130, INTERRUPTED.strip())


def test_an_interrupt_inside_code_made_from_text_exits_130_too(tmp_path):
    """CPython would kill itself by the signal afterwards: the interrupt is handled, and still remembered."""
    (tmp_path / "loading.py").write_text(
        "import os, signal, sys\n"
        "from pricdr import cli\n"
        "def made_from_text():\n"
        "    exec('os.kill(os.getpid(), signal.SIGINT); [0 for _ in range(10**6)]')\n"
        "cli.app.command('loading')(made_from_text)\n"
        "sys.argv = ['pricdr', 'loading']\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-m", "loading"]  # as a module: only then CPython looks
    child = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, preexec_fn=default_signals)
    assert (child.returncode, child.stderr) == (130, INTERRUPTED)


@pytest.mark.slow
def test_an_interrupt_at_any_step_leaves_nothing_behind(here, ratings, ledger, publish, steps):
    folder = here / "out"
    folder.mkdir()
    with steps.watched(folder) as whole:
        assert publish(ratings, "--ledger", ledger, "--epsilon", 0.1, out=folder / "counted").code == 0
    assert whole.seen > 8
    for at in range(1, whole.seen + 1):
        with steps.watched(folder, KeyboardInterrupt(), at) as watched:
            outcome = publish(ratings, "--ledger", ledger, "--epsilon", 0.1, out=folder / "release")
        assert watched.seen >= at
        assert (outcome.code, outcome.err.splitlines()[-1]) == (130, INTERRUPTED.strip())
        assert [path.name for path in folder.iterdir()] == ["counted"]
        Ledger(ledger).read()


def test_an_interrupt_while_cleaning_up_still_cleans_up(here, ratings, ledger, publish, monkeypatch):
    real, interrupted = shutil.rmtree, []

    def impatient(path, **options):
        if len(interrupted) < 3:
            interrupted.append(path)
            raise KeyboardInterrupt
        real(path, **options)

    monkeypatch.setattr(shutil, "rmtree", impatient)
    assert publish("nowhere.csv", out="sub/release").code == 130
    assert len(interrupted) == 3
    assert sorted(path.name for path in here.iterdir()) == ["budget.jsonl", "ratings.csv"]


@pytest.mark.slow
def test_a_kill_at_every_step_leaves_a_release_or_none_and_never_an_unrecorded_one(here, ratings, publish, pricdr):
    count = int(subprocess.check_output([sys.executable, "-c", KILLED_AT_EVERY_STEP], cwd=here, timeout=120))
    assert 15 < count < 100
    assert (here / str(count)).exists(), "the last one runs to its end"
    for step in range(1, count + 1):
        release, ledger = here / str(step), Ledger(here / f"{step}.jsonl")
        recorded = len(ledger.read().spends)
        if release.exists():
            assert verify(release).certificate.ledger.releases == recorded == 1
        else:
            assert recorded in (0, 1)
            assert publish(ratings, "--ledger", ledger.path, out=release).code == 0
            assert len(ledger.read().spends) == recorded + 1
    assert not partials(here)
