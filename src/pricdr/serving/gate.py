"""The checks that every request passes before it reaches the application, and the headers added to every response.

This is a plain ASGI middleware that makes the cheapest checks first. A refusal here costs some microseconds, so an
overloaded server spends its time on the requests that it does answer.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, MutableMapping
from enum import Enum
from time import monotonic, perf_counter
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pricdr.data.ids import CONTROLS
from pricdr.serving.admission import Admission
from pricdr.serving.errors import Refusal, error_content, is_page
from pricdr.serving.headers import Headers, security_headers
from pricdr.serving.keys import Authenticator, Key, Scope, presented_key
from pricdr.serving.log import ServerLog, location_of
from pricdr.serving.metrics import Metrics
from pricdr.serving.rates import RateLimiter
from pricdr.serving.settings import Settings
from pricdr.serving.worker import Lane, Worker

OPEN: Final = frozenset({"/health", "/ready", "/openapi.json"})
"""Paths that need no key and are answered even when the server is busy."""
_CHALLENGES: Final = (
    (b"www-authenticate", b'Basic realm="pricdr", charset="UTF-8"'),
    (b"www-authenticate", b'Bearer realm="pricdr"'),
)
"""In separate headers: Chromium reads one challenge a header, and would not ask for a key if Bearer came first."""
_DISCARD_FACTOR: Final = 16
"""A body that is too large is read to its end and discarded, up to this many times the limit: if the connection were
closed while the client is still writing, it would be reset, and the client would never see the error."""
_CONTROL: Final = re.compile(CONTROLS)
BUSY: Final = "the server is busy: try again in a second"
_NO_ROUTE: Final = "none"


class Caller:
    """Who sent a request, as far as limits are concerned."""

    def __init__(self, name: str, key: Key | None, rate: float | None, limiter: RateLimiter) -> None:
        self.name, self.key = name, key
        self._rate, self._limiter = rate, limiter

    def charge(self, answers: int | None = None) -> None:
        """Count one answer, or further answers of the same request, against the rate; refuse what exceeds it."""
        if self._rate is None:
            return
        if answers is None:
            wait = self._limiter.take(self.name, self._rate, monotonic())
        else:
            wait = self._limiter.charge(self.name, answers, self._rate)
        if wait is not None:
            raise Refusal(429, f"more than {self._rate:g} answers a second: slow down", retry_after=str(wait))


class Queue(Enum):
    """Where a request waits to be admitted."""

    USERS = "users"
    SIMILAR = "similar"
    PAGE = "page"


def admissions(max_wait: float, worker: Worker) -> Mapping[Queue, Admission]:
    """Return a queue for each kind of request, so that none keeps another waiting."""
    page = Lane(lambda snapshot, queries: [], seconds_per_answer=max_wait)  # rendered in threads, a few at a time
    lanes = {Queue.USERS: worker.users, Queue.SIMILAR: worker.similar_items, Queue.PAGE: page}
    return {queue: Admission(max_wait, lane) for queue, lane in lanes.items()}


class Gate:
    """Checks, counts and logs the requests to ``app``."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        *,
        keys: Authenticator | None,
        queues: Mapping[Queue, Admission],
        metrics: Metrics,
        log: ServerLog,
    ) -> None:
        self._app, self._limits, self._keys = app, settings.limits, keys
        self._queues, self._metrics, self._log = queues, metrics, log
        self._hosts = settings.known_hosts
        self._headers = security_headers(tls=settings.tls_cert is not None)
        self._limiter = RateLimiter()
        self._bodies: Counter[str] = Counter()

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        response = _Response(send, self._headers, scope["path"])
        try:
            await self._handle(scope, receive, response)
        except Refusal as refusal:
            await response.refuse(refusal)
        except Exception as error:  # a bug: the client learns only that there was one
            self._log.event("fault", error=type(error).__name__, place=location_of(error))
            await response.refuse(Refusal(500, "internal error; see the server's log"))
        finally:
            self._record(scope, response.status, perf_counter() - started)

    async def _handle(self, scope: Connection, receive: Receive, response: "_Response") -> None:
        path: str = scope["path"]
        headers = _Headers(scope)
        self._require_known_host(headers)
        self._require_text(scope)
        caller = self._caller(scope, path, headers)
        scope.setdefault("state", {})["caller"] = caller
        if path in OPEN or path == "/metrics":
            await self._app(scope, receive, response.send)
            return
        caller.charge()
        if headers.get(b"content-length", b"0") != b"0" or headers.get(b"transfer-encoding"):
            receive = await self._receive_body(caller, receive, headers)
        if path == "/recommendations":  # admits a batch itself, once it knows what it costs
            await self._app(scope, receive, response.send)
            return
        admission = self._queues[_queue_of(path)]
        await self._admit(admission)
        try:
            await self._app(scope, receive, response.send)
        finally:
            admission.leave()

    async def _receive_body(self, caller: Caller, receive: Receive, headers: "_Headers") -> Receive:
        """Read the body, and return the way to receive it.

        It is read before the request is admitted, so a slow client does not take up room among the requests in flight;
        and a caller may keep only some bodies waiting, so there is room for those of others.
        """
        limits = self._limits
        if self._bodies.total() >= limits.bodies or self._bodies[caller.name] >= limits.bodies_each:
            raise Refusal(503, BUSY, retry_after="1", connection="close")
        self._bodies[caller.name] += 1
        try:
            return await self._read_body(receive, headers)
        finally:
            self._bodies[caller.name] -= 1
            if not self._bodies[caller.name]:
                del self._bodies[caller.name]

    async def _admit(self, admission: Admission) -> None:
        """Wait until the request is admitted, or refuse it."""
        waited = await admission.enter()
        if waited is None:
            await admission.pause()
            raise Refusal(503, BUSY, retry_after="1")
        self._metrics.waits.observe(waited)

    def _require_known_host(self, headers: "_Headers") -> None:
        if self._hosts is None:
            return
        if headers.count(b"host") > 1:  # this server and a proxy in front of it might each read a different one
            raise Refusal(400, "the request has more than one Host header")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in self._hosts:
            raise Refusal(421, "this server does not answer to the name in the Host header; see --allowed-host")

    def _require_text(self, scope: Connection) -> None:
        """Refuse a path with control characters, or that is not UTF-8: decoding would make one id out of several."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%" in raw:
            try:
                path = unquote_to_bytes(raw).decode("utf-8")
            except UnicodeDecodeError as error:
                raise Refusal(400, "the address contains a percent-encoding that is not UTF-8") from error
            if _CONTROL.search(path):
                raise Refusal(400, "the address contains a line break or another control character")

    def _caller(self, scope: Connection, path: str, headers: "_Headers") -> Caller:
        """Return who sent the request; refuse a missing or invalid key, or one without the scope of the path."""
        if self._keys is None or path in OPEN:
            client = scope.get("client")
            return Caller(client[0] if client else "", None, self._limits.rate, self._limiter)
        key = self._keys.authenticate(presented_key(headers.get(b"authorization")))
        if key is None:
            raise Refusal(401, "a valid API key is required")
        if _scope_of(path) not in key.scopes:
            raise Refusal(403, f"this API key does not have the scope {_scope_of(path).value}")
        return Caller(key.name, key, self._limits.rate if key.rate is None else key.rate, self._limiter)

    async def _read_body(self, receive: Receive, headers: "_Headers") -> Receive:
        """Read the whole body, within the limits on size and time; return a function that replays it."""
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                body = await _read(receive, headers, self._limits.body_bytes)
        except TimeoutError as error:
            raise Refusal(
                408, f"the body did not arrive within {self._limits.body_timeout:g} seconds", connection="close"
            ) from error
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        return replay

    def _record(self, scope: Connection, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path_format", _NO_ROUTE)
        self._metrics.request(route, status, seconds)
        caller = scope.get("state", {}).get("caller")
        key = None if caller is None or caller.key is None else caller.key.name
        self._log.request(scope["method"], route, status, seconds, key)


class _Headers:
    """The headers of a request; of several with the same name, the first counts."""

    def __init__(self, scope: Connection) -> None:
        self._pairs: list[tuple[bytes, bytes]] = scope["headers"]

    def get(self, name: bytes, default: bytes = b"") -> bytes:
        return next((value for key, value in self._pairs if key == name), default)

    def count(self, name: bytes) -> int:
        return sum(key == name for key, _ in self._pairs)


class _Response:
    """Sends the response: adds the security headers, and remembers the status."""

    def __init__(self, send: Send, headers: Headers, path: str) -> None:
        self._send, self._headers, self._path = send, headers, path
        self.status = 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers]
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        if self.status:  # part of a response has been sent: nothing can be added to it
            return
        body, media_type = error_content(self._path, refusal.status, refusal.message)
        headers = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
        headers += _CHALLENGES if refusal.status == 401 else ()
        headers += [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


async def _read(receive: Receive, headers: _Headers, limit: int) -> bytes:
    """Return the whole body; refuse one of more than ``limit`` bytes, whether or not it declares its length."""
    too_large = Refusal(413, f"a body has at most {limit:,} bytes", connection="close")
    declared = headers.get(b"content-length", b"0")
    size = int(declared) if declared.isdigit() and len(declared) < 20 else 0
    # Refused at once if the client waits for permission to send, or would send far too much.
    if size > limit and (headers.get(b"expect") or size > _DISCARD_FACTOR * limit):
        raise too_large
    body, received, more = bytearray(), 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the connection was closed before the whole body had arrived", connection="close")
        received += len(message.get("body", b""))
        if received <= limit:
            body += message.get("body", b"")
        else:
            body.clear()
        if received > _DISCARD_FACTOR * limit:
            raise too_large
        more = message.get("more_body", False)
    if received > limit:
        raise too_large
    return bytes(body)


def _scope_of(path: str) -> Scope:
    """Return the scope that a path needs; an unknown path needs the one that most keys have."""
    if path == "/metrics":
        return Scope.METRICS
    return Scope.PAGE if is_page(path) else Scope.RECOMMEND


def _queue_of(path: str) -> Queue:
    if is_page(path):
        return Queue.PAGE
    return Queue.SIMILAR if path.startswith("/items/") else Queue.USERS
