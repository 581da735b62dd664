"""Scoring: queries that arrive at about the same time are answered together, by one matrix product, in a thread.

There are lanes: single users, batches, similar items. They take turns, so a crowd in one of them does not keep the
others waiting for more than a round. A lane takes no more queries than can be answered soon; a quota bounds what one
caller, and all together, may have in it.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import thread_time
from typing import Any, Final, NamedTuple

from pricdr.serving.search import MAX_ROWS
from pricdr.serving.snapshot import ItemsQuery, Snapshot

_MAX_WAIT: Final = 0.25
"""Seconds of scoring that may wait in a lane; further queries are refused."""
_MIN_WAITING: Final = 4
"""Queries that may wait in a lane however long each takes."""
_FIRST_GUESS: Final = 1e-3
"""Seconds for an answer, until they are measured."""
_WEIGHT: Final = 0.1
"""Weight of the newest measurement in the running mean of the seconds per answer."""


class Busy(Exception):  # noqa: N818 - no error of the program
    """Too much is waiting already."""


class Quota:
    """Something of which one caller may use ``each``, and all callers together ``total``."""

    def __init__(self, each: int, total: int) -> None:
        self._each, self._total = each, total
        self.used: Counter[str] = Counter()

    @contextmanager
    def take(self, caller: str, amount: int = 1) -> Iterator[None]:
        """Use some of it until the block ends; raise :class:`Busy` if there is not enough left."""
        if self.used[caller] + amount > self._each or self.used.total() + amount > self._total:
            raise Busy
        self.used[caller] += amount
        try:
            yield
        finally:
            self.used[caller] -= amount
            self.used = +self.used  # without callers that use nothing


class _Job(NamedTuple):
    snapshot: Snapshot
    queries: Sequence[ItemsQuery]
    answers: "asyncio.Future[list[Any]]"


@dataclass(eq=False)
class Lane:
    """Queries of one kind that wait to be scored."""

    score: Callable[[Snapshot, Sequence[ItemsQuery]], list[Any]]
    jobs: deque[_Job] = field(default_factory=deque)
    seconds_per_answer: float = _FIRST_GUESS
    """A running mean of processor seconds."""

    def next_jobs(self) -> list[_Job]:
        """Return the next jobs that can share a product: of one model, and at most ``MAX_ROWS`` queries."""
        jobs: list[_Job] = []
        room = MAX_ROWS
        while self.jobs:
            job = self.jobs[0]
            if jobs and (len(job.queries) > room or job.snapshot is not jobs[0].snapshot):
                break
            self.jobs.popleft()
            if not job.answers.done():  # its client has not left
                jobs.append(job)
                room -= len(job.queries)
        return jobs


class Worker:
    """Answers queries, as many at a time as one product holds, in a thread."""

    def __init__(self) -> None:
        self.users, self.batches = (Lane(lambda snapshot, queries: snapshot.answers(queries)) for _ in range(2))
        self.similar_items = Lane(lambda snapshot, queries: snapshot.similar_to(queries))
        self._lanes = (self.users, self.batches, self.similar_items)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._rounds: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many queries wait to be scored."""
        return sum(len(job.queries) for lane in self._lanes for job in lane.jobs)

    async def answers(self, lane: Lane, snapshot: Snapshot, queries: Sequence[ItemsQuery]) -> list[Any]:
        """Return what ``lane`` answers to at most ``MAX_ROWS`` queries, in order."""
        # Batches wait, since a quota has admitted them.
        if lane is not self.batches and len(lane.jobs) >= max(_MIN_WAITING, int(_MAX_WAIT / lane.seconds_per_answer)):
            raise Busy
        job = _Job(snapshot, queries, asyncio.get_running_loop().create_future())
        lane.jobs.append(job)
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._run())
        return await job.answers

    async def _run(self) -> None:
        """Score what waits, a round of each lane in turn."""
        while any(lane.jobs for lane in self._lanes):
            for lane in self._lanes:
                if jobs := lane.next_jobs():
                    await self._score(lane, jobs)

    async def _score(self, lane: Lane, jobs: list[_Job]) -> None:
        """Answer some jobs together; an error goes to all of them."""
        queries = [query for job in jobs for query in job.queries]

        def score() -> tuple[list[Any], float]:
            started = thread_time()  # not wall time: what a busy machine makes it wait is no cost of the lane
            return lane.score(jobs[0].snapshot, queries), thread_time() - started

        try:
            answers, seconds = await asyncio.get_running_loop().run_in_executor(self._thread, score)
        except Exception as fault:
            for job in jobs:
                if not job.answers.done():
                    job.answers.set_exception(fault)
            return
        lane.seconds_per_answer += _WEIGHT * (seconds / len(queries) - lane.seconds_per_answer)
        rest = iter(answers)
        for job in jobs:
            own = [next(rest) for _ in job.queries]
            if not job.answers.done():
                job.answers.set_result(own)
