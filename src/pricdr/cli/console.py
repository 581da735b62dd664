"""What people see: plain lines on standard output, warnings, errors and progress on standard error."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TextIO

from pricdr.cli.processes import is_first
from pricdr.errors import printable
from pricdr.progress import PREPARING, Progress, silent
from pricdr.progress.displays import display, on_terminal
from pricdr.progress.log_lines import LogLines

_LINES: Final[ContextVar[LogLines | None]] = ContextVar("_LINES", default=None)
"""Where the command that runs reports to; None on a terminal."""


def say(*lines: str) -> None:
    """Write one line per argument to the user: nothing from outside begins a line of its own."""
    if is_first():
        _write(sys.stdout, "\n".join(map(printable, lines)))


def warn(text: str) -> None:
    """Write something the user should know that does not stop the command."""
    if is_first():
        _write(sys.stderr, f"warning: {printable(text)}")


def fail(text: str, code: int) -> int:
    """Write one line that says what is wrong, and return the exit code."""
    line = re.sub(r"\s*[\r\n]\s*", " ", text.strip())
    _write(sys.stderr, f"error: {printable(line)}")
    return code


def heed_interrupts() -> None:
    """Let Ctrl-C end a blocked read or lock at once."""
    # polars has blocked calls resumed when it is imported: a later import would undo this.
    import polars  # noqa: F401

    signal.siginterrupt(signal.SIGINT, True)


@contextmanager
def log_lines(command: str) -> Iterator[None]:
    """Let the log have a line now and then while a command runs, where standard error is no terminal."""
    if on_terminal() or not is_first():
        yield
        return
    with LogLines(command) as lines:
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
    if not is_first():
        yield silent
        return
    lines = _LINES.get()
    with display(what) if lines is None else lines.part(what) as progress:
        yield progress


@contextmanager
def working(what: str) -> Iterator[None]:
    """Yield a sign of life for work that cannot say how far it is."""
    with progress_bar(what):
        yield


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
