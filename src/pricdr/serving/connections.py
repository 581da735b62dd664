"""Connections: how many there are, how much each may send and leave unread, and how long a slow client is waited for.

uvicorn bounds neither the time a request takes to arrive, nor the size of its headers, nor how many are sent before the
first is answered, and it would let any number of clients connect and say nothing.
"""

import asyncio
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pricdr.serving.errors import error_body
from pricdr.serving.headers import Headers, security_headers
from pricdr.serving.metrics import Metrics
from pricdr.serving.settings import Limits, Settings

_REASONS: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class _Refused(Exception):  # noqa: N818 - it never leaves the parser
    """Ends the parsing of what will not be answered."""


class GuardedConnection(HttpToolsProtocol):
    """A connection with deadlines: for the headers, for the body, and for the answer to be made and taken."""

    limits: Limits
    metrics: Metrics
    headers_of_errors: Headers
    unread: "dict[GuardedConnection, None]"
    """Connections whose clients had not taken a whole answer when it was sent, those of the longest standing first."""

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(config, *arguments, **named)
        self._application = self.app
        self.app = self._answer_once_taken
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        """Of the address and the headers so far."""
        self._received = 0
        """Since something was complete: a body, or headers."""
        self._in_body = False
        self._fault = "this is no request that can be read"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; turn the client away where there are too many."""
        super().connection_made(transport)
        self.metrics.connections.set(len(self.connections))
        if len(self.connections) > self.limits.connections:
            self._end(503, "too many connections: try again in a second", "retry-after: 1\r\n")
            return
        self._wait(self.limits.slow_header, self._late_headers)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline, and what was to be answered or taken."""
        self._stop_waiting()
        self.unread.pop(self, None)
        self.pipeline.clear()
        super().connection_lost(exc)
        self.metrics.connections.set(len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, unless its headers never end."""
        if self.transport.is_closing():
            return
        if self._deadline is None:  # a further request on a connection that was kept
            self._wait(self.limits.slow_header, self._late_headers)
        self._received += len(data)
        super().data_received(data)
        # A single header that never ends is not handed over piece by piece: only what came in tells.
        if self._received > self.limits.header:
            self._refuse_headers()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. A trailer counts, and is dropped: behind a body nobody may add a host or a key."""
        self._count(len(name) + len(value))
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Give the client time for the body, and the answer time to be made and taken."""
        self._received, self._in_body = 0, True
        if len(self.pipeline) >= self.limits.pipelined:
            raise _Refused
        upgrade = self.parser.should_upgrade()
        if upgrade and any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.headers):
            self._fault = "this server speaks HTTP/1.1 alone: send a body without an Upgrade header"
            raise _Refused
        self._wait(self.limits.slow_body + self.limits.slow_answer, self.transport.abort)
        super().on_headers_complete()
        if upgrade:  # the parser takes what follows for another protocol, and would never see a further request
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body; its size is the business of the gate."""
        self._received = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to count the headers of what comes next."""
        self._received, self._header_bytes, self._in_body = 0, 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Give the client time to take what is still on its way; how long it may be idle then is for uvicorn."""
        self._stop_waiting()
        if self.transport.get_write_buffer_size():
            self._wait(self.limits.slow_answer, self._abort_unless_taken)
            self._bound_unread()
        super().on_response_complete()
        # Reading goes on when everything that was read is answered: each answer would let in thousands of requests.
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the shape of all errors."""
        if self._header_bytes > self.limits.header:
            self._refuse_headers()
        self._end(400, self._fault)

    def _refuse_headers(self) -> None:
        self._end(431, f"headers have at most {self.limits.header:,} bytes")

    def _count(self, size: int) -> None:
        """Refuse headers that are too many; the parser hands the error on to whoever fed it."""
        self._header_bytes += size
        if self._header_bytes > self.limits.header:
            raise _Refused

    def _late_headers(self) -> None:
        self._end(408, f"the request did not arrive within {self.limits.slow_header:g} seconds")

    def _abort_unless_taken(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    async def _answer_once_taken(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as in ASGI
        """Answer a request when the client has taken what was answered before.

        An answer that is made earlier stays in memory, and counts as being made until it can be sent: some clients that
        read nothing would keep everybody else waiting.
        """
        if self.transport.get_write_buffer_size():
            await asyncio.sleep(0)  # the loop has to try to write before it can tell whether the client takes it
            await self.flow.drain()
        await self._application(scope, receive, send)

    def _bound_unread(self) -> None:
        """Cut off those who have left an answer unread for longest, where together they fill the memory."""
        self.unread[self] = None
        sizes = {one: one.transport.get_write_buffer_size() for one in self.unread}
        total = sum(sizes.values())
        for one, size in sizes.items():
            if not size:
                del self.unread[one]
            elif total > self.limits.unread and one is not self:
                total -= size
                del self.unread[one]
                one.transport.abort()

    def _end(self, status: int, message: str, headers: str = "") -> None:
        """Send an error of our own, unless another answer is due first, and close."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        idle = cycle is None or cycle.response_complete
        if idle or (cycle.more_body and not cycle.response_started and not self.pipeline):
            body = error_body(message)
            head = (
                f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\n{headers}connection: close\r\n"
            )
            always = b"".join(b"%b: %b\r\n" % pair for pair in self.headers_of_errors)
            self.transport.write(head.encode() + always + b"\r\n" + body)
        if not idle:  # whoever waits for the rest of the body waits in vain
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _wait(self, seconds: float, late: Any) -> None:  # noqa: ANN401 - any callback
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def guarded(settings: Settings, metrics: Metrics) -> type[GuardedConnection]:
    """Return the class of a server's connections."""
    shared = {
        "limits": settings.limits,
        "metrics": metrics,
        "headers_of_errors": security_headers(tls=settings.tls_cert is not None),
        "unread": {},
    }
    return type("Connection", (GuardedConnection,), shared)
