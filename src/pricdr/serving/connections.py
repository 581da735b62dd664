"""Connections: how many there are, how large headers get, and how long a slow client is waited for.

uvicorn bounds neither the time a request takes to arrive nor the size of its headers, and it would let any number of
clients connect and say nothing.
"""

import asyncio
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pricdr.serving.errors import error_body
from pricdr.serving.metrics import Metrics
from pricdr.serving.settings import Limits

_REASONS: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class GuardedConnection(HttpToolsProtocol):
    """A connection with deadlines: for the headers, for the body, and for the answer to be made and taken."""

    limits: Limits
    metrics: Metrics

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(config, *arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; turn the client away where there are too many."""
        super().connection_made(transport)
        self.metrics.connections.set(len(self.connections))
        if len(self.connections) > self.limits.connections:
            self._end(503, "too many connections: try again in a second", "retry-after: 1\r\n")
            return
        self._wait(self.limits.slow_header, self._late_headers)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._stop_waiting()
        super().connection_lost(exc)
        self.metrics.connections.set(len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, unless its headers never end."""
        if self.transport.is_closing():
            return
        if self._deadline is None:  # a further request on a connection that was kept
            self._wait(self.limits.slow_header, self._late_headers)
        self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes > self.limits.header and not self.transport.is_closing():
            self._end(431, f"headers have at most {self.limits.header:,} bytes")

    def on_headers_complete(self) -> None:
        """Give the client time for the body, and the answer time to be made and taken."""
        self._header_bytes = 0
        self._wait(self.limits.slow_body + self.limits.slow_answer, self.transport.abort)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body; its size is the business of the gate."""
        self._header_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to count the headers of what comes next."""
        self._header_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Leave it to uvicorn how long an idle connection is kept."""
        self._stop_waiting()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the shape of all errors."""
        self._end(400, "this is no request that can be read")

    def _late_headers(self) -> None:
        self._end(408, f"the request did not arrive within {self.limits.slow_header:g} seconds")

    def _end(self, status: int, message: str, headers: str = "") -> None:
        """Send an error of our own and close, unless an answer is on its way already."""
        if self.cycle is None or self.cycle.response_complete:
            body = error_body(message)
            head = (
                f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\ncache-control: no-store\r\n{headers}connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _wait(self, seconds: float, late: Any) -> None:  # noqa: ANN401 - any callback
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def guarded(limits: Limits, metrics: Metrics) -> type[GuardedConnection]:
    """Return the class of connections under these limits."""
    return type("Connection", (GuardedConnection,), {"limits": limits, "metrics": metrics})
