"""What people see: plain lines on standard output, warnings, errors and progress on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pricdr.blocks import Progress


def say(text: str) -> None:
    """One or more lines for the user."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """Something the user should know that does not stop the command."""
    sys.stderr.write(f"warning: {text}\n")


def fail(text: str, code: int) -> int:
    """One line that says what is wrong; returns the exit code."""
    sys.stderr.write("error: " + " ".join(text.split()) + "\n")
    return code


@contextmanager
def progress_bar() -> Iterator["Progress"]:
    """A bar with the time left on a terminal; silent where standard error is a file or a pipe."""
    from pricdr.blocks import silent

    if not sys.stderr.isatty():
        yield silent
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report
