"""The application: one route for each answer, and the OpenAPI document that describes them.

The JSON of answers is assembled by hand: having FastAPI validate and encode it would take longer than computing it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from json.encoder import encode_basestring as quoted
from typing import Any, Final

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from pricdr import __version__
from pricdr.serving import pages
from pricdr.serving.errors import Refusal, add_handlers, describe
from pricdr.serving.gate import OPEN, Gate
from pricdr.serving.keys import Authenticator
from pricdr.serving.log import ServerLog
from pricdr.serving.metrics import CONTENT_TYPE, Metrics
from pricdr.serving.models import Models
from pricdr.serving.schema import (
    DEFAULT_K,
    BatchAnswer,
    BatchRequest,
    Health,
    Id,
    ItemPath,
    K,
    Readiness,
    SimilarAnswer,
    UserPath,
    UserRecommendations,
    responses,
)
from pricdr.serving.search import MAX_ROWS
from pricdr.serving.settings import Settings
from pricdr.serving.snapshot import Answer, Query, Recommended, Snapshot
from pricdr.serving.worker import Quota, Worker

_JSON: Final = "application/json"
_REFUSED: Final = "the newest model folder cannot be used, so an older model is being served; the log says why"
_BATCH_USERS: Final = (2000, 8000)
"""Users in the batches of one caller, and of all, that are being answered."""
_ID: Final[TypeAdapter[str]] = TypeAdapter(Id)
_K: Final[TypeAdapter[int]] = TypeAdapter(K)
_PAGES_AT_ONCE: Final = 4
"""Pages that are rendered at the same time, in threads; others wait."""


def create_app(
    models: Models, settings: Settings, *, keys: Authenticator | None = None, log: ServerLog | None = None
) -> FastAPI:
    """Return the application that answers from ``models``.

    Args:
        models: the models to serve.
        settings: which requests to accept, and what to show.
        keys: checks API keys; if None, no key is needed.
        log: where to log events; if None, nothing is logged.
    """
    worker, batch_users = Worker(), Quota(*_BATCH_USERS)
    metrics = Metrics(models, worker, batch_users)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = _PAGES_AT_ONCE
        yield
        worker.close()

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
    add_handlers(app)
    app.include_router(_recommendation_routes(models, worker, metrics, batch_users))
    app.include_router(_state_routes(models, metrics))
    app.include_router(pages.router(models, settings))
    if keys is not None:
        _document_keys(app)
    hosts = settings.known_hosts
    app.add_middleware(Gate, hosts=hosts, keys=keys, metrics=metrics, log=log or ServerLog())
    return app


def _recommendation_routes(models: Models, worker: Worker, metrics: Metrics, batch_users: Quota) -> APIRouter:
    routes = APIRouter(tags=["recommendations"], route_class=_DirectRoute)
    batches = APIRouter(tags=["recommendations"])

    @routes.get(
        "/users/{user:path}/recommendations",
        summary="Recommend items to a user",
        responses=responses(UserRecommendations, 401, 403, 422, 503),
        response_class=Response,
    )
    async def recommend(user: UserPath, k: K = DEFAULT_K) -> Response:
        """Return the best unseen items of a user, or the most popular items if the model does not know the user."""
        snapshot = models.current
        answer = await worker.answer(snapshot, Query(user, k))
        metrics.answer(answer.basis)
        content = f'{{{_fields(answer)},"model":{quoted(snapshot.fingerprint)}}}'
        return Response(content.encode(), media_type=_JSON)

    @batches.post(
        "/recommendations",
        summary="Recommend items to several users",
        responses=responses(BatchAnswer, 401, 403, 408, 413, 422, 503),
        response_class=Response,
    )
    async def recommend_to_many(request: Request, batch: BatchRequest) -> Response:
        """Return the best unseen items of each user, in the order of the request."""
        queries = [Query(user, batch.k) for user in batch.users]
        pieces = _pieces(models.current, queries, worker, metrics)
        return _BatchResponse(pieces, batch_users, request.state.caller, len(queries))

    @routes.get(
        "/items/{item:path}/similar",
        summary="Find similar items",
        responses=responses(SimilarAnswer, 401, 403, 404, 422, 503),
        response_class=Response,
    )
    async def similar(item: ItemPath, k: K = DEFAULT_K) -> Response:
        """Return the items whose vectors point the same way as this one's."""
        snapshot = models.current
        if not snapshot.compares_items:
            raise Refusal(404, "this model has no item vectors, so it cannot find similar items")
        items = await worker.similar(snapshot, Query(item, k))
        if items is None:
            raise Refusal(404, "the model does not know this item")
        content = f'{{"item":{quoted(item)},"model":{quoted(snapshot.fingerprint)},"items":{_items(items)}}}'
        return Response(content.encode(), media_type=_JSON)

    routes.include_router(batches)
    return routes


def _state_routes(models: Models, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["state"])

    @routes.get("/health", summary="Check that the process is alive", responses=responses(Health))
    async def health() -> Response:
        """Answer as long as the process is running."""
        return JSONResponse({"status": "alive"})

    @routes.get("/ready", summary="Check that requests are answered", responses=responses(Readiness))
    async def ready() -> Response:
        """Return which model is being served, and whether a newer folder was refused."""
        model, fingerprint = models.current.model, models.current.fingerprint
        state = {"ready": True, "model": fingerprint, "users": len(model.users), "items": len(model.items)}
        return JSONResponse(state if models.problem is None else {**state, "refused": _REFUSED})

    @routes.get(
        "/metrics",
        summary="Return metrics for Prometheus",
        responses={
            200: {"description": "Metrics in the text format of Prometheus.", "content": {"text/plain": {}}},
            **responses(None, 401, 403),
        },
        response_class=Response,
    )
    async def measurements() -> Response:
        """Return counts and durations of requests and answers, memory, and the state of the model."""
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    return routes


class _DirectRoute(APIRoute):
    """A route of an id and ``k`` that checks both itself: FastAPI would take a tenth of the time of an answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            ((name, value),) = request.path_params.items()
            query = request.query_params
            k = _checked("k", _K, query["k"]) if "k" in query else DEFAULT_K
            response: Response = await self.endpoint(_checked(name, _ID, value), k)
            return response

        return handle


def _checked(name: str, rule: TypeAdapter[Any], value: str) -> Any:  # noqa: ANN401 - of the type of the rule
    try:
        return rule.validate_python(value)
    except ValidationError as error:
        raise Refusal(422, describe({**error.errors()[0], "loc": (name,)})) from None


class _BatchResponse(StreamingResponse):
    """Sends the answers of an admitted batch piece by piece, until the last one or until the client leaves."""

    def __init__(self, pieces: AsyncGenerator[bytes], users_in_use: Quota, caller: str, users: int) -> None:
        super().__init__(pieces, media_type=_JSON)
        self._pieces, self._users_in_use, self._caller, self._users = pieces, users_in_use, caller, users

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        with self._users_in_use.take(self._caller, self._users):
            async with aclosing(self._pieces):
                first = await anext(self._pieces)  # before the status is sent, so that an error has its own
                self.body_iterator = _chain(first, self._pieces)
                await super().__call__(scope, receive, send)


async def _chain(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _pieces(
    snapshot: Snapshot, queries: Sequence[Query], worker: Worker, metrics: Metrics
) -> AsyncGenerator[bytes]:
    """Yield the JSON of several users' recommendations, in the order of the queries, in pieces.

    Each piece is scored only when the one before it was sent, so a client that leaves or does not read costs nothing
    more, and no answer is in memory as a whole.
    """
    text = f'{{"model":{quoted(snapshot.fingerprint)},"recommendations":['
    for start in range(0, len(queries), MAX_ROWS):
        answers = await worker.batch(snapshot, queries[start : start + MAX_ROWS])
        for answer in answers:
            metrics.answer(answer.basis)
        yield (text + ",".join(f"{{{_fields(answer)}}}" for answer in answers)).encode()
        text = ","
    yield b"]}"


def _fields(answer: Answer) -> str:
    return f'"user":{quoted(answer.user)},"basis":"{answer.basis.value}","items":{_items(answer.items)}'


def _items(items: Sequence[Recommended]) -> str:
    """Return recommended items as a JSON list.

    >>> _items([Recommended("a", 0.5, 1)])
    '[{"item":"a","score":0.5,"rank":1}]'
    """
    # Loading a model checks that its scores are finite, and Python writes finite floats as JSON does.
    objects = [f'{{"item":{quoted(item)},"score":{score!r},"rank":{rank}}}' for item, score, rank in items]
    return f"[{','.join(objects)}]"


def _document_keys(app: FastAPI) -> None:
    """Add to the OpenAPI document that keys are needed; the gate checks them."""
    openapi_without_keys = app.openapi

    def openapi_with_keys() -> dict[str, Any]:
        document = openapi_without_keys()
        document.setdefault("components", {})["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "A key from `pricdr serving-key`."},
            "password": {"type": "http", "scheme": "basic", "description": "The same key as the password."},
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path in OPEN else [{"key": []}, {"password": []}]
        return document

    app.openapi = openapi_with_keys  # type: ignore[method-assign]
