"""Structured logs: one JSON line for each event, written by a thread, so that no reader of the log slows an answer.

A line of a request holds the route as the program knows it (``/users/{user}/recommendations``), never the path, the
query string or the key: no id ends up in a log.
"""

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Final, TextIO, TypeAlias

_MOST_LINES: Final = 10_000
"""Lines that wait to be written; where the reader of the log is slower than that, further ones are counted only."""

EventLine: TypeAlias = Callable[..., str]
"""Returns an event, by its name and facts, as one line of JSON."""


class EventLines:
    """Writes events to ``stream``, in the order they came.

    Args:
        stream: where to; None for nowhere.
        event_line: how an event becomes a line.
        requests: whether every request has a line of its own.
    """

    def __init__(self, stream: TextIO | None, event_line: EventLine, *, requests: bool = True) -> None:
        self._stream, self._event_line, self._requests = stream, event_line, requests
        self._waiting: deque[tuple[str, dict[str, object]]] = deque()
        self._ready = Condition()
        self._ended = False
        self._lost = 0
        self._thread = Thread(target=self._write, name="log", daemon=True)
        if stream is not None:
            self._thread.start()

    @classmethod
    def silent(cls) -> "EventLines":
        """Return a log that nobody keeps."""
        return cls(None, lambda event, **facts: "")

    def event(self, event: str, **facts: object) -> None:
        """Log an event."""
        if self._stream is None:
            return
        with self._ready:
            if len(self._waiting) >= _MOST_LINES:
                self._lost += 1
                return
            self._waiting.append((event, facts))
            self._ready.notify()

    def request(self, method: str, route: str, status: int, seconds: float, key: str | None) -> None:
        """Log an answered request."""
        if self._requests:
            # A method is a word of the client's choosing.
            known = method if method in _METHODS else "other"
            self.event("request", method=known, route=route, status=status, ms=round(seconds * 1e3, 2), key=key)

    def close(self) -> None:
        """Write what is left, for a second at most."""
        with self._ready:
            self._ended = True
            self._ready.notify()
        if self._stream is not None:
            self._thread.join(timeout=1)

    def _write(self) -> None:
        assert self._stream is not None
        while True:
            with self._ready:
                while not self._waiting and not self._ended:
                    self._ready.wait()
                events, self._waiting = self._waiting, deque()
                lost, self._lost = self._lost, 0
                ended = self._ended
            lines = [self._event_line(event, **facts) for event, facts in events]
            if lost:
                lines.append(self._event_line("lines lost", count=lost))
            try:
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()
            except (OSError, ValueError):  # nobody reads it any more: no reason to stop answering
                return
            if ended:
                return


_METHODS: Final = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})


def place_of(error: BaseException) -> str:
    """Return where an error was raised: the message may quote an id, the line of the program does not."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
