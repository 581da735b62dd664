"""What people see: plain lines on standard output, warnings, errors and progress on standard error."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from pricdr.errors import printable

if TYPE_CHECKING:
    from pricdr.progress import Progress


def say(*lines: str) -> None:
    """Write one line per argument to the user: nothing from outside begins a line of its own."""
    _write(sys.stdout, "\n".join(map(printable, lines)))


def warn(text: str) -> None:
    """Write something the user should know that does not stop the command."""
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
def working(what: str) -> Iterator[None]:
    """Yield a sign of life on a terminal for work that cannot say how far it is."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return

    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):  # a Text: brackets in it are no markup
        yield


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """Yield a bar with the time left on a terminal; silent where standard error is a file or a pipe."""
    from pricdr.progress import silent

    if sys.stderr is None or not sys.stderr.isatty():
        yield silent
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<12}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def report(what: str, done: int, total: int, note: str = "") -> None:
            what, note = printable(what), printable(note)
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total, note=note)
            bar.update(tasks[what], completed=done, total=total, note=note)

        yield report


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
