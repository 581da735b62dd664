"""From a question to the bytes of an answer, for the routes of the application and for the short way to the busiest.

The JSON is put together here: to let FastAPI check and encode what this program computed itself would take longer than
to compute it.
"""

import asyncio
import re
from collections.abc import Sequence
from json.encoder import encode_basestring as quoted
from typing import Final

from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from pricdr.data.ids import id_fault
from pricdr.serving.metrics import Metrics
from pricdr.serving.models import Models
from pricdr.serving.snapshot import LARGEST_K, Answer, Recommended, Wanted
from pricdr.serving.worker import Worker

DEFAULT_K: Final = 10
JSON: Final = "application/json"
_WRITTEN_AT_ONCE: Final = 32
"""Answers of a batch."""
_BEFORE, _AFTER = "/users/", "/recommendations"
_QUERY: Final = re.compile(rb"k=([1-9][0-9]{0,3})")


class Answering:
    """Answers questions about users from the model that is served."""

    def __init__(self, models: Models, worker: Worker, metrics: Metrics) -> None:
        self._models, self._worker, self._metrics = models, worker, metrics

    async def one(self, wanted: Wanted) -> bytes:
        """Return the JSON of one user's recommendations."""
        with self._models.current() as snapshot:
            answer = (await self._worker.answers(snapshot, (wanted,)))[0]
            fingerprint = snapshot.fingerprint
        self._metrics.answer(answer.basis)
        return f'{{{_answer(answer)},"model":{quoted(fingerprint)}}}'.encode()

    async def many(self, wanted: Sequence[Wanted]) -> bytes:
        """Return the JSON of several users' recommendations, in their order."""
        with self._models.current() as snapshot:
            answers = await self._worker.answers(snapshot, wanted)
            fingerprint = snapshot.fingerprint
        texts = []
        for at, answer in enumerate(answers, 1):
            self._metrics.answer(answer.basis)
            texts.append(f"{{{_answer(answer)}}}")
            if not at % _WRITTEN_AT_ONCE:
                await asyncio.sleep(0)  # a hundred thousand items take a while to write: others come in between
        return f'{{"model":{quoted(fingerprint)},"recommendations":[{",".join(texts)}]}}'.encode()


class ShortWay:
    """Answers the busiest route without FastAPI, whose own work would be half of the time.

    It takes a request only where there is nothing to say against it; every other goes on to ``app``, which knows what
    is wrong with it, or that it is for somebody else.
    """

    def __init__(self, app: ASGIApp, answering: Answering, route: BaseRoute) -> None:
        self._app, self._answering, self._route = app, answering, route

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        wanted = _wanted(scope)
        if wanted is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        body = await self._answering.one(wanted)
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _wanted(scope: Connection) -> Wanted | None:
    """Return what a plain request for a user's recommendations asks for; None for any other request."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    path: str = scope["path"]
    if not path.startswith(_BEFORE) or not path.endswith(_AFTER) or len(path) <= len(_BEFORE) + len(_AFTER):
        return None
    k, query = DEFAULT_K, scope["query_string"]
    if query:
        number = _QUERY.fullmatch(query)
        if number is None or int(number[1]) > LARGEST_K:
            return None
        k = int(number[1])
    user = path[len(_BEFORE) : -len(_AFTER)]
    return None if id_fault(user) is not None else Wanted(user, k)


def items_text(items: Sequence[Recommended]) -> str:
    """Return recommended items as a JSON list.

    >>> items_text([Recommended("a", 0.5, 1)])
    '[{"item":"a","score":0.5,"rank":1}]'
    """
    # Scores are finite, as the model was checked for that: what Python writes for them is JSON.
    texts = [f'{{"item":{quoted(item)},"score":{score!r},"rank":{rank}}}' for item, score, rank in items]
    return f"[{','.join(texts)}]"


def _answer(answer: Answer) -> str:
    return f'"user":{quoted(answer.user)},"basis":"{answer.basis.value}","items":{items_text(answer.items)}'
