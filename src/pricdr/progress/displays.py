"""Displays of progress: bars on a terminal or in a notebook, and lines in a log everywhere else."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self

from pricdr.errors import printable
from pricdr.notebook import progress_html
from pricdr.progress import Progress
from pricdr.progress.log_lines import LogLines, Report, elapsed
from pricdr.progress.ticker import Ticker

_REDRAW_INTERVAL: Final = 0.25
"""Seconds between two updates; with more of them a browser falls behind."""


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
        reports, time_taken = list(self._reports.values()), elapsed(self._started)
        lines = [*map(str, reports), time_taken]
        return {"text/html": progress_html(reports, time_taken, over=over), "text/plain": "\n".join(lines)}
