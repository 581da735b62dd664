"""Progress of long work: the library reports it, and a terminal, a notebook or a log shows it.

Without a terminal a log gets a line every 30 seconds.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self, TextIO

from pricdr.errors import ParameterError, printable
from pricdr.markup import notebook_html

PREPARING: Final = "preparing"
"""What is shown until the first report."""
SECONDS: Final = 30.0
"""Seconds between two lines, and before the first: short work writes none."""
_REDRAW_INTERVAL: Final = 0.25
"""Seconds between two updates; with more of them a browser falls behind."""
_JOIN_TIMEOUT: Final = 1.0
"""Seconds to wait for the last tick, which may be blocked: its output may no longer be read."""


class Progress(Protocol):
    """A callback for long work. Pass one as ``progress``, or ``True`` to see a progress bar."""

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Report that ``done`` of ``total`` pieces of ``what`` are finished, with a fraction for the current piece.

        A ``total`` of 0 means that the amount of work is unknown. ``note`` adds details, such as the loss.
        """
        ...


def silent(what: str, done: float, total: int, note: str = "") -> None:
    """Ignore a report."""


@contextmanager
def shown(progress: Progress | bool, what: str = PREPARING) -> Iterator[Progress]:
    """Yield the callback for a ``progress`` argument: a display for True, none for False, or the caller's own.

    Args:
        progress: the argument of a public function.
        what: the text that is shown until the first report.
    """
    if progress is True:
        with display(what) as report:
            yield report
    elif progress is False:
        yield silent
    elif callable(progress):
        yield progress
    else:
        raise ParameterError(f"progress must be True, False or a function, got {progress!r:.40}")


def display(what: str) -> AbstractContextManager[Progress]:
    """Return the display for the current environment; ``what`` is shown until the first report."""
    if in_notebook():
        return NotebookBars(what)
    if on_terminal():
        return terminal_bars(what)
    return LogLines(what)


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
    from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<12}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    bars = Bars(*columns, console=Console(stderr=True), transient=True)
    tasks: dict[str, TaskID] = {}
    totals: dict[str, int] = {}

    def report(what: str, done: float, total: int, note: str = "") -> None:
        what, note = printable(what), printable(note)
        for other in [name for name, known in totals.items() if not known and name != what]:
            # Work of unknown length is finished when something else is reported.
            del totals[other]
            bars.remove_task(tasks.pop(other))
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total or None, note=note)
        totals[what] = total
        bars.update(tasks[what], completed=done, total=total or None, note=note)

    report(what, 0, 0)
    with bars:
        yield report


class NotebookBars:
    """Progress bars below the running cell, which stay there; an instance is a ``Progress`` callback.

    They are drawn as HTML that is sent repeatedly: unlike widgets, HTML needs no extra package, and is still there when
    the notebook is opened again.
    """

    def __init__(self, what: str, *, seconds: float = _REDRAW_INTERVAL) -> None:
        self._reports = {what: Report(what)}
        self._started = time.monotonic()
        self._ticker = Ticker(self._redraw, seconds)
        self._handle: Any = None

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Store a report until the bars are redrawn."""
        kept = {name: report for name, report in self._reports.items() if report.total or name == what}
        # Replaced, not changed: the other thread may be drawing it right now.
        self._reports = {**kept, what: Report(what, done, total, note)}

    def __enter__(self) -> Self:
        """Draw the first bar."""
        from IPython.display import display as show

        self._handle = show(self._drawn(), raw=True, display_id=True)
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Draw the bars one last time, with what was reached."""
        self._ticker.stop()
        with suppress(Exception):  # a broken display must not fail the work
            self._redraw(over=True)

    def _redraw(self, *, over: bool = False) -> None:
        if self._handle is not None:
            self._handle.update(self._drawn(over=over), raw=True)

    def _drawn(self, *, over: bool = False) -> dict[str, str]:
        reports, time_taken = list(self._reports.values()), _elapsed(time.monotonic() - self._started)
        lines = [*map(str, reports), time_taken]
        drawn = notebook_html("progress", reports=reports, elapsed=time_taken, over=over)
        return {"text/html": drawn, "text/plain": "\n".join(lines)}


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


class LogLines:
    """Writes the last report to standard error every 30 seconds while open; an instance is a ``Progress`` callback."""

    def __init__(
        self,
        what: str,
        *,
        seconds: float | None = None,
        write: Callable[[Report, float], None] | None = None,
    ) -> None:
        """Prepare to write lines; nothing is written before :meth:`__enter__`.

        Args:
            what: the text of lines before the first report.
            seconds: the time between two lines.
            write: called with the last report and the seconds since the start, instead of writing a line.
        """
        self._last = Report(what)
        self._write_report = write or _write_text
        self._started = time.monotonic()
        self._ticker = Ticker(self._write, SECONDS if seconds is None else seconds)

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Store a report for the next line."""
        self._last = Report(what, done, total, note)

    def __enter__(self) -> Self:
        """Start to write lines."""
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop writing lines."""
        self._ticker.stop()

    @contextmanager
    def part(self, what: str) -> Iterator[Self]:
        """Report one part of the work inside the block; afterwards the previous report is back."""
        before, self._last = self._last, Report(what)
        try:
            yield self
        finally:
            self._last = before

    def _write(self) -> None:
        self._write_report(self._last, time.monotonic() - self._started)


def _write_text(last: Report, seconds: float) -> None:
    stream: TextIO | None = sys.stderr
    if stream is None:
        return
    line = f"progress: {last}; {_elapsed(seconds)}\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _elapsed(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    return str(timedelta(seconds=int(seconds)))


class Ticker:
    """Calls ``tick`` every ``seconds`` on its own thread, until it is stopped."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick, self._seconds = tick, seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._owner = os.getpid()

    def start(self) -> None:
        """Start the timer; the first tick is after ``seconds``."""
        thread = threading.Thread(target=self._run, name="pricdr-progress", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread available: the work continues without a display
            return
        self._thread = thread

    def stop(self) -> None:
        """Stop the timer and wait a moment for a tick that is running."""
        # A forked child does not have the thread, and may have inherited its lock in a locked state.
        if self._thread is None or self._owner != os.getpid():
            return
        self._stopped.set()
        self._thread.join(_JOIN_TIMEOUT)

    def _run(self) -> None:
        # Signals must reach the working thread: one that arrived here would not wake it from a blocked read.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._stopped.wait(self._seconds):
            try:
                self._tick()
            except Exception:
                return  # a broken display must not fail the work
