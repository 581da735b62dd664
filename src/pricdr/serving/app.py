"""The application: routes, and the OpenAPI document that describes them."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from pricdr import __version__
from pricdr.serving import pages
from pricdr.serving.admission import Batches
from pricdr.serving.answering import DEFAULT_K, JSON, FastPath, JsonAnswers
from pricdr.serving.errors import Refusal, add_handlers
from pricdr.serving.gate import BUSY, OPEN, Gate, admissions
from pricdr.serving.keys import Authenticator
from pricdr.serving.log import ServerLog
from pricdr.serving.metrics import CONTENT_TYPE, Metrics
from pricdr.serving.models import Models
from pricdr.serving.schema import (
    BatchAnswer,
    BatchRequest,
    Health,
    ItemPath,
    K,
    Readiness,
    SimilarAnswer,
    UserPath,
    UserRecommendations,
    responses,
)
from pricdr.serving.settings import Settings
from pricdr.serving.snapshot import UserQuery
from pricdr.serving.worker import Worker

_REFUSED: Final = "the newest model folder cannot be used, so an older model is being served; the log says why"
_UNKNOWN_ITEM: Final = "the model does not know this item"
_NO_ITEM_VECTORS: Final = "this model has no item vectors, so it cannot find similar items"
_LIMITED: Final = (401, 403, 429, 503)
"""The statuses with which the gate may refuse a request that needs a key and scoring."""


def create_app(
    models: Models, settings: Settings, *, keys: Authenticator | None = None, log: ServerLog | None = None
) -> FastAPI:
    """Return the application that answers from ``models``.

    Args:
        models: the models to serve.
        settings: which requests to accept, and their limits.
        keys: checks API keys; if None, no key is needed.
        log: where to log events; if None, nothing is logged.
    """
    worker = Worker()
    queues, batches = admissions(settings.limits.max_wait, worker), Batches()
    metrics = Metrics(models, list(queues.values()), batches)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
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
    app.state.metrics = metrics
    add_handlers(app)
    answers = JsonAnswers(models, worker, metrics)
    recommendations = _recommendation_routes(models, answers, batches)
    app.include_router(recommendations)
    app.include_router(_state_routes(models, metrics))
    app.include_router(pages.router(models, settings))
    if keys is not None:
        _document_keys(app)
    busiest = next(route for route in recommendations.routes if getattr(route, "name", "") == "recommend")
    app.add_middleware(FastPath, answers=answers, route=busiest)
    # The middleware added last is the first that a request reaches.
    app.add_middleware(
        Gate, settings=settings, keys=keys, queues=queues, metrics=metrics, log=log or ServerLog.silent()
    )
    return app


def _recommendation_routes(models: Models, answers: JsonAnswers, batches: Batches) -> APIRouter:
    routes = APIRouter(tags=["recommendations"])

    @routes.get(
        "/users/{user:path}/recommendations",
        summary="Recommend items to a user",
        responses=responses(UserRecommendations, 422, *_LIMITED),
        response_class=Response,
    )
    async def recommend(user: UserPath, k: K = DEFAULT_K) -> Response:
        """Return the best unseen items of a user, or the most popular items if the model does not know the user."""
        return _json(await answers.for_user(UserQuery(user, k)))

    @routes.post(
        "/recommendations",
        summary="Recommend items to several users",
        responses=responses(BatchAnswer, 408, 413, 422, *_LIMITED),
        response_class=Response,
    )
    async def recommend_to_many(request: Request, batch: BatchRequest) -> Response:
        """Return the best unseen items of each user, in the order of the request."""
        # The gate has charged for one answer; the others count too.
        caller = request.state.caller
        caller.charge(len(batch.users) - 1)
        queries = [UserQuery(user, batch.k) for user in batch.users]
        return _BatchResponse(answers.for_users(queries), batches, caller.name, len(queries))

    @routes.get(
        "/items/{item:path}/similar",
        summary="Find similar items",
        responses=responses(SimilarAnswer, 404, 422, *_LIMITED),
        response_class=Response,
    )
    async def similar(item: ItemPath, k: K = DEFAULT_K) -> Response:
        """Return the items whose vectors point the same way as this one's."""
        content = await answers.similar(item, k)
        if content is None:
            with models.current() as snapshot:
                known = snapshot.has_similar_items
            raise Refusal(404, _UNKNOWN_ITEM if known else _NO_ITEM_VECTORS)
        return _json(content)

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
        with models.current() as snapshot:
            state = {"ready": True, "model": snapshot.fingerprint, "users": snapshot.n_users, "items": snapshot.n_items}
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
    def measurements() -> Response:
        """Return counts and durations of requests and answers, memory, and the state of the model."""
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    return routes


class _BatchResponse(StreamingResponse):
    """Sends the answers of an admitted batch piece by piece, until the last one or until the client leaves."""

    def __init__(self, pieces: AsyncGenerator[bytes], batches: Batches, caller: str, users: int) -> None:
        super().__init__(pieces, media_type=JSON)
        self._pieces, self._batches, self._caller, self._users = pieces, batches, caller, users

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        with self._batches.admitted(self._caller, self._users) as admitted:
            if not admitted:
                raise Refusal(503, BUSY, retry_after="1")
            async with aclosing(self._pieces):
                first = await anext(self._pieces)  # before the status is sent, so that an error has its own
                self.body_iterator = _chain(first, self._pieces)
                await super().__call__(scope, receive, send)


async def _chain(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _json(content: bytes) -> Response:
    return Response(content, media_type=JSON)


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
