"""From a query to the JSON of its answer, for the routes of the application and for the fast path of the busiest one.

The JSON is assembled by hand: having FastAPI validate and encode it would take longer than computing the answer.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from json.encoder import encode_basestring as quoted
from typing import Final

from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from pricdr.data.ids import id_fault
from pricdr.serving.metrics import Metrics
from pricdr.serving.models import Models
from pricdr.serving.search import MAX_ROWS
from pricdr.serving.snapshot import MAX_K, Answer, Recommended, UserQuery
from pricdr.serving.worker import Worker

DEFAULT_K: Final = 10
JSON: Final = "application/json"
_PREFIX, _SUFFIX = "/users/", "/recommendations"
_K_QUERY: Final = re.compile(rb"k=([1-9][0-9]{0,3})")


class JsonAnswers:
    """Answers queries from the model being served, as JSON."""

    def __init__(self, models: Models, worker: Worker, metrics: Metrics) -> None:
        self._models, self._worker, self._metrics = models, worker, metrics

    async def for_user(self, query: UserQuery) -> bytes:
        """Return the JSON of one user's recommendations."""
        with self._models.current() as snapshot:
            answer = await self._worker.answer(snapshot, query)
            fingerprint = snapshot.fingerprint
        self._metrics.answer(answer.basis)
        return f'{{{_answer_fields(answer)},"model":{quoted(fingerprint)}}}'.encode()

    async def for_users(self, queries: Sequence[UserQuery]) -> AsyncGenerator[bytes]:
        """Yield the JSON of several users' recommendations, in the order of the queries, in pieces.

        Each piece is scored only when the one before it was sent, so a client that leaves or does not read costs
        nothing more, and no answer is in memory as a whole.
        """
        with self._models.current() as snapshot:
            text = f'{{"model":{quoted(snapshot.fingerprint)},"recommendations":['
            for start in range(0, len(queries), MAX_ROWS):
                answers = await self._worker.batch(snapshot, queries[start : start + MAX_ROWS])
                for answer in answers:
                    self._metrics.answer(answer.basis)
                yield (text + ",".join(f"{{{_answer_fields(answer)}}}" for answer in answers)).encode()
                text = ","
            yield b"]}"

    async def similar(self, item: str, k: int) -> bytes | None:
        """Return the JSON of the items most like this one; None if the model does not know it."""
        with self._models.current() as snapshot:
            items = await self._worker.similar(snapshot, item, k)
            fingerprint = snapshot.fingerprint
        if items is None:
            return None
        return f'{{"item":{quoted(item)},"model":{quoted(fingerprint)},"items":{items_json(items)}}}'.encode()


class FastPath:
    """Answers plain requests to the busiest route without FastAPI, which would take half of the time.

    Requests that are unusual or invalid in any way go on to ``app``, which has the error messages.
    """

    def __init__(self, app: ASGIApp, answers: JsonAnswers, route: BaseRoute) -> None:
        self._app, self._answers, self._route = app, answers, route

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        query = _plain_query(scope)
        if query is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        body = await self._answers.for_user(query)
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _plain_query(scope: Connection) -> UserQuery | None:
    """Return the query of a plain, valid request for a user's recommendations; None for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    path: str = scope["path"]
    if not path.startswith(_PREFIX) or not path.endswith(_SUFFIX) or len(path) <= len(_PREFIX) + len(_SUFFIX):
        return None
    k, query_string = DEFAULT_K, scope["query_string"]
    if query_string:
        match = _K_QUERY.fullmatch(query_string)
        if match is None or int(match[1]) > MAX_K:
            return None
        k = int(match[1])
    user = path[len(_PREFIX) : -len(_SUFFIX)]
    return None if id_fault(user) is not None else UserQuery(user, k)


def items_json(items: Sequence[Recommended]) -> str:
    """Return recommended items as a JSON list.

    >>> items_json([Recommended("a", 0.5, 1)])
    '[{"item":"a","score":0.5,"rank":1}]'
    """
    # Loading a model checks that its scores are finite, and Python writes finite floats as JSON does.
    objects = [f'{{"item":{quoted(item)},"score":{score!r},"rank":{rank}}}' for item, score, rank in items]
    return f"[{','.join(objects)}]"


def _answer_fields(answer: Answer) -> str:
    return f'"user":{quoted(answer.user)},"basis":"{answer.basis.value}","items":{items_json(answer.items)}'
