"""What every request passes before it reaches a route: name of the host, key, body; then headers, metrics and the log.

A plain ASGI middleware. How many connections and requests a client may open, how fast it must send, and TLS are left to
the proxy in front (``deploy/nginx.conf``). No metric and no line of the log holds anything that a client sent.
"""

import re
from collections.abc import MutableMapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from pricdr.data.ids import CONTROLS
from pricdr.serving.keys import KeyRing, Scope, presented_key
from pricdr.serving.log import ServerLog
from pricdr.serving.page import error_page
from pricdr.serving.worker import Refusal

OPEN: Final = frozenset({"/health", "/ready", "/openapi.json"})
"""Paths that need no key."""
_BODY_BYTES: Final = 1 << 20
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
_CHALLENGES: Final = ('Basic realm="pricdr", charset="UTF-8"', 'Bearer realm="pricdr"')
"""In separate headers: Chromium reads one challenge a header, and would not ask for a key if Bearer came first."""
_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_RULES: Final = {
    "string_pattern_mismatch": "an id must not contain line breaks or other control characters",
    "json_invalid": "this is not JSON",
}
"""Our messages for pydantic's error types; for all others, pydantic's own message is used."""
_LOCATIONS: Final = frozenset({"body", "k", "user", "users", "item"})
"""The names that an error may mention: never a word that the client chose."""
_MESSAGES: Final = {
    400: "the body is not JSON that can be read",  # from FastAPI: nested too deep, or a number too long
    404: "there is nothing at this address",
    405: "this address does not support this method",
}


class Metrics:
    """Counts and durations of requests, for Prometheus."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("pricdr_requests", "Requests answered.", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "pricdr_request_seconds", "Time to answer a request.", ["route"], buckets=_BUCKETS, registry=registry
        )
        self.answers = Counter("pricdr_answers", "Users answered, by basis.", ["basis"], registry=registry)


@dataclass(frozen=True)
class Gate:
    """Checks, counts and logs the requests to ``app``."""

    app: ASGIApp
    hosts: frozenset[str] | None
    """The host names that requests may use; any if None."""
    keys: KeyRing | None
    """Checks API keys; if None, no key is needed."""
    metrics: Metrics
    log: ServerLog

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, size = perf_counter(), 0, 0
        state, path = scope.setdefault("state", {}), scope["path"]

        async def receive_some() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > _BODY_BYTES:
                raise Refusal(413, f"a body has at most {_BODY_BYTES:,} bytes", connection="close")
            return message

        async def send_on(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            headers = _checked_headers(scope, self.hosts)
            state["caller"] = (scope.get("client") or [""])[0]
            if self.keys is not None and path not in OPEN:
                state["caller"] = state["key"] = _authenticated(self.keys, headers, path)
            await self.app(scope, receive_some, send_on)
        except Exception as error:
            response = self._response(error, path)
            if not status:  # otherwise part of a response has been sent, and nothing can be added to it
                await response(scope, receive, send_on)
        finally:
            seconds, route = perf_counter() - started, getattr(scope.get("route"), "path_format", "none")
            self.metrics.requests.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            if self.log.requests:
                ms, key = round(seconds * 1e3, 2), state.get("key")
                self.log.event("request", method=scope["method"], route=route, status=status, ms=ms, key=key)

    def _response(self, error: Exception, path: str) -> Response:
        if isinstance(error, Refusal):
            refusal = error
        elif isinstance(error, RequestValidationError):
            refusal = Refusal(422, _describe(error.errors()[0]))
        elif isinstance(error, HTTPException):
            message = _MESSAGES.get(error.status_code, str(error.detail))
            refusal = Refusal(error.status_code, message, **(error.headers or {}))
        else:  # a bug: the client learns only that there was one
            self.log.fault(error)
            refusal = Refusal(500, "internal error; see the server's log")
        status, message = refusal.status_code, refusal.detail
        response = error_page(status, message) if _is_page(path) else JSONResponse({"error": message}, status)
        response.headers.update(refusal.headers or {})
        for challenge in _CHALLENGES if status == 401 else ():
            response.headers.append("www-authenticate", challenge)
        return response


def _describe(error: dict[str, Any]) -> str:
    """Return one line about an error that pydantic found: where it is, and the rule it breaks."""
    locations = [str(part) for part in error["loc"] if part in _LOCATIONS]
    message = _RULES.get(error["type"], error["msg"][:1].lower() + error["msg"][1:])
    return f"{locations[-1]}: {message}" if locations else message


def _authenticated(keys: KeyRing, headers: dict[bytes, bytes], path: str) -> str:
    """Return the name of the key of a request; refuse one without a valid key, or without the scope."""
    if (known := keys.authenticate(presented_key(headers.get(b"authorization", b"")))) is None:
        raise Refusal(401, "a valid API key is required")
    name, scopes = known
    # An unknown path needs the scope that most keys have.
    needed = Scope.METRICS if path == "/metrics" else Scope.PAGE if _is_page(path) else Scope.RECOMMEND
    if needed not in scopes:
        raise Refusal(403, f"this API key does not have the scope {needed}")
    return name


def _is_page(path: str) -> bool:
    """Return whether a path is a page for people.

    >>> _is_page("/page/user"), _is_page("/pages")
    (True, False)
    """
    return path in {"/", "/page"} or path.startswith("/page/")


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
