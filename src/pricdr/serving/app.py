"""The application: routes, and the OpenAPI document that describes them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from json.encoder import encode_basestring as quoted
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from pricdr import __version__
from pricdr.serving import pages
from pricdr.serving.admission import Admission
from pricdr.serving.answering import DEFAULT_K, JSON, FastPath, JsonAnswers, items_json
from pricdr.serving.errors import Refusal, add_handlers
from pricdr.serving.gate import OPEN, Gate
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
from pricdr.serving.snapshot import UnknownItem, UserQuery
from pricdr.serving.worker import Worker

_REFUSED: Final = "the newest model folder cannot be used, so an older model is being served; the log says why"
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
    admission = Admission(settings.limits.max_wait, worker)
    metrics = Metrics(models, admission)

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
    recommendations = _recommendation_routes(models, answers)
    app.include_router(recommendations)
    app.include_router(_state_routes(models, metrics))
    app.include_router(pages.router(models, settings))
    if keys is not None:
        _document_keys(app)
    busiest = next(route for route in recommendations.routes if getattr(route, "name", "") == "recommend")
    app.add_middleware(FastPath, answers=answers, route=busiest)
    # The middleware added last is the first that a request reaches.
    app.add_middleware(
        Gate, settings=settings, keys=keys, admission=admission, metrics=metrics, log=log or ServerLog.silent()
    )
    return app


def _recommendation_routes(models: Models, answers: JsonAnswers) -> APIRouter:
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
        request.state.caller.charge(len(batch.users) - 1)
        return _json(await answers.for_users([UserQuery(user, batch.k) for user in batch.users]))

    @routes.get(
        "/items/{item:path}/similar",
        summary="Find similar items",
        responses=responses(SimilarAnswer, 404, 422, *_LIMITED),
        response_class=Response,
    )
    def similar(item: ItemPath, k: K = DEFAULT_K) -> Response:  # runs in a thread: the worker scores only users
        """Return the items whose vectors point the same way as this one's."""
        with models.current() as snapshot:
            try:
                items = snapshot.similar(item, k)
            except UnknownItem as error:
                raise Refusal(404, str(error)) from error
            header = f'"item":{quoted(item)},"model":{quoted(snapshot.fingerprint)}'
        return _json(f'{{{header},"items":{items_json(items)}}}'.encode())

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
