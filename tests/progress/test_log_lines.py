"""Off the terminal: a line now and then, also while the work is inside one call, and none that does harm."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from pricdr import cli
from pricdr import progress as lines_module
from pricdr.cli.console import log_lines, progress_bar, working
from pricdr.progress import LogLines, Ticker

SOON = 0.02


def wait_for(capsys, words: str) -> str:
    """Read standard error until it holds ``words``."""
    seen, deadline = "", time.monotonic() + 20
    while words not in seen:
        assert time.monotonic() < deadline, seen
        time.sleep(SOON / 4)
        seen += capsys.readouterr().err
    return seen


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "pricdr-progress"]


def test_lines_say_what_is_done_how_far_the_note_and_how_long(capsys):
    with LogLines("preparing", seconds=SOON) as report:
        assert re.fullmatch(r"(progress: preparing; 0:00:0\d\n)+", wait_for(capsys, "preparing"))
        report("target", 1234.5, 5000, "loss 0.3")
        assert "progress: target: 1,234 of 5,000, loss 0.3; 0:00:0" in wait_for(capsys, "target")
        report("solving", 0, 0, "9 items")
        assert "progress: solving: 9 items; 0:00:0" in wait_for(capsys, "solving")


def test_nothing_is_written_after_the_end_and_no_thread_is_left(capsys):
    with LogLines("a", seconds=SOON):
        wait_for(capsys, "progress: a")
        assert threads()
    capsys.readouterr()
    assert not threads()
    time.sleep(4 * SOON)
    assert capsys.readouterr().err == ""


def test_the_first_line_comes_after_half_a_minute_so_short_work_has_none(capsys):
    assert lines_module.SECONDS == 30
    started = time.monotonic()
    with LogLines("short"):
        time.sleep(SOON)
    assert time.monotonic() - started < 10, "the end does not wait for a line"
    assert capsys.readouterr().err == ""


def test_a_line_is_one_line_whatever_is_reported(capsys):
    with LogLines("a\nverified: forged", seconds=SOON) as report:
        assert "progress: a\\u000averified: forged; " in wait_for(capsys, "forged")
        report("b\x1b[31m", 1, 2, "\u202e note\r")
        assert "progress: b\\u001b[31m: 1 of 2, \\u202e note\\u000d; " in wait_for(capsys, "note")


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed"), OSError(28, "no space")])
def test_a_log_that_cannot_be_written_does_no_harm(monkeypatch, error):
    tried = threading.Event()

    class Broken:
        encoding = "ascii"

        def write(self, text):
            tried.set()
            raise error

    monkeypatch.setattr(sys, "stderr", Broken())
    with LogLines("a", seconds=SOON):
        assert tried.wait(20)
    assert not threads()


def test_without_standard_error_there_are_no_lines(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with LogLines("a", seconds=SOON / 10):
        time.sleep(SOON)


def test_the_work_goes_on_where_no_thread_is_to_be_had(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    ticker = Ticker(lambda: None, SOON)
    ticker.start()
    ticker.stop()


def test_every_part_of_a_command_has_lines_and_so_has_what_lies_between(capsys, monkeypatch):
    monkeypatch.setattr(lines_module, "SECONDS", SOON)
    with log_lines("pricdr train"):
        wait_for(capsys, "progress: pricdr train; ")
        with working("reading r.csv"):
            wait_for(capsys, "progress: reading r.csv; ")
        with progress_bar() as report:
            wait_for(capsys, "progress: preparing; ")
            report("target", 2, 5)
            wait_for(capsys, "progress: target: 2 of 5; ")
        wait_for(capsys, "progress: pricdr train; ")


def test_lines_are_counted_from_the_start_of_the_command_not_of_its_parts(capsys, monkeypatch):
    """Ten models of 20 seconds each are not 200 seconds of silence."""
    monkeypatch.setattr(lines_module, "SECONDS", 5 * SOON)
    seen, deadline = "", time.monotonic() + 20
    with log_lines("pricdr evaluate"):
        while "progress: reading model" not in seen:
            assert time.monotonic() < deadline
            with working("reading model"):
                time.sleep(2 * SOON)
            seen += capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["verify", "nowhere"], 2), (["nonsense"], 2)])
def test_exit_codes_and_last_lines_stay_as_they_are(tmp_path, monkeypatch, capsys, arguments, code):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lines_module, "SECONDS", 0.0001)
    assert cli.run(arguments) == code
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("progress: pricdr ")]
    assert len(err) == (code != 0)
    assert not threads()


LINES_EVERY = "import sys, pricdr.progress as lines; lines.SECONDS = {seconds}; sys.argv[0] = 'pricdr'; "


def command(seconds: float, *arguments: object, then: str = "from pricdr.cli import main; main()") -> list[str]:
    return [sys.executable, "-c", LINES_EVERY.format(seconds=seconds) + then, *map(str, arguments)]


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_read_that_blocks_has_lines_and_control_c_ends_it(tmp_path):
    os.mkfifo(tmp_path / "fifo.csv")
    publish = ("publish", "fifo.csv", "--epsilon", 4, "--delta", 1e-6, "--out", "release")
    child = subprocess.Popen(
        command(0.05, *publish),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_default_interrupt,
    )
    while "progress: reading fifo.csv; " not in child.stderr.readline():
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (130, "")
    assert err.endswith("error: interrupted; no output was left half-written\n")
    assert err.count("error") == 1


def test_somebody_who_stops_reading_the_log_does_not_stop_the_command():
    """The thread is stuck in a full pipe when the command ends: Python must still be able to leave."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    work = "import time; L = lines.LogLines('a' * 500); L.__enter__(); time.sleep(0.3); L.__exit__(None, None, None)"
    try:
        done = subprocess.run(command(0.001, then=work), stderr=writer, timeout=30, check=False)
    finally:
        os.close(writer)
        with os.fdopen(reader, "rb") as log:
            written = log.read()
    assert done.returncode == 0
    assert len(written) > 500
    assert b"Fatal" not in written


def test_a_forked_child_neither_writes_lines_nor_waits_for_them():
    work = (
        "import os, time\n"
        "with lines.LogLines('both'):\n"
        "    child = os.fork()\n"
        "    time.sleep(0.4 if child else 0.8)\n"
        "    if child == 0: os.write(1, b'child\\n')\n"
        "if child == 0: os._exit(7)\n"
        "sys.stderr.write('parent left\\n')\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        command(0.02, then=f"exec({work!r})"), capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (7, "child\n")
    assert "progress: both" in done.stderr
    assert done.stderr.endswith("parent left\n")
