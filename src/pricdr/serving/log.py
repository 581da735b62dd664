"""One JSON line for each event, written by a thread, so a slow log reader never delays an answer."""

import logging
from collections.abc import Callable
from contextlib import suppress
from queue import Full, Queue
from threading import Thread
from traceback import extract_tb
from typing import Final, TextIO, TypeAlias

_MAX_QUEUED: Final = 10_000  # lines that may wait to be written; further ones are only counted
Report: TypeAlias = Callable[..., None]  # called with the name of an event and facts about it


class ServerLog(logging.Handler):
    """Writes events to a stream, if any; also what uvicorn and asyncio report, but not their messages."""

    def __init__(
        self, stream: TextIO | None = None, event_line: Callable[..., str] = str, *, requests: bool = True
    ) -> None:
        super().__init__(logging.ERROR)
        self._stream, self._event_line, self.requests = stream, event_line, requests
        self._queue, self._lost = Queue[str | None](_MAX_QUEUED), 0
        self._thread = Thread(target=self._write, args=[stream], name="log", daemon=True)
        if stream is not None:
            self._thread.start()

    def event(self, event: str, **facts: object) -> None:
        """Log an event."""
        if self._stream is None:
            return
        try:
            if self._lost:
                self._queue.put_nowait(self._event_line("lines lost", count=self._lost))
                self._lost = 0
            self._queue.put_nowait(self._event_line(event, **facts))
        except Full:
            self._lost += 1

    def fault(self, error: Exception) -> None:
        """Log an error of ours: its type and line, since its message may quote an id."""
        last = extract_tb(error.__traceback__)[-1]
        self.event("fault", error=type(error).__name__, place=f"{last.filename.rpartition('/')[2]}:{last.lineno}")

    def emit(self, record: logging.LogRecord) -> None:
        """Log the type of an error that a library reports: its message may quote a request."""
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
        with suppress(Full):
            if self._thread.is_alive():
                lost = [self._event_line("lines lost", count=self._lost)] if self._lost else []
                for last in (*lost, None):
                    self._queue.put(last, timeout=1)
                self._thread.join(timeout=1)

    def _write(self, stream: TextIO) -> None:
        try:
            while (line := self._queue.get()) is not None:
                stream.write(f"{line}\n")
                if self._queue.empty():
                    stream.flush()
            stream.flush()
        except (OSError, ValueError):  # a log without a reader is not a reason to stop serving
            self._stream = None
