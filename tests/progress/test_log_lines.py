"""Off the terminal: a line now and then, also while the work is inside one call, and none that does harm."""

import fcntl
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from pricdr import cli, progress
from pricdr.cli import console
from pricdr.progress import log_lines

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


@pytest.fixture
def soon(monkeypatch):
    """Lines come at once, not every 30 seconds."""
    assert progress.SECONDS == 30
    monkeypatch.setattr(progress, "SECONDS", SOON)


def test_lines_say_what_is_done_how_far_the_note_and_how_long(soon, capsys):
    with log_lines("preparing") as report:
        assert re.fullmatch(r"(progress: preparing; 0:00:0\d\n)+", wait_for(capsys, "preparing"))
        report("target", 1234.5, 5000, "loss 0.3")
        assert "progress: target: 1,234 of 5,000, loss 0.3; 0:00:0" in wait_for(capsys, "target")
        report("b\nverified: \x1b[31m", 0, 0, "\u202e note\r")
        assert "progress: b\\u000averified: \\u001b[31m: \\u202e note\\u000d; " in wait_for(capsys, "note")
        assert threads()
    assert not threads()
    capsys.readouterr()
    time.sleep(4 * SOON)
    assert capsys.readouterr().err == ""


def test_the_first_line_comes_after_half_a_minute_so_short_work_has_none_and_does_not_wait_for_it(capsys):
    started = time.monotonic()
    with log_lines("short"):
        time.sleep(SOON)
    assert time.monotonic() - started < 10
    assert capsys.readouterr().err == ""


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error, self.tried = error, threading.Event()

    def write(self, text):
        self.tried.set()
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed"), OSError(28, "no space")])
def test_a_log_that_cannot_be_written_does_no_harm(soon, monkeypatch, error):
    monkeypatch.setattr(sys, "stderr", Broken(error))
    with log_lines("a"):
        assert sys.stderr.tried.wait(20)
    monkeypatch.setattr(sys, "stderr", None)  # closed before the process began
    with log_lines("a"):
        time.sleep(2 * SOON)
    assert not threads()


def test_the_work_goes_on_where_no_thread_is_to_be_had(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with log_lines("a") as report:
        report("b", 1, 2)


def test_every_part_of_a_command_has_lines_and_so_has_what_lies_between(soon, capsys):
    with console.log_lines("pricdr train"):
        wait_for(capsys, "progress: pricdr train; ")
        with console.progress_bar("reading r.csv"):
            wait_for(capsys, "progress: reading r.csv; ")
        with console.progress_bar() as report:
            wait_for(capsys, "progress: preparing; ")
            report("target", 2, 5)
            wait_for(capsys, "progress: target: 2 of 5; ")
        wait_for(capsys, "progress: pricdr train; ")


def test_lines_are_counted_from_the_start_of_the_command_not_of_its_parts(capsys, monkeypatch):
    """Ten models of 20 seconds each are not 200 seconds of silence."""
    monkeypatch.setattr(progress, "SECONDS", 5 * SOON)
    seen, deadline = "", time.monotonic() + 20
    with console.log_lines("pricdr evaluate"):
        while "progress: reading model" not in seen:
            assert time.monotonic() < deadline
            with console.progress_bar("reading model"):
                time.sleep(2 * SOON)
            seen += capsys.readouterr().err


def test_lines_change_neither_the_exit_code_nor_the_last_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "SECONDS", 0.0001)
    assert cli.run(["verify", "nowhere"]) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("progress: pricdr ")]
    assert len(err) == 1
    assert not threads()


def command(seconds: float, work: str) -> list[str]:
    return [sys.executable, "-c", f"import sys, pricdr.progress as lines; lines.SECONDS = {seconds}; exec({work!r})"]


def test_somebody_who_stops_reading_the_log_does_not_stop_the_command():
    """The thread is stuck in a full pipe when the command ends: Python must still be able to leave."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    work = "import time\nwith lines.log_lines('a' * 500): time.sleep(0.3)"
    try:
        done = subprocess.run(command(0.001, work), stderr=writer, timeout=30, check=False)
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
        "with lines.log_lines('both'):\n"
        "    child = os.fork()\n"
        "    time.sleep(0.4 if child else 0.8)\n"
        "    if child == 0: os.write(1, b'child\\n')\n"
        "if child == 0: os._exit(7)\n"
        "sys.stderr.write('parent left\\n')\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(command(0.02, work), capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (7, "child\n")
    assert "progress: both" in done.stderr
    assert done.stderr.endswith("parent left\n")
