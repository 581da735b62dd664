"""What people see: plain lines on standard output, warnings, errors and progress on standard error.

With ``--log-json`` nobody is there to see it: standard error then has JSON lines, and there is no text for people.
"""

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TextIO

from pricdr import progress
from pricdr.cli.json_log import WITHHELD, event_line, failure, is_on
from pricdr.errors import printable
from pricdr.progress import PREPARING, LastReport, Progress, display, on_terminal

_LINES: Final[ContextVar[LastReport | None]] = ContextVar("_LINES", default=None)
"""Where the command that runs reports to; None on a terminal."""


def say(*lines: str) -> None:
    """Write one line per argument to the user: nothing from outside begins a line of its own."""
    if not is_on():
        answer(*lines)


def answer(*lines: str) -> None:
    """Write to standard output what a program asked for, one line per argument."""
    _write(sys.stdout, "\n".join(map(printable, lines)))


def warn(text: str) -> None:
    """Write something the user should know that does not stop the command."""
    if not is_on():
        _write(sys.stderr, f"warning: {printable(text)}")


def fail(text: str, code: int, error: BaseException | None = None) -> int:
    """Write one line that says what is wrong, and return the exit code.

    Args:
        text: what is wrong, for people.
        code: the exit code.
        error: what was raised, if anything; a log that is collected says no more of it than it may.
    """
    line = re.sub(r"\s*[\r\n]\s*", " ", text.strip())
    if is_on():
        told = {"message": line} if error is None else {"message": WITHHELD, **failure(error)}
        log_event("failed", **{**told, "exit_code": code})
    else:
        _write(sys.stderr, f"error: {printable(line)}")
    return code


def log_event(event: str, **facts: object) -> None:
    """Write one event to standard error as a line of JSON, where ``--log-json`` asks for that."""
    if is_on():
        _write(sys.stderr, event_line(event, **facts))


@contextmanager
def log_lines(command: str) -> Iterator[None]:
    """Let the log have a line now and then while a command runs, where standard error is no terminal."""
    if on_terminal() and not is_on():
        yield
        return
    with progress.log_lines(command, _log_progress if is_on() else progress.write_line) as lines:
        before = _LINES.set(lines)
        try:
            yield
        finally:
            _LINES.reset(before)


@contextmanager
def progress_bar(what: str = PREPARING) -> Iterator[Progress]:
    """Yield a bar with the time left on a terminal, and elsewhere the log lines of the command.

    Args:
        what: what is shown until the first report.
    """
    lines = _LINES.get()
    with display(what) if lines is None else lines.part(what) as report:
        yield report


@contextmanager
def working(what: str) -> Iterator[None]:
    """Yield a sign of life for work that cannot say how far it is."""
    with progress_bar(what):
        yield


def _log_progress(last: LastReport) -> None:
    """Log a share, not counts: how many ratings were read is for the screen of their owner."""
    what, done, total, _ = last.report
    share, seconds = round(done / total, 2) if total else None, round(time.monotonic() - last.started)
    _write(sys.stderr, event_line("progress", what=printable(what), share=share, seconds=seconds))


def _write(stream: TextIO | None, text: str) -> None:
    """Write a line that any terminal takes. Nobody listening (``| head``) is no reason to give up the work."""
    if stream is None:  # closed before the process began
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, stream.fileno())
        os.close(silence)
