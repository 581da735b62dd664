"""What people see: plain lines on standard output, warnings, errors and progress on standard error.

With ``--log-json`` nobody is there to see it: standard error then has JSON lines, one for each event, and there is no
text for people. Logs are collected and kept for years, so these lines, and those of ``log`` in ``--config``, hold what
was asked for and what a certificate discloses, and nothing else that was read off the ratings: no counts, and no
message that may quote a row.
"""

import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TextIO

from pricdr import progress
from pricdr.errors import PriCDRError, printable
from pricdr.progress import PREPARING, LastReport, Progress, display, on_terminal

LOG_JSON: Final = "--log-json"
_WITHHELD: Final = "withheld, it may quote the ratings: run the same command with --dry-run and without --log-json"


@dataclass
class _Screen:
    """How the command that runs writes."""

    json: bool = False
    """Whether standard error has JSON lines instead of text for people."""
    spent: dict[str, object] | None = None
    """The line that this command has added to a ledger."""
    lines: LastReport | None = None
    """Where progress is reported to; None on a terminal."""


_FOR_PEOPLE: Final = _Screen()
_SCREEN: Final[ContextVar[_Screen]] = ContextVar("_SCREEN", default=_FOR_PEOPLE)


@contextmanager
def screen(*, json: bool) -> Iterator[None]:
    """Write JSON lines instead of text for people until the block ends, if ``json``."""
    before = _SCREEN.set(_Screen(json))
    try:
        yield
    finally:
        _SCREEN.reset(before)


def note_spent(**line: object) -> None:
    """Let a failure of this command say what it had spent: the line of its ledger."""
    _SCREEN.get().spent = line


def say(*lines: str) -> None:
    """Write one line per argument to the user: nothing from outside begins a line of its own."""
    if not _SCREEN.get().json:
        answer(*lines)


def answer(*lines: str) -> None:
    """Write to standard output what a program asked for, one line per argument."""
    _write(sys.stdout, "\n".join(map(printable, lines)))


def say_list(lines: Iterable[str], indent: str = "  ") -> None:
    """Write each line as an item of a list, wrapped."""
    for line in lines:
        say(*textwrap.wrap(line, width=100, initial_indent=f"{indent}- ", subsequent_indent=f"{indent}  "))


def warn(text: str) -> None:
    """Write something the user should know that does not stop the command."""
    if not _SCREEN.get().json:
        _write(sys.stderr, f"warning: {printable(text)}")


def fail(text: str, code: int, error: BaseException | None = None) -> int:
    """Write one line that says what is wrong, and return the exit code.

    Args:
        text: what is wrong, for people.
        code: the exit code.
        error: what was raised, if anything; a log that is collected says no more of it than it may.
    """
    line = re.sub(r"\s*[\r\n]\s*", " ", text.strip())
    if _SCREEN.get().json:
        told = {"message": line} if error is None else {"message": _WITHHELD, **failure(error)}
        log_event("failed", **{**told, "exit_code": code})
    else:
        _write(sys.stderr, f"error: {printable(line)}")
    return code


def log_event(event: str, **facts: object) -> None:
    """Write one event to standard error as a line of JSON, where ``--log-json`` asks for that."""
    if _SCREEN.get().json:
        _write(sys.stderr, event_line(event, **facts))


def event_line(event: str, **facts: object) -> str:
    """Return one event as a line of JSON, in ASCII, without the line break."""
    if event == "failed" and (spent := _SCREEN.get().spent):
        facts["spent"] = spent
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "process": os.getpid(), "event": event, **facts})


def failure(error: BaseException) -> dict[str, object]:
    """Return what a log says about an error: type, exit code, and the message unless it may quote the ratings."""
    facts: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, PriCDRError):
        facts["exit_code"] = error.exit_code
        if error.disclosed is not None:
            facts["message"] = error.disclosed
    elif isinstance(error, OSError) and error.errno is not None:
        facts["message"] = os.strerror(error.errno)  # not its own text, which may be anything
    return facts


@contextmanager
def log_lines(command: str) -> Iterator[None]:
    """Let the log have a line now and then while a command runs, where standard error is no terminal."""
    shown = _SCREEN.get()
    if on_terminal() and not shown.json:
        yield
        return
    with progress.log_lines(command, _log_progress if shown.json else progress.write_line) as shown.lines:
        try:
            yield
        finally:
            shown.lines = None


@contextmanager
def progress_bar(what: str = PREPARING) -> Iterator[Progress]:
    """Yield a bar with the time left on a terminal, and elsewhere the log lines of the command.

    Work that cannot say how far it is reports nothing, and still shows a sign of life.

    Args:
        what: what is shown until the first report.
    """
    lines = _SCREEN.get().lines
    with display(what) if lines is None else lines.part(what) as report:
        yield report


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
