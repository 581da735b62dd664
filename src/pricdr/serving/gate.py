"""What every request passes before it reaches the application, and every answer on its way out.

A plain ASGI layer, in the order of what costs least: a request that is refused here has cost some microseconds, so that
a server with more to do than it can spends its time on those it answers.
"""

import asyncio
import re
from collections.abc import MutableMapping
from time import monotonic, perf_counter
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pricdr.data.ids import CONTROLS
from pricdr.serving.admission import Admission
from pricdr.serving.errors import Refusal, error_content, is_page
from pricdr.serving.headers import Headers, security_headers
from pricdr.serving.keys import Key, KeyHolders, Scope, presented_key
from pricdr.serving.log import EventLines, place_of
from pricdr.serving.metrics import Metrics
from pricdr.serving.rates import Rates
from pricdr.serving.settings import Settings

OPEN: Final = frozenset({"/health", "/ready", "/openapi.json"})
"""What anybody may ask, also of a busy server."""
_CHALLENGES: Final = (
    (b"www-authenticate", b'Basic realm="pricdr", charset="UTF-8"'),
    (b"www-authenticate", b'Bearer realm="pricdr"'),
)
"""A header each: chromium reads one challenge a header, and would ask nobody for a key where Bearer came first."""
_DISCARDED: Final = 16
"""Times the limit up to which a body that is too large is read to its end and thrown away: a connection that is closed
while the client still writes would be reset, and the client would never read why."""
_CONTROL: Final = re.compile(CONTROLS)
_BUSY: Final = "the server is busy: try again in a second"
_NO_ROUTE: Final = "none"


class Caller:
    """Who sent a request, as far as limits go."""

    def __init__(self, name: str, key: Key | None, rates: Rates) -> None:
        self.name, self.key, self._rates = name, key, rates

    def charge(self, answers: int) -> None:
        """Count further answers of the same request against the caller's rate."""
        self._rates.charge(self.name, answers)


class Gate:
    """Checks, counts and logs requests to ``app``."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        *,
        keys: KeyHolders | None,
        admission: Admission,
        metrics: Metrics,
        log: EventLines,
    ) -> None:
        self._app, self._limits, self._keys = app, settings.limits, keys
        self._admission, self._metrics, self._log = admission, metrics, log
        self._hosts = settings.known_hosts
        self._headers = security_headers(tls=settings.tls_cert is not None)
        self._rates = Rates()
        self._bodies = 0

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        answer = _Answer(send, self._headers, scope["path"])
        try:
            await self._answer(scope, receive, answer)
        except Refusal as refusal:
            await answer.refuse(refusal)
        except Exception as error:  # a fault of ours: the client learns nothing but that
            self._log.event("fault", error=type(error).__name__, place=place_of(error))
            await answer.refuse(Refusal(500, "something went wrong here; it is in the log"))
        finally:
            self._record(scope, answer.status, perf_counter() - started)

    async def _answer(self, scope: Connection, receive: Receive, answer: "_Answer") -> None:
        path: str = scope["path"]
        headers = _Headers(scope)
        self._require_known_host(headers)
        self._require_text(scope)
        caller = self._caller(scope, path, headers)
        scope.setdefault("state", {})["caller"] = caller
        if path in OPEN or path == "/metrics":
            await self._app(scope, receive, answer.send)
            return
        self._require_rate(caller)
        if headers.get(b"content-length", b"0") != b"0" or headers.get(b"transfer-encoding"):
            receive = await self._body(receive, headers)
        waited = await self._admission.enter()
        if waited is None:
            raise Refusal(503, _BUSY, retry_after="1")
        self._metrics.waits.observe(waited)
        try:
            await self._app(scope, receive, answer.send)
        finally:
            self._admission.leave()

    def _require_known_host(self, headers: "_Headers") -> None:
        if self._hosts is None:
            return
        if headers.count(b"host") > 1:  # this server and a proxy before it might each take another one
            raise Refusal(400, "the request has more than one Host header")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in self._hosts:
            raise Refusal(421, "this server does not answer to the name in the Host header; see --allowed-host")

    def _require_text(self, scope: Connection) -> None:
        """Refuse an address that is not UTF-8, since replaced characters would make one id of several, or no text."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%" in raw:
            try:
                path = unquote_to_bytes(raw).decode("utf-8")
            except UnicodeDecodeError as error:
                raise Refusal(400, "the address holds a percent-encoding that is not UTF-8") from error
            if _CONTROL.search(path):
                raise Refusal(400, "the address holds a line break or another control character")

    def _caller(self, scope: Connection, path: str, headers: "_Headers") -> Caller:
        """Return who asks; refuse whoever has no key, or one that is good for something else."""
        if self._keys is None or path in OPEN:
            client = scope.get("client")
            return Caller(client[0] if client else "", None, self._rates)
        key = self._keys.holder(presented_key(headers.get(b"authorization")))
        if key is None:
            raise Refusal(401, "an API key is needed, and this is none that is valid")
        if _scope_of(path) not in key.scopes:
            raise Refusal(403, f"this API key lacks the scope {_scope_of(path).value}")
        return Caller(key.name, key, self._rates)

    def _require_rate(self, caller: Caller) -> None:
        rate = self._limits.rate if caller.key is None or caller.key.rate is None else caller.key.rate
        if rate is None:
            return
        wait = self._rates.take(caller.name, rate, monotonic())
        if wait is not None:
            raise Refusal(429, f"more than {rate:g} answers a second: slow down", retry_after=str(wait))

    async def _body(self, receive: Receive, headers: "_Headers") -> Receive:
        """Return a way to receive the body that is read already, bounded in size and time."""
        if self._bodies >= self._limits.bodies:
            raise Refusal(503, _BUSY, retry_after="1", connection="close")
        self._bodies += 1
        try:
            async with asyncio.timeout(self._limits.slow_body):
                body = await _read(receive, headers, self._limits.body)
        except TimeoutError as error:
            raise Refusal(
                408, f"the body did not arrive within {self._limits.slow_body:g} seconds", connection="close"
            ) from error
        finally:
            self._bodies -= 1
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
    """The headers of a request; the first of a name counts."""

    def __init__(self, scope: Connection) -> None:
        self._pairs: list[tuple[bytes, bytes]] = scope["headers"]

    def get(self, name: bytes, default: bytes = b"") -> bytes:
        return next((value for key, value in self._pairs if key == name), default)

    def count(self, name: bytes) -> int:
        return sum(key == name for key, _ in self._pairs)


class _Answer:
    """The way out: adds headers, and remembers the status."""

    def __init__(self, send: Send, headers: Headers, path: str) -> None:
        self._send, self._headers, self._path = send, headers, path
        self.status = 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers]
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        if self.status:  # half an answer is out: nothing can be added to it
            return
        body, kind = error_content(self._path, refusal.status, refusal.message)
        own = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
        own += _CHALLENGES if refusal.status == 401 else ()
        own += [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": own})
        await self.send({"type": "http.response.body", "body": body})


async def _read(receive: Receive, headers: _Headers, limit: int) -> bytes:
    """Return the whole body; refuse one of more than ``limit`` bytes, whether or not it says so beforehand."""
    too_large = Refusal(413, f"a body has at most {limit:,} bytes", connection="close")
    stated = headers.get(b"content-length", b"0")
    size = int(stated) if stated.isdigit() and len(stated) < 20 else 0
    # Whoever asks first, or sends very much, is told at once.
    if size > limit and (headers.get(b"expect") or size > _DISCARDED * limit):
        raise too_large
    body, received, more = bytearray(), 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the connection was closed before the body was there", connection="close")
        received += len(message.get("body", b""))
        if received <= limit:
            body += message.get("body", b"")
        else:
            body.clear()
        if received > _DISCARDED * limit:
            raise too_large
        more = message.get("more_body", False)
    if received > limit:
        raise too_large
    return bytes(body)


def _scope_of(path: str) -> Scope:
    """Return the scope a path needs; what is not known needs the one that most keys have."""
    if path == "/metrics":
        return Scope.METRICS
    return Scope.PAGE if is_page(path) else Scope.RECOMMEND
