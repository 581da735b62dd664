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
from pricdr.serving.answering import DEFAULT_K, JSON, Answering, ShortWay, items_text
from pricdr.serving.errors import Refusal, add_handlers
from pricdr.serving.gate import OPEN, Gate
from pricdr.serving.keys import KeyHolders
from pricdr.serving.log import EventLines
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
from pricdr.serving.snapshot import UnknownItem, Wanted
from pricdr.serving.worker import Worker

_REFUSED: Final = "the newest model folder cannot be used; an older model answers, and the log says why"
_LIMITED: Final = (401, 403, 429, 503)
"""How the gate refuses what needs a key and work."""


def create_app(
    models: Models, settings: Settings, *, keys: KeyHolders | None = None, log: EventLines | None = None
) -> FastAPI:
    """Return the application that answers from ``models``.

    Args:
        models: what is served.
        settings: whom it answers, and up to which limits.
        keys: the API keys in force; without them everybody is answered.
        log: where events go; nowhere if None.
    """
    worker = Worker()
    admission = Admission(settings.limits.longest_wait, worker)
    metrics = Metrics(models, admission)

    @asynccontextmanager
    async def until_the_end(_app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(
        title="PriCDR recommendations",
        version=__version__,
        description="Recommendations of one model, and what each of them rests on.",
        docs_url=None,  # the pages that come with it load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=until_the_end,
        # It would hand every path, and so every id, to whatever collects traces in this process.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.metrics = metrics
    add_handlers(app)
    answering = Answering(models, worker, metrics)
    recommending = _recommendations(models, answering)
    app.include_router(recommending)
    app.include_router(_states(models, metrics))
    app.include_router(pages.router(models, settings))
    if keys is not None:
        _describe_keys(app)
    busiest = next(route for route in recommending.routes if getattr(route, "name", "") == "recommend")
    app.add_middleware(ShortWay, answering=answering, route=busiest)
    # The last to be added is the first that a request meets.
    app.add_middleware(
        Gate, settings=settings, keys=keys, admission=admission, metrics=metrics, log=log or EventLines.silent()
    )
    return app


def _recommendations(models: Models, answering: Answering) -> APIRouter:
    routes = APIRouter(tags=["recommendations"])

    @routes.get(
        "/users/{user:path}/recommendations",
        summary="Recommend items to a user",
        responses=responses(UserRecommendations, 422, *_LIMITED),
        response_class=Response,
    )
    async def recommend(user: UserPath, k: K = DEFAULT_K) -> Response:
        """Return the best unseen items of a user; what is popular where the model never met the user."""
        return _json(await answering.one(Wanted(user, k)))

    @routes.post(
        "/recommendations",
        summary="Recommend items to several users",
        responses=responses(BatchAnswer, 408, 413, 422, *_LIMITED),
        response_class=Response,
    )
    async def recommend_to_many(request: Request, batch: BatchRequest) -> Response:
        """Return the best unseen items of each user, in the order they were given."""
        # One answer is paid for by now; the others count too.
        request.state.caller.charge(len(batch.users) - 1)
        return _json(await answering.many([Wanted(user, batch.k) for user in batch.users]))

    @routes.get(
        "/items/{item:path}/similar",
        summary="Find similar items",
        responses=responses(SimilarAnswer, 404, 422, *_LIMITED),
        response_class=Response,
    )
    def similar(item: ItemPath, k: K = DEFAULT_K) -> Response:  # in a thread: the worker is for users
        """Return the items whose vectors point the same way as this one's."""
        with models.current() as snapshot:
            try:
                items = snapshot.similar(item, k)
            except UnknownItem as error:
                raise Refusal(404, str(error)) from error
            about = f'"item":{quoted(item)},"model":{quoted(snapshot.fingerprint)}'
        return _json(f'{{{about},"items":{items_text(items)}}}'.encode())

    return routes


def _states(models: Models, metrics: Metrics) -> APIRouter:
    routes = APIRouter(tags=["state"])

    @routes.get("/health", summary="Tell whether the process is alive", responses=responses(Health))
    async def health() -> Response:
        """Answer as long as the process does anything at all."""
        return JSONResponse({"status": "alive"})

    @routes.get("/ready", summary="Tell whether requests are answered", responses=responses(Readiness))
    async def ready() -> Response:
        """Return which model answers, and whether the newest folder was refused."""
        with models.current() as snapshot:
            state = {"ready": True, "model": snapshot.fingerprint, "users": snapshot.n_users, "items": snapshot.n_items}
        return JSONResponse(state if models.problem is None else {**state, "refused": _REFUSED})

    @routes.get(
        "/metrics",
        summary="Return measurements for Prometheus",
        responses={
            200: {"description": "In the text format of Prometheus.", "content": {"text/plain": {}}},
            **responses(None, 401, 403),
        },
        response_class=Response,
    )
    def measurements() -> Response:
        """Return counts of requests and answers, times, memory, and the state of the model."""
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    return routes


def _json(content: bytes) -> Response:
    return Response(content, media_type=JSON)


def _describe_keys(app: FastAPI) -> None:
    """Let the OpenAPI document say that keys are needed; the gate asks for them."""
    described = app.openapi

    def with_keys() -> dict[str, Any]:
        document = described()
        document.setdefault("components", {})["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer", "description": "An API key of `pricdr serving-key`."},
            "password": {"type": "http", "scheme": "basic", "description": "The same key as the password."},
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path in OPEN else [{"key": []}, {"password": []}]
        return document

    app.openapi = with_keys  # type: ignore[method-assign]
