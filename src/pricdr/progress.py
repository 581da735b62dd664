"""Progress of long work: the library reports it, and a terminal, a notebook or (every 30 seconds) a log shows it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import Final, NamedTuple, Protocol, Self

from pricdr.errors import ParameterError, printable
from pricdr.pages import notebook

PREPARING: Final = "preparing"  # what is shown until the first report
SECONDS: Final = 30.0  # seconds between two lines, and before the first: short work writes none
REDRAW_SECONDS: Final = 0.25  # seconds between two updates of a notebook; with more of them a browser falls behind
_JOIN_TIMEOUT: Final = 1.0  # seconds to wait for the last tick, which may be blocked: its output may no longer be read


class Progress(Protocol):
    """A callback for long work. Pass one as ``progress``, or ``True`` to see a progress bar."""

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Report that ``done`` of ``total`` pieces of ``what`` are finished, with a fraction for the current piece.

        A ``total`` of 0 means that the amount of work is unknown. ``note`` adds details, such as the loss.
        """
        ...


def silent(what: str, done: float, total: int, note: str = "") -> None:
    """Ignore a report."""


def shown(progress: Progress | bool, what: str = PREPARING) -> AbstractContextManager[Progress]:
    """Return what yields the callback for a ``progress`` argument: a display for True, none for False, or its own."""
    if progress is True:
        return display(what)
    if progress is False:
        return nullcontext(silent)
    if callable(progress):
        return nullcontext(progress)
    raise ParameterError(f"progress must be True, False or a function, got {progress!r:.40}")


def display(what: str) -> AbstractContextManager[Progress]:
    """Return the display for the current environment; ``what`` is shown until the first report."""
    if in_notebook():
        return notebook_bars(what)
    return terminal_bars(what) if on_terminal() else log_lines(what)


def on_terminal() -> bool:
    """Return whether standard error is a terminal that can redraw a line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


def in_notebook() -> bool:
    """Return whether this runs in a notebook kernel; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")  # a notebook has it loaded
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def terminal_bars(what: str) -> Iterator[Progress]:
    """Yield progress bars with the remaining time on standard error; they are erased at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bars, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<12}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    bars = Bars(*columns, console=Console(stderr=True), transient=True)

    def report(what: str, done: float, total: int, note: str = "") -> None:
        what, note = printable(what), printable(note)
        known = {task.description: task for task in bars.tasks}
        for name, task in known.items():
            if name != what and task.total is None:  # work of unknown length ends where something else is reported
                bars.remove_task(task.id)
        shown = known[what].id if what in known else bars.add_task(what, total=None, note=note)
        bars.update(shown, completed=done, total=total or None, note=note)

    report(what, 0, 0)
    with bars:
        yield report


@contextmanager
def notebook_bars(what: str) -> Iterator[Progress]:
    """Yield progress bars below the running cell: HTML, which unlike widgets needs no package and outlasts the run."""
    from IPython.display import display as show

    reports = {what: Report(what)}
    started = time.monotonic()

    def report(what: str, done: float, total: int, note: str = "") -> None:
        nonlocal reports  # replaced, not changed: the other thread may be drawing it right now
        kept = {name: report for name, report in reports.items() if report.total or name == what}
        reports = {**kept, what: Report(what, done, total, note)}

    def drawn(*, over: bool = False) -> dict[str, str]:
        shown, elapsed = list(reports.values()), _elapsed(started)
        html = notebook("progress", reports=shown, elapsed=elapsed, over=over)
        return {"text/html": html, "text/plain": "\n".join([*map(str, shown), elapsed])}

    handle = show(drawn(), raw=True, display_id=True)
    try:
        with ticking(lambda: handle.update(drawn(), raw=True), REDRAW_SECONDS):
            yield report
    finally:
        with suppress(Exception):  # a broken display must not fail the work
            handle.update(drawn(over=True), raw=True)


class Report(NamedTuple):
    """The last report about one piece of work."""

    what: str
    done: float = 0
    total: int = 0
    note: str = ""

    def __str__(self) -> str:
        """Return the report as one line of text.

        >>> str(Report("target", 12.5, 500, "loss 0.3")), str(Report("reading r.csv"))
        ('target: 12 of 500, loss 0.3', 'reading r.csv')
        """
        counts = f"{int(self.done):,} of {self.total:,}" if self.total else ""
        details = ", ".join(filter(None, [counts, self.note]))
        return printable(f"{self.what}: {details}" if details else self.what)


class LastReport:
    """What is being done right now; an instance is a ``Progress`` callback."""

    def __init__(self, what: str) -> None:
        self.report = Report(what)
        self.started: Final = time.monotonic()

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Replace the last report."""
        self.report = Report(what, done, total, note)

    @contextmanager
    def part(self, what: str) -> Iterator[Self]:
        """Report one part of the work inside the block; afterwards the previous report is back."""
        before, self.report = self.report, Report(what)
        try:
            yield self
        finally:
            self.report = before


def write_line(last: LastReport) -> None:
    """Write the last report to standard error; where there is none, the thread that writes ends with an error."""
    sys.stderr.write(f"progress: {last.report}; {_elapsed(last.started)}\n")
    sys.stderr.flush()


@contextmanager
def log_lines(what: str, write: Callable[[LastReport], None] = write_line) -> Iterator[LastReport]:
    """Yield a callback, and ``write`` its last report every 30 seconds inside the block."""
    last = LastReport(what)
    with ticking(lambda: write(last), SECONDS):
        yield last


def _elapsed(started: float) -> str:
    """Return the time since then as hours, minutes and seconds."""
    return str(timedelta(seconds=int(time.monotonic() - started)))


@contextmanager
def ticking(tick: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call ``tick`` every ``seconds`` inside the block, on a thread of its own; an error there ends the calls alone."""
    stopped, owner = threading.Event(), os.getpid()

    def run() -> None:
        # Signals must reach the working thread: one that arrived here would not wake it from a blocked read.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with suppress(Exception):
            while not stopped.wait(seconds):
                tick()

    thread = threading.Thread(target=run, name="pricdr-progress", daemon=True)
    with suppress(RuntimeError):  # no thread is to be had: the work goes on without a display
        thread.start()
    try:
        yield
    finally:
        # A forked child does not have the thread, and may have inherited its lock in a locked state.
        if thread.ident is not None and owner == os.getpid():
            stopped.set()
            thread.join(_JOIN_TIMEOUT)
