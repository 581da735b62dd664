"""Structured logs: one JSON line for each event, written by a thread, so a slow log reader never delays an answer."""

import logging
from collections.abc import Callable
from queue import Full, Queue
from threading import Thread
from typing import Final, TextIO, TypeAlias

_MAX_QUEUED: Final = 10_000
"""Events that may wait to be written; when the log reader falls behind, further ones are only counted."""
Report: TypeAlias = Callable[..., None]
"""Called with the name of an event and facts about it."""


class ServerLog:
    """Writes events to a stream, in order.

    Args:
        stream: where to write; None discards all events.
        event_line: formats an event, given its name and facts, as one line of JSON.
        requests: whether to log every request.
    """

    def __init__(
        self, stream: TextIO | None = None, event_line: Callable[..., str] = str, *, requests: bool = True
    ) -> None:
        self._stream, self._event_line, self.requests = stream, event_line, requests
        self._queue: Queue[tuple[str, dict[str, object]] | None] = Queue(_MAX_QUEUED)
        self._lost = 0
        self._thread = Thread(target=self._write, name="log", daemon=True)
        if stream is not None:
            self._thread.start()

    def event(self, event: str, **facts: object) -> None:
        """Log an event."""
        try:
            if self._stream is not None:
                self._queue.put_nowait((event, facts))
        except Full:
            self._lost += 1

    def close(self) -> None:
        """Write what is left, taking at most a second or two."""
        if self._thread.is_alive():
            try:
                self._queue.put(None, timeout=1)
            except Full:
                return
            self._thread.join(timeout=1)

    def _write(self) -> None:
        closed = False
        while not closed:
            waiting = [self._queue.get()]
            waiting += [self._queue.get_nowait() for _ in range(self._queue.qsize())]  # nobody else takes from it
            closed = waiting[-1] is None
            lines = [self._event_line(item[0], **item[1]) for item in waiting if item is not None]
            if self._lost:
                lost, self._lost = self._lost, 0
                lines.append(self._event_line("lines lost", count=lost))
            try:
                assert self._stream is not None
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()
            except (OSError, ValueError):  # a log without a reader is not a reason to stop serving
                self._stream = None
                return


class FaultHandler(logging.Handler):
    """Logs the type of an error that uvicorn or asyncio reports, without its message, which may quote a request."""

    def __init__(self, log: ServerLog) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log one error."""
        kind = record.exc_info[0] if record.exc_info else None
        self._log.event("server fault", error=None if kind is None else kind.__name__, line=record.lineno)


def location_of(error: BaseException) -> str:
    """Return the file and line that raised an error: unlike its message, they cannot quote an id."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
