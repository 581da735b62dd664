"""Progress without a terminal: a line every 30 seconds, for reading in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Final, NamedTuple, Self, TextIO

from pricdr.errors import printable
from pricdr.progress.ticker import Ticker

SECONDS: Final = 30.0
"""Seconds between two lines, and before the first: short work writes none."""


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
    line = f"progress: {last}; {timedelta(seconds=int(seconds))}\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def elapsed(started: float) -> str:
    """Return the time since ``started``, a reading of the monotonic clock, as hours, minutes and seconds."""
    return str(timedelta(seconds=int(time.monotonic() - started)))
