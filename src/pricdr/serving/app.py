"""The application: one route for each answer, the OpenAPI document that describes them, and what every request passes.

How many connections and requests a client may open, how fast it must send, and TLS are left to the proxy in front
(``deploy/nginx.conf``). No metric and no line of the log holds anything that a client sent.
"""

import re
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI, Path as PathParameter, Query as QueryParameter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError, to_json
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope as Connection, Send

from pricdr import __version__
from pricdr.data.ids import CONTROLS, MAX_ID_LENGTH
from pricdr.serving import page
from pricdr.serving.keys import KeyRing, Scope, presented_key
from pricdr.serving.log import ServerLog
from pricdr.serving.search import MAX_ROWS
from pricdr.serving.snapshot import MAX_K, Answer, ItemsQuery, RecommendedItem, WatchedModel
from pricdr.serving.worker import Quota, Worker

_ANSWERS: Final = TypeAdapter(list[Answer])
_ID: Final[dict[str, Any]] = {
    "min_length": 1,
    "max_length": MAX_ID_LENGTH,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$",  # the rule of data/ids.py, for OpenAPI
}
_BATCH_USERS: Final = (2000, 8000)  # in the batches of one caller, and of all, that are being answered
_PAGES_AT_ONCE: Final = 4  # rendered in threads; others wait
_REFUSED: Final = "the newest model folder cannot be used, so an older model is being served; the log says why"
_OPEN: Final = frozenset({"/health", "/ready", "/openapi.json"})  # paths that need no key
_BODY_BYTES: Final = 1 << 20
_CONTROL: Final = re.compile(CONTROLS)
_POLICY: Final = (
    b"default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    b"frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY),
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
"""Messages for pydantic's types of errors; others have pydantic's own."""
_LOCATIONS: Final = frozenset({"body", "k", "user", "users", "item"})
"""The names that an error may mention: never a word that the client chose."""
_MESSAGES: Final = {
    "There was an error parsing the body": "the body is not JSON that can be read",  # too deep, or a number too long
    "Not Found": "there is nothing at this address",
    "Method Not Allowed": "this address does not support this method",
}
"""Messages for FastAPI's refusals; others are ours."""


def _whole_number(k: object) -> object:
    """Refuse text that only Python would take for a number (signs, spaces); accept 16.0 as 16, as JSON Schema does."""
    if isinstance(k, str) and not re.fullmatch("[0-9]{1,9}", k):
        raise PydanticCustomError("whole_number", "must be a whole number")
    return int(k) if isinstance(k, float) and k.is_integer() else k


IdPath = Annotated[str, PathParameter(**_ID, description="An id; may contain slashes.")]
K = Annotated[
    Annotated[int, Field(ge=1, le=MAX_K)], BeforeValidator(_whole_number), QueryParameter(description="How many items.")
]


class BatchRequest(BaseModel):
    """Users to recommend to: at most 1,000, and at most 100,000 items for all of them, some megabytes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    users: Annotated[list[Annotated[str, Field(**_ID, examples=["alice"])]], Field(min_length=1, max_length=1000)]
    k: Annotated[int, Field(ge=1, le=100), BeforeValidator(_whole_number)] = page.DEFAULT_K

    @model_validator(mode="before")
    @classmethod
    def _require_known_fields(cls, fields: object) -> object:
        """Refuse unknown fields with one error: pydantic would report each, and a body has room for 100,000."""
        if isinstance(fields, dict) and not fields.keys() <= cls.model_fields.keys():
            raise PydanticCustomError("extra_forbidden", "unknown field")
        return fields


@dataclass
class UserAnswer(Answer):
    """An answer, and the fingerprint of the model that gave it."""

    model: str


@dataclass
class BatchAnswer:
    """The recommendations of each user, in the order of the request."""

    model: str
    recommendations: list[Answer]


@dataclass
class SimilarAnswer:
    """The items most like one item, by the cosine of their vectors."""

    item: str
    model: str
    items: list[RecommendedItem]


@dataclass
class Readiness:
    """Whether requests are answered, from which model, and what is wrong while a newer folder cannot be used."""

    ready: bool
    model: str
    users: int
    items: int
    refused: str | None = None


@dataclass
class Error:
    """Why a request was refused."""

    error: str


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of an operation: these statuses, and those that every request may get."""
    retry = {"headers": {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "required": True}}}
    return {
        status: {"model": Error, "description": HTTPStatus(status).phrase, **(retry if status == 503 else {})}
        for status in sorted({400, 421, 500, *statuses})
    }


def create_app(
    models: Sequence[WatchedModel],
    *,
    hosts: frozenset[str] | None,
    keys: KeyRing | None,
    log: ServerLog,
    evaluation: Path | None = None,
    frontier: Path | None = None,
) -> FastAPI:
    """Return what answers from the first model; without ``hosts`` under any name, without ``keys`` to anybody."""
    served, worker, batch_users, metrics = models[0], Worker(), Quota(*_BATCH_USERS), Metrics()

    def refused() -> bool:
        return any(model.problem for model in models)

    metrics.watch("queries_waiting", "Users and items waiting to be scored.", lambda: worker.waiting)
    metrics.watch("batch_users", "Users of the batches being answered.", lambda: batch_users.used.total())
    metrics.watch("model_refused", "1 while the newest model folder cannot be used.", refused)
    metrics.watch("model_loaded_at_seconds", "When the model was read.", lambda: served.snapshot.loaded_at)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = _PAGES_AT_ONCE
        yield

    app = FastAPI(
        title="PriCDR recommendations",
        version=__version__,
        description="Recommendations from one model, and what each of them is based on.",
        docs_url=None,  # FastAPI's documentation pages load scripts from other servers
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        # It would pass every path, and so every id, to any trace collector in this process.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )

    @app.get("/users/{user:path}/recommendations", responses=_refusals(401, 403, 422, 503))
    async def recommend(user: IdPath, k: K = page.DEFAULT_K) -> UserAnswer:
        """Return the best unseen items of a user, or the most popular items if the model does not know the user."""
        snapshot = served.snapshot
        (answer,) = await worker.answers(worker.users, snapshot, [ItemsQuery(user, k)])
        metrics.answers.labels(answer.basis.value).inc()
        return UserAnswer(answer.user, answer.basis, answer.items, snapshot.fingerprint)

    async def admit(request: Request, batch: BatchRequest) -> AsyncIterator[BatchRequest]:
        """Count the users of a batch until its answer has been sent, or its client has left."""
        with batch_users.take(request.state.caller, len(batch.users)):
            yield batch

    @app.post(
        "/recommendations",
        responses={200: {"model": BatchAnswer}, **_refusals(401, 403, 413, 422, 503)},
        response_class=StreamingResponse,
    )
    async def recommend_to_many(batch: Annotated[BatchRequest, Depends(admit)]) -> StreamingResponse:
        """Return the best unseen items of each user, in the order of the request."""
        # Each piece is scored only when the one before it was sent: a client that leaves or does not read costs nothing
        # more, and no answer is in memory as a whole.
        snapshot = served.snapshot
        queries = [ItemsQuery(user, batch.k) for user in batch.users]

        async def piece(start: int) -> bytes:
            answers = await worker.answers(worker.batches, snapshot, queries[start : start + MAX_ROWS])
            for answer in answers:
                metrics.answers.labels(answer.basis.value).inc()
            return _ANSWERS.dump_json(answers)[1:-1]

        async def pieces(first: bytes) -> AsyncIterator[bytes]:
            yield b'{"model":%b,"recommendations":[%b' % (to_json(snapshot.fingerprint), first)
            for start in range(MAX_ROWS, len(queries), MAX_ROWS):
                yield b"," + await piece(start)
            yield b"]}"

        first = await piece(0)  # before the status is sent, so that an error has its own
        return StreamingResponse(pieces(first), media_type="application/json")

    @app.get("/items/{item:path}/similar", responses=_refusals(401, 403, 404, 422, 503))
    async def similar(item: IdPath, k: K = page.DEFAULT_K) -> SimilarAnswer:
        """Return the items whose vectors point the same way as this one's."""
        snapshot = served.snapshot
        if not snapshot.compares_items:
            raise HTTPException(404, "this model has no item vectors, so it cannot find similar items")
        (items,) = await worker.answers(worker.similar_items, snapshot, [ItemsQuery(item, k)])
        if items is None:
            raise HTTPException(404, "the model does not know this item")
        return SimilarAnswer(item, snapshot.fingerprint, items)

    @app.get("/health", responses=_refusals())
    async def health() -> dict[str, str]:
        """Answer as long as the process is running."""
        return {"status": "alive"}

    @app.get("/ready", responses=_refusals(), response_model_exclude_none=True)
    async def ready() -> Readiness:
        """Return which model is being served, and whether a newer folder was refused."""
        return Readiness(True, **served.snapshot.facts, refused=_REFUSED if refused() else None)

    @app.get("/metrics", responses=_refusals(401, 403), response_class=PlainTextResponse)
    async def measurements() -> Response:
        """Return counts and durations of requests and answers, memory, and the state of the model."""
        return Response(generate_latest(metrics.registry), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(HTTPException)
    async def leave_to_the_gate(_request: Request, error: Exception) -> Response:
        raise error

    app.include_router(page.router(models, worker, evaluation=evaluation, frontier=frontier))
    if keys is not None:
        document = app.openapi()  # which FastAPI keeps; the gate checks the keys
        document["components"]["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "A key from `pricdr serving-key`."},
            "password": {"type": "http", "scheme": "basic", "description": "The same key as the password."},
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path in _OPEN else [{"key": []}, {"password": []}]
    app.add_middleware(Gate, hosts=hosts, keys=keys, metrics=metrics, log=log)
    return app


class Metrics:
    """Counts and durations of requests, for Prometheus."""

    def __init__(self) -> None:
        self.registry = new = CollectorRegistry()
        ProcessCollector(registry=new)
        self.requests = Counter("pricdr_requests", "Requests answered.", ["route", "status"], registry=new)
        about = "Time to answer a request."
        self.seconds = Histogram("pricdr_request_seconds", about, ["route"], buckets=_BUCKETS, registry=new)
        self.answers = Counter("pricdr_answers", "Users answered, by basis.", ["basis"], registry=new)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Show what ``value`` returns whenever the metrics are asked for."""
        Gauge(f"pricdr_{name}", about, registry=self.registry).set_function(value)


@dataclass(frozen=True)
class Gate:
    """Checks, counts and logs the requests to ``app``."""

    app: ASGIApp
    hosts: frozenset[str] | None
    keys: KeyRing | None
    metrics: Metrics
    log: ServerLog

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, size = perf_counter(), 0, 0
        state, path = scope.setdefault("state", {}), scope["path"]
        on_page = path in {"/", "/page"} or path.startswith("/page/")

        async def receive_some() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > _BODY_BYTES:
                raise HTTPException(413, f"a body has at most {_BODY_BYTES:,} bytes", {"connection": "close"})
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
            if self.keys is not None and path not in _OPEN:
                # An unknown path needs the scope that most keys have.
                needed = Scope.METRICS if path == "/metrics" else Scope.PAGE if on_page else Scope.RECOMMEND
                state["caller"] = state["key"] = _authenticated(self.keys, headers, needed)
            await self.app(scope, receive_some, send_on)
        except Exception as error:
            response = self._response(error, on_page=on_page)
            if not status:  # otherwise part of a response has been sent, and nothing can be added to it
                await response(scope, receive, send_on)
        finally:
            seconds, route = perf_counter() - started, getattr(scope.get("route"), "path_format", "none")
            self.metrics.requests.labels(route, status).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            if self.log.requests:
                ms, key = round(seconds * 1e3, 2), state.get("key")
                self.log.event("request", method=scope["method"], route=route, status=status, ms=ms, key=key)

    def _response(self, error: Exception, *, on_page: bool) -> Response:
        if isinstance(error, RequestValidationError):  # where the first one is, and the rule it breaks
            first = error.errors()[0]
            place = [f"{part}: " for part in first["loc"] if part in _LOCATIONS][-1:]
            rule = _RULES.get(first["type"], first["msg"][:1].lower() + first["msg"][1:])
            error = HTTPException(422, "".join([*place, rule]))
        elif not isinstance(error, HTTPException):  # a bug: the client learns only that there was one
            self.log.fault(error)
            error = HTTPException(500, "internal error; see the server's log")
        status, message = error.status_code, _MESSAGES.get(error.detail, error.detail)
        response = page.error_page(status, message) if on_page else JSONResponse({"error": message}, status)
        response.headers.update(error.headers or {})
        for challenge in _CHALLENGES if status == 401 else ():
            response.headers.append("www-authenticate", challenge)
        return response


def _authenticated(keys: KeyRing, headers: dict[bytes, bytes], needed: Scope) -> str:
    """Return the name of the key of a request; refuse one without a valid key, or without the scope."""
    if (known := keys.authenticate(presented_key(headers.get(b"authorization", b"")))) is None:
        raise HTTPException(401, "a valid API key is required")
    name, scopes = known
    if needed not in scopes:
        raise HTTPException(403, f"this API key does not have the scope {needed}")
    return name


def _checked_headers(scope: Connection, hosts: frozenset[str] | None) -> dict[bytes, bytes]:
    """Return the headers of a request, the first of each name; refuse another host and ids that are not text."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(reversed(pairs))
    if hosts is not None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if sum(key == b"host" for key, _ in pairs) > 1:  # a proxy in front might have read the other one
            raise HTTPException(400, "the request has more than one Host header")
        if name not in hosts:
            raise HTTPException(421, "this server does not answer to the name in the Host header; see --allowed-host")
    raw: bytes = scope.get("raw_path") or b""
    if b"%" in raw:
        try:
            path = unquote_to_bytes(raw).decode("utf-8")
        except UnicodeDecodeError:  # decoding would make one id out of several
            raise HTTPException(400, "the address contains a percent-encoding that is not UTF-8") from None
        if _CONTROL.search(path):
            raise HTTPException(400, "the address contains a line break or another control character")
    return headers
