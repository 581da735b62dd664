"""Connection limits: how many may be open, how much each may send and leave unread, and timeouts for slow clients.

uvicorn limits neither the time that a request takes to arrive, nor the size of its headers, nor the number of pipelined
requests, nor the number of clients that connect and send nothing.
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


class _StopParsing(Exception):  # noqa: N818 - it never leaves the parser
    """Stops the parser in the middle of a request that will not be answered."""


class GuardedConnection(HttpToolsProtocol):
    """A connection with deadlines for the headers, for the body, and for the response to be computed and read."""

    limits: Limits
    metrics: Metrics
    error_headers: Headers
    unread: "dict[GuardedConnection, None]"
    """Connections whose clients had not read the whole response when it was sent, the oldest first."""

    def __init__(self, config: Config, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(config, *arguments, **named)
        self._application = self.app
        self.app = self._run_once_drained
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        """Size of the address and the headers so far."""
        self._received = 0
        """Bytes received since the headers, a piece of the body or the whole request was complete."""
        self._in_body = self._half_closed = False
        self._parse_error = "this is not a valid HTTP request"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for a request; refuse the client if there are too many connections."""
        super().connection_made(transport)
        self.metrics.connections.set(len(self.connections))
        if len(self.connections) > self.limits.connections:
            self.transport.write(too_many_connections(tls=self.config.ssl is not None))
            self.transport.close()
            return
        self._set_deadline(self.limits.header_timeout, self._header_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline, the pipelined requests and the unread response."""
        self._clear_deadline()
        self.unread.pop(self, None)
        self.pipeline.clear()
        super().connection_lost(exc)
        self.metrics.connections.set(len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Parse what the client sent, and refuse headers that never end."""
        if self.transport.is_closing():
            return
        if self._deadline is None:  # another request on a connection that was kept alive
            self._set_deadline(self.limits.header_timeout, self._header_timeout)
        self._received += len(data)
        super().data_received(data)
        # The parser reports a header only when it is complete: only the bytes received reveal one that never ends.
        if self._received > self.limits.header_bytes:
            self._refuse_headers()

    def eof_received(self) -> bool:  # type: ignore[override]  # what asyncio expects, unlike uvicorn
        """Go on answering a client that has sent all it will; return whether anything is left to answer.

        One that has left altogether looks the same until something is sent to it.
        """
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete and not cycle.more_body
        self._half_closed = answering and self.config.ssl is None  # TLS cannot be closed in one direction
        return self._half_closed

    def on_url(self, url: bytes) -> None:
        """Handle a piece of the address."""
        self._count_header_bytes(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header. Trailers count too, but are dropped: nothing may add a host or a key after the body."""
        self._count_header_bytes(len(name) + len(value))
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Set the deadline for the body to arrive and for the response to be computed and read."""
        self._received, self._in_body = 0, True
        if len(self.pipeline) >= self.limits.pipelined:
            raise _StopParsing
        upgrade = self.parser.should_upgrade()
        if upgrade and any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.headers):
            self._parse_error = "this server speaks only HTTP/1.1: send a body without an Upgrade header"
            raise _StopParsing
        self._set_deadline(self.limits.body_timeout + self.limits.response_timeout, self.transport.abort)
        super().on_headers_complete()
        if upgrade:  # the parser takes what follows for another protocol, and would never see another request
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Handle a piece of a body; the gate limits its size."""
        self._received = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Start counting the headers of the next request."""
        self._received, self._header_bytes, self._in_body = 0, 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Set the deadline for the client to read the rest; after that, uvicorn's keep-alive timeout applies."""
        self._clear_deadline()
        if self.transport.get_write_buffer_size():
            self._set_deadline(self.limits.response_timeout, self._abort_if_unread)
            self._bound_unread()
        super().on_response_complete()
        if self._half_closed and self.cycle.response_complete:
            self.transport.close()
        # Read on only once all pipelined requests are answered: otherwise each answer would let in thousands more.
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, with an error of the usual shape."""
        if self._header_bytes > self.limits.header_bytes:
            self._refuse_headers()
        self._close_with_error(400, self._parse_error)

    def _refuse_headers(self) -> None:
        self._close_with_error(431, f"headers have at most {self.limits.header_bytes:,} bytes")

    def _count_header_bytes(self, size: int) -> None:
        """Stop parsing when the headers are too large; :meth:`send_400_response` then answers."""
        self._header_bytes += size
        if self._header_bytes > self.limits.header_bytes:
            raise _StopParsing

    def _header_timeout(self) -> None:
        self._close_with_error(408, f"the request did not arrive within {self.limits.header_timeout:g} seconds")

    def _abort_if_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    async def _run_once_drained(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - as in ASGI
        """Run the application once the client has read the previous response.

        A response that is computed earlier stays in memory, and its request stays in flight until it can be sent: a few
        clients that read nothing would keep all others waiting.
        """
        if self.transport.get_write_buffer_size():
            await asyncio.sleep(0)  # only after a write has been tried is it known whether the client reads
            await self.flow.drain()
        await self._application(scope, receive, send)

    def _bound_unread(self) -> None:
        """Close the connections with the oldest unread responses if all together take up too much memory."""
        self.unread[self] = None
        sizes = {connection: connection.transport.get_write_buffer_size() for connection in self.unread}
        total = sum(sizes.values())
        for connection, size in sizes.items():
            if not size:
                del self.unread[connection]
            elif total > self.limits.unread_bytes and connection is not self:
                total -= size
                del self.unread[connection]
                connection.transport.abort()

    def _close_with_error(self, status: int, message: str) -> None:
        """Close the connection, after sending an error unless another response is due first."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        idle = cycle is None or cycle.response_complete
        if idle or (cycle.more_body and not cycle.response_started and not self.pipeline):
            self.transport.write(_error_response(status, message, self.error_headers))
        if not idle:  # wake the task that waits for the rest of the body
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _set_deadline(self, seconds: float, on_timeout: Any) -> None:  # noqa: ANN401 - any callback
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, on_timeout)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def too_many_connections(*, tls: bool) -> bytes:
    """Return the response to a client that connects when too many are connected."""
    headers = [(b"retry-after", b"1"), *security_headers(tls=tls)]
    return _error_response(503, "too many connections: try again in a second", headers)


def _error_response(status: int, message: str, headers: Headers) -> bytes:
    """Return a whole response, after which the connection is closed."""
    body = error_body(message)
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n"
    )
    return head.encode() + b"".join(b"%b: %b\r\n" % pair for pair in headers) + b"\r\n" + body


def connection_class(settings: Settings, metrics: Metrics) -> type[GuardedConnection]:
    """Return the class that a server uses for its connections."""
    shared = {
        "limits": settings.limits,
        "metrics": metrics,
        "error_headers": security_headers(tls=settings.tls_cert is not None),
        "unread": {},
    }
    return type("Connection", (GuardedConnection,), shared)
