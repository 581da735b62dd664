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


class ServerLog(logging.Handler):
    """Writes events to a stream, in order; also what uvicorn and asyncio report, without what may quote a request.

    Args:
        stream: where to write; None discards all events.
        event_line: formats an event, given its name and facts, as one line of JSON.
        requests: whether to log every request.
    """

    def __init__(
        self, stream: TextIO | None = None, event_line: Callable[..., str] = str, *, requests: bool = True
    ) -> None:
        super().__init__(logging.ERROR)
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

    def fault(self, error: Exception) -> None:
        """Log an error of ours: its type and the file and line, which cannot quote an id as its message can."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        self.event("fault", error=type(error).__name__, place=place)

    def emit(self, record: logging.LogRecord) -> None:
        """Log the type of an error that a library reports, without its message."""
        kind = record.exc_info[0] if record.exc_info else None
        self.event("server fault", error=None if kind is None else kind.__name__, line=record.lineno)

    def take_over(self) -> None:
        """Log what uvicorn and asyncio report; without a handler, Python would print it, which is not JSON."""
        for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi", "asyncio"):
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [self], False
            logger.setLevel(logging.ERROR)

    def close(self) -> None:
        """Write what is left, taking at most a second or two."""
        super().close()
        if self._thread.is_alive():
            try:
                self._queue.put(None, timeout=1)
            except Full:
                return
            self._thread.join(timeout=1)

    def _write(self) -> None:
        assert self._stream is not None
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
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()
            except (OSError, ValueError):  # a log without a reader is not a reason to stop serving
                self._stream = None
                return
