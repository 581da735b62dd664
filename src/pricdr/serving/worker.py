"""Scoring: queries that arrive at about the same time are answered together, by one matrix product, in a thread.

Single users, batches and similar items have lanes, which take turns: a crowd in one delays the others by a round.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import thread_time
from typing import Any, Final

from starlette.exceptions import HTTPException

from pricdr.serving.search import MAX_ROWS
from pricdr.serving.snapshot import ItemsQuery, Snapshot

_MAX_WAIT: Final = 0.25  # seconds of scoring that may wait in a lane; further queries are refused
_MIN_WAITING: Final = 4  # queries that may wait in a lane however long each takes
_WEIGHT: Final = 0.1  # of the newest measurement in the running mean of the seconds per answer


class Busy(HTTPException):
    """Too much is waiting already."""

    def __init__(self) -> None:
        super().__init__(503, "the server is busy: try again in a second", {"retry-after": "1"})


class Quota:
    """Something of which one caller may use ``each``, and all callers together ``total``."""

    def __init__(self, each: int, total: int) -> None:
        self._each, self._total = each, total
        self.used: Counter[str] = Counter()

    @contextmanager
    def take(self, caller: str, amount: int) -> Iterator[None]:
        """Use some of it until the block ends; :class:`Busy` if there is not enough left."""
        if self.used[caller] + amount > self._each or self.used.total() + amount > self._total:
            raise Busy
        self.used[caller] += amount
        try:
            yield
        finally:
            self.used[caller] -= amount
            self.used = +self.used  # without callers that use nothing


@dataclass(eq=False)
class Round:
    """Queries that share one product: of one model, and at most ``MAX_ROWS``."""

    snapshot: Snapshot
    queries: list[ItemsQuery]
    answers: "asyncio.Future[list[Any]]"


@dataclass(eq=False)
class Lane:
    """Queries of one kind that wait to be scored, in the rounds in which they will be."""

    score: Callable[[Snapshot, Sequence[ItemsQuery]], list[Any]]
    rounds: deque[Round] = field(default_factory=deque)
    seconds_per_answer: float = 1e-3  # a running mean of processor seconds; before any are measured, a guess

    @property
    def waiting(self) -> int:
        """How many queries wait."""
        return sum(len(round_.queries) for round_ in self.rounds)


class Worker:
    """Answers queries, as many at a time as one product holds, in a thread."""

    def __init__(self) -> None:
        self.users, self.batches = (Lane(lambda snapshot, queries: snapshot.answers(queries)) for _ in range(2))
        self.similar_items = Lane(lambda snapshot, queries: snapshot.similar_to(queries))
        self._lanes = (self.users, self.batches, self.similar_items)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._scoring: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many queries wait."""
        return sum(lane.waiting for lane in self._lanes)

    async def answers(self, lane: Lane, snapshot: Snapshot, queries: Sequence[ItemsQuery]) -> list[Any]:
        """Return what ``lane`` answers to at most ``MAX_ROWS`` queries."""
        # Batches wait, since a quota has admitted them.
        if lane is not self.batches and lane.waiting >= max(_MIN_WAITING, int(_MAX_WAIT / lane.seconds_per_answer)):
            raise Busy
        last = lane.rounds[-1] if lane.rounds else None
        if last is None or last.snapshot is not snapshot or len(last.queries) + len(queries) > MAX_ROWS:
            last = Round(snapshot, [], asyncio.get_running_loop().create_future())
            lane.rounds.append(last)
        start = len(last.queries)
        last.queries += queries
        if self._scoring is None or self._scoring.done():
            self._scoring = asyncio.create_task(self._run())
        answers = await asyncio.shield(last.answers)  # others wait for them too: who leaves must not cancel them
        return answers[start : start + len(queries)]

    async def _run(self) -> None:
        """Score what waits, a round of each lane in turn."""
        while self.waiting:
            for lane in self._lanes:
                if lane.rounds:
                    await self._score(lane, lane.rounds.popleft())

    async def _score(self, lane: Lane, round_: Round) -> None:
        def score() -> tuple[list[Any], float]:
            started = thread_time()  # not wall time: what a busy machine makes it wait is no cost of the lane
            return lane.score(round_.snapshot, round_.queries), thread_time() - started

        try:
            answers, seconds = await asyncio.get_running_loop().run_in_executor(self._thread, score)
        except Exception as fault:
            round_.answers.set_exception(fault)
        else:
            lane.seconds_per_answer += _WEIGHT * (seconds / len(answers) - lane.seconds_per_answer)
            round_.answers.set_result(answers)
