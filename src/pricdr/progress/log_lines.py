"""Progress where nobody watches: a line every half a minute, for whoever reads the log afterwards."""

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
"""Between two lines, and before the first: short work leaves none."""


class Report(NamedTuple):
    """What was reported last about one piece of work."""

    what: str
    done: float = 0
    total: int = 0
    note: str = ""

    def __str__(self) -> str:
        """Return the report in words.

        >>> str(Report("target", 12.5, 500, "loss 0.3")), str(Report("reading r.csv"))
        ('target: 12 of 500, loss 0.3', 'reading r.csv')
        """
        how_far = [f"{int(self.done):,} of {self.total:,}"] if self.total else []
        details = ", ".join([*how_far, *([self.note] if self.note else [])])
        return printable(f"{self.what}: {details}" if details else self.what)


class LogLines:
    """Writes the last report to standard error every 30 seconds, while it is open; itself a ``Progress``."""

    def __init__(
        self,
        what: str,
        *,
        seconds: float | None = None,
        write: Callable[[Report, float], None] | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            what: what the lines say until the first report.
            seconds: between two lines.
            write: called with the last report and the seconds since the start, in place of a line of text.
        """
        self._last = Report(what)
        self._write_report = write or _write_text
        self._started = time.monotonic()
        self._ticker = Ticker(self._write, SECONDS if seconds is None else seconds)

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Remember a report for the next line."""
        self._last = Report(what, done, total, note)

    def __enter__(self) -> Self:
        """Begin to write lines."""
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write no more."""
        self._ticker.stop()

    @contextmanager
    def part(self, what: str) -> Iterator[Self]:
        """Yield the same lines for one part of the work; afterwards they say again what they said before."""
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
