"""Structured logs: one JSON line for each event, written by a thread, so a slow log reader never delays an answer.

The line of a request holds the route template (``/users/{user}/recommendations``), never the path, the query string or
the key, so no id ends up in a log.
"""

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Final, TextIO, TypeAlias

_MAX_QUEUED: Final = 10_000
"""Events that may wait to be written; when the log reader falls behind, further ones are only counted."""
_METHODS: Final = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})

EventLine: TypeAlias = Callable[..., str]
"""Formats an event, given its name and facts, as one line of JSON."""


class ServerLog:
    """Writes events to a stream, in order.

    Args:
        stream: where to write; None discards all events.
        event_line: formats an event as a line.
        requests: whether to log every request.
    """

    def __init__(self, stream: TextIO | None, event_line: EventLine, *, requests: bool = True) -> None:
        self._stream, self._event_line, self._requests = stream, event_line, requests
        self._queue: deque[tuple[str, dict[str, object]]] = deque()
        self._changed = Condition()
        self._closed = False
        self._dropped = 0
        self._thread = Thread(target=self._write, name="log", daemon=True)
        if stream is not None:
            self._thread.start()

    @classmethod
    def silent(cls) -> "ServerLog":
        """Return a log that discards all events."""
        return cls(None, lambda event, **facts: "")

    def event(self, event: str, **facts: object) -> None:
        """Log an event."""
        if self._stream is None:
            return
        with self._changed:
            if len(self._queue) >= _MAX_QUEUED:
                self._dropped += 1
                return
            self._queue.append((event, facts))
            self._changed.notify()

    def request(self, method: str, route: str, status: int, seconds: float, key: str | None) -> None:
        """Log an answered request."""
        if self._requests:
            # The client chooses the method, so it may be any text.
            known = method if method in _METHODS else "other"
            self.event("request", method=known, route=route, status=status, ms=round(seconds * 1e3, 2), key=key)

    def close(self) -> None:
        """Write what is left, taking at most a second."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._stream is not None:
            self._thread.join(timeout=1)

    def _write(self) -> None:
        assert self._stream is not None
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                events, self._queue = self._queue, deque()
                dropped, self._dropped = self._dropped, 0
                closed = self._closed
            lines = [self._event_line(event, **facts) for event, facts in events]
            if dropped:
                lines.append(self._event_line("lines lost", count=dropped))
            try:
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()
            except (OSError, ValueError):  # a log without a reader is not a reason to stop serving
                return
            if closed:
                return


def location_of(error: BaseException) -> str:
    """Return the file and line that raised an error: unlike its message, they cannot quote an id."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
