"""Scoring: queries that arrive at about the same time are answered together, by one matrix product, in a thread.

There are lanes: single users, batches, similar items. The one that has had the least processor time is next, so a crowd
in one of them does not keep the others waiting for more than a round. A lane takes no more queries than can be answered
soon; a quota bounds what one caller, and all together, may have in it.
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
from pricdr.serving.snapshot import Query, Snapshot

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
    queries: Sequence[Query]
    answers: "asyncio.Future[list[Any]]"


@dataclass(eq=False)
class Lane:
    """Queries of one kind that wait to be scored."""

    score: Callable[[Snapshot, Sequence[Query]], list[Any]]
    jobs: deque[_Job] = field(default_factory=deque)
    seconds_per_answer: float = _FIRST_GUESS
    """A running mean."""
    used: float = 0.0
    """Processor seconds, raised to those of the busy lanes when a job arrives in an empty lane."""

    def next_jobs(self) -> list[_Job]:
        """Return the next jobs that can share a product: of one model, and at most ``MAX_ROWS`` queries."""
        jobs: list[_Job] = []
        count = 0
        while self.jobs:
            job = self.jobs[0]
            count += len(job.queries)
            if jobs and (count > MAX_ROWS or job.snapshot is not jobs[0].snapshot):
                break
            self.jobs.popleft()
            if job.answers.done():  # its client left
                count -= len(job.queries)
            else:
                jobs.append(job)
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

    async def answers(self, lane: Lane, snapshot: Snapshot, queries: Sequence[Query]) -> list[Any]:
        """Return what ``lane`` answers to at most ``MAX_ROWS`` queries, in order."""
        # Batches wait, since a quota has admitted them.
        if lane is not self.batches and len(lane.jobs) >= max(_MIN_WAITING, int(_MAX_WAIT / lane.seconds_per_answer)):
            raise Busy
        if not lane.jobs:
            lane.used = max(lane.used, min((other.used for other in self._lanes if other.jobs), default=0.0))
        job = _Job(snapshot, queries, asyncio.get_running_loop().create_future())
        lane.jobs.append(job)
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._run())
        return await job.answers

    async def _run(self) -> None:
        """Score what waits, round by round."""
        loop = asyncio.get_running_loop()
        while lanes := [lane for lane in self._lanes if lane.jobs]:
            lane = min(lanes, key=lambda lane: lane.used)
            if not (jobs := lane.next_jobs()):
                continue
            outcome: list[Any] | Exception
            try:
                outcome, seconds = await loop.run_in_executor(self._thread, _score, lane, jobs)
            except Exception as fault:  # it goes to all of them
                outcome, seconds = fault, 0.0
            at = 0
            for job in jobs:
                before, at = at, at + len(job.queries)
                if job.answers.done():  # its client left
                    continue
                if isinstance(outcome, Exception):
                    job.answers.set_exception(outcome)
                else:
                    job.answers.set_result(outcome[before:at])
            lane.used += seconds
            lane.seconds_per_answer += _WEIGHT * (seconds / at - lane.seconds_per_answer)


def _score(lane: Lane, jobs: list[_Job]) -> tuple[list[Any], float]:
    """Return the answers to the queries of several jobs, and the processor seconds it took."""
    started = thread_time()  # not wall time: what a busy machine makes it wait is no cost of the lane
    answers = lane.score(jobs[0].snapshot, [query for job in jobs for query in job.queries])
    return answers, thread_time() - started
