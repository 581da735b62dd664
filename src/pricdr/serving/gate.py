"""What every request passes before it reaches a route: name of the host, key, body; then headers, metrics and the log.

A plain ASGI middleware. How many connections and requests a client may open, how fast it must send, and TLS are left to
the proxy in front (``deploy/nginx.conf``).
"""

import asyncio
import re
from collections.abc import MutableMapping
from time import perf_counter
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pricdr.data.ids import CONTROLS
from pricdr.serving.errors import Refusal, is_page
from pricdr.serving.keys import Authenticator, Scope, presented_key
from pricdr.serving.log import ServerLog, location_of
from pricdr.serving.metrics import Metrics
from pricdr.serving.worker import Quota

OPEN: Final = frozenset({"/health", "/ready", "/openapi.json"})
"""Paths that need no key."""
BODY_BYTES: Final = 1 << 20
"""Size of a request's body."""
BODY_SECONDS: Final = 10.0
"""Until a body must have arrived."""
_BODIES: Final = (16, 64)
"""Bodies of one caller, and of all, that may be arriving at the same time."""
_METHODS: Final = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})
_CONTROL: Final = re.compile(CONTROLS)
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""A browser may not run scripts, load from elsewhere, frame, sniff, send a referrer or cache."""


class Gate:
    """Checks, counts and logs the requests to ``app``."""

    def __init__(
        self, app: ASGIApp, hosts: frozenset[str] | None, keys: Authenticator | None, metrics: Metrics, log: ServerLog
    ) -> None:
        self._app, self._hosts, self._keys, self._metrics, self._log = app, hosts, keys, metrics, log
        self._bodies = Quota(*_BODIES)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, key = perf_counter(), 0, None

        async def send_on(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            headers = _checked_headers(scope, self._hosts)
            key, caller = self._caller(scope, headers)
            scope.setdefault("state", {})["caller"] = caller
            if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
                with self._bodies.take(caller):
                    receive = await _received(receive)
            await self._app(scope, receive, send_on)
        except Refusal as refusal:
            if not status:  # otherwise part of a response has been sent, and nothing can be added to it
                await refusal.response(scope["path"])(scope, receive, send_on)
        except Exception as error:  # a bug: the client learns only that there was one
            self._log.event("fault", error=type(error).__name__, place=location_of(error))
            if not status:
                fault = Refusal(500, "internal error; see the server's log")
                await fault.response(scope["path"])(scope, receive, send_on)
        finally:
            seconds, route = perf_counter() - started, getattr(scope.get("route"), "path_format", "none")
            self._metrics.request(route, status, seconds)
            if self._log.requests:
                # The client chooses the method, so it may be any text.
                method = scope["method"] if scope["method"] in _METHODS else "other"
                ms = round(seconds * 1e3, 2)
                self._log.event("request", method=method, route=route, status=status, ms=ms, key=key)

    def _caller(self, scope: Connection, headers: dict[bytes, bytes]) -> tuple[str | None, str]:
        """Return the name of the key, if keys are needed, and who the request is from as far as quotas go."""
        if self._keys is None or scope["path"] in OPEN:
            return None, (scope.get("client") or [""])[0]
        key = self._keys.authenticate(presented_key(headers.get(b"authorization")))
        if key is None:
            raise Refusal(401, "a valid API key is required")
        # An unknown path needs the scope that most keys have.
        path = scope["path"]
        needed = Scope.METRICS if path == "/metrics" else Scope.PAGE if is_page(path) else Scope.RECOMMEND
        if needed not in key.scopes:
            raise Refusal(403, f"this API key does not have the scope {needed.value}")
        return key.name, key.name


def _checked_headers(scope: Connection, hosts: frozenset[str] | None) -> dict[bytes, bytes]:
    """Return the headers of a request, the first of each name; refuse another host and ids that are not text."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(reversed(pairs))
    if hosts is not None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if sum(key == b"host" for key, _ in pairs) > 1:  # a proxy in front might have read the other one
            raise Refusal(400, "the request has more than one Host header")
        if name not in hosts:
            raise Refusal(421, "this server does not answer to the name in the Host header; see --allowed-host")
    raw: bytes = scope.get("raw_path") or b""
    if b"%" in raw:
        try:
            path = unquote_to_bytes(raw).decode("utf-8")
        except UnicodeDecodeError:  # decoding would make one id out of several
            raise Refusal(400, "the address contains a percent-encoding that is not UTF-8") from None
        if _CONTROL.search(path):
            raise Refusal(400, "the address contains a line break or another control character")
    return headers


async def _received(receive: Receive) -> Receive:
    """Return a function that replays the whole body, once it has arrived within the limits on size and time."""
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the connection was closed before the whole body had arrived")
                body += message.get("body", b"")
                if len(body) > BODY_BYTES:
                    raise Refusal(413, f"a body has at most {BODY_BYTES:,} bytes", connection="close")
                more = message.get("more_body", False)
    except TimeoutError:
        refusal = f"the body did not arrive within {BODY_SECONDS:g} seconds"
        raise Refusal(408, refusal, connection="close") from None
    pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
