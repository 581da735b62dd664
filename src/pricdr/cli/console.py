"""What people see: plain lines on standard output, warnings, errors and progress on standard error.

With ``--log-json`` standard error has JSON lines instead, one for each event. Logs are kept for years: these lines, and
those of ``log`` in ``--config``, hold what was asked for and what a certificate discloses, and nothing else that was
read off the ratings: no counts, and no message that may quote a row.
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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from pricdr import progress
from pricdr.errors import OutputError, ParameterError, PriCDRError, printable
from pricdr.files import PRIVATE
from pricdr.progress import PREPARING, LastReport, Progress, display, on_terminal

LOG_JSON: Final = "--log-json"
_WITHHELD: Final = "withheld, it may quote the ratings: run the same command with --dry-run and without --log-json"
_LOG_BEGINS: Final = b'{"time": '


@dataclass
class _Screen:
    """How the command that runs writes."""

    json: bool = False  # standard error has JSON lines, and there is no text for people
    log: tuple[Path, int] | None = None  # a file that events are appended to, and its descriptor
    spent: dict[str, object] = field(default_factory=dict)  # the line added to a ledger, as a failure reports it
    lines: LastReport | None = None  # where progress is reported to; None on a terminal


_FOR_PEOPLE: Final = _Screen()
_SCREEN: Final[ContextVar[_Screen]] = ContextVar("_SCREEN", default=_FOR_PEOPLE)


@contextmanager
def screen(*, json: bool) -> Iterator[None]:
    """Write JSON lines instead of text for people until the block ends, if ``json``."""
    own = _Screen(json)
    before = _SCREEN.set(own)
    try:
        yield
    finally:
        _SCREEN.reset(before)
        if own.log is not None:
            os.close(own.log[1])


def open_log(path: Path) -> None:
    """Append events to a private file too, if new or a log: a line would damage a ledger or ratings."""
    from pricdr.release.folder import require_outside_releases

    if path == Path("-"):
        raise ParameterError("log takes a file: only --json accepts - for standard output")
    require_outside_releases(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    if path.is_file() and os.read(descriptor, len(_LOG_BEGINS)) not in (b"", _LOG_BEGINS):
        os.close(descriptor)
        raise OutputError(f"{path} is not a log, and log would append to it: choose another file")
    _SCREEN.get().log = path, descriptor


def note_spent(**line: object) -> None:
    """Let a failure of this command say what it had spent: the line of its ledger."""
    _SCREEN.get().spent = {"spent": line}


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
    """Write one line that says what is wrong, and return the exit code; a log says no more of ``error`` than it may."""
    line = re.sub(r"\s*[\r\n]\s*", " ", text.strip())
    log_event("failed", **({"message": line} if error is None else failure(error)), exit_code=code)
    if not _SCREEN.get().json:
        _write(sys.stderr, f"error: {printable(line)}")
    return code


def log_event(event: str, **facts: object) -> None:
    """Write one event as a line of JSON, where ``--log-json`` or a log file asks for that."""
    shown = _SCREEN.get()
    line = event_line(event, **facts, **(shown.spent if event == "failed" else {}))
    if shown.json:
        _write(sys.stderr, line)
    if shown.log is not None:
        path, descriptor = shown.log
        try:
            os.write(descriptor, f"{line}\n".encode())  # in one piece: other processes may append too
        except OSError as error:  # the work already done is not lost for want of a log
            warn(f"{path} is incomplete: {error.strerror}")


def event_line(event: str, **facts: object) -> str:
    """Return one event as a line of JSON, in ASCII, without the line break."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "process": os.getpid(), "event": event, **facts})


def failure(error: BaseException) -> dict[str, str]:
    """Return what a log says about an error: its type, and the message unless it may quote the ratings."""
    message = error.disclosed if isinstance(error, PriCDRError) else None
    if isinstance(error, OSError) and error.errno is not None:
        message = os.strerror(error.errno)  # not its own text, which may be anything
    return {"error": type(error).__name__, "message": _WITHHELD if message is None else message}


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
    """Yield a bar on a terminal, elsewhere the log lines of the command; ``what`` is shown until the first report."""
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
