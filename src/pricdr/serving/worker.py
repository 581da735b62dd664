"""Scoring: queries that arrive at about the same time are answered together, by one matrix product.

There are lanes: single users, batches, similar items. The one that has had the least processor time is next, so a crowd
in one of them does not keep the others waiting for more than a round.

Short products run in the event loop itself. Handing one to a thread and back takes longer than a product over 25,000
items, and the thread would wait for the interpreter whenever the loop is busy. Long products run in a thread, so that
the loop can go on reading, writing and refusing requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import thread_time
from typing import Any, Final, NamedTuple

from pricdr.serving.search import MAX_ROWS
from pricdr.serving.snapshot import Answer, Recommended, Snapshot, UserQuery

_MAX_INLINE: Final = 8e-3
"""Seconds for which scoring may block the event loop."""
_WEIGHT: Final = 0.1
"""Weight of the newest measurement in the running mean of the seconds per answer."""


class _Job(NamedTuple):
    snapshot: Snapshot
    queries: Sequence[Any]
    answers: "asyncio.Future[list[Any]]"


class _Result(NamedTuple):
    answers: list[Any]
    error: Exception | None
    seconds: float


@dataclass(eq=False)
class Lane:
    """Queries of one kind that wait to be scored."""

    score: Callable[[Snapshot, Sequence[Any]], list[Any]]
    jobs: deque[_Job] = field(default_factory=deque)
    seconds_per_answer: float = _MAX_INLINE
    """A running mean. It starts high, so that the first answers of a model are scored in the thread."""
    used: float = 0.0
    """Processor seconds, raised to those of the busy lanes when a job arrives in an empty lane."""
    measured_model: str = ""
    """The fingerprint of the model that ``seconds_per_answer`` was measured on."""


class Worker:
    """Answers queries, as many at a time as one product holds."""

    def __init__(self) -> None:
        self.users, self.batches = (Lane(lambda snapshot, queries: snapshot.answers(queries)) for _ in range(2))
        self.similar_items = Lane(lambda snapshot, queries: snapshot.similar_to(queries))
        self._lanes = (self.users, self.batches, self.similar_items)
        self._busy = False
        self._thread: ThreadPoolExecutor | None = None

    async def answer(self, snapshot: Snapshot, query: UserQuery) -> Answer:
        """Return the answer for one user."""
        answer: Answer = (await self._answers(self.users, snapshot, [query]))[0]
        return answer

    async def batch(self, snapshot: Snapshot, queries: Sequence[UserQuery]) -> list[Answer]:
        """Return the answers for at most ``MAX_ROWS`` users, in order."""
        return await self._answers(self.batches, snapshot, queries)

    async def similar(self, snapshot: Snapshot, item: str, k: int) -> tuple[Recommended, ...] | None:
        """Return the items most like this one; None if the model does not know it."""
        items: tuple[Recommended, ...] | None = (await self._answers(self.similar_items, snapshot, [(item, k)]))[0]
        return items

    def close(self) -> None:
        """Shut the thread down after the round it is scoring."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    async def _answers(self, lane: Lane, snapshot: Snapshot, queries: Sequence[Any]) -> list[Any]:
        loop = asyncio.get_running_loop()
        if not lane.jobs:
            lane.used = max(lane.used, min((other.used for other in self._lanes if other.jobs), default=0.0))
        job = _Job(snapshot, queries, loop.create_future())
        lane.jobs.append(job)
        if not self._busy:
            self._busy = True
            # Not immediately: other requests that have just been read may join this round.
            loop.call_soon(self._start_round, loop)
        return await job.answers

    def _start_round(self, loop: asyncio.AbstractEventLoop) -> None:
        """Score the next jobs, in the event loop or in the thread."""
        lane = min((lane for lane in self._lanes if lane.jobs), key=lambda lane: lane.used, default=None)
        if lane is None:
            self._busy = False
            return
        jobs = _next_jobs(lane)
        if not jobs:
            loop.call_soon(self._start_round, loop)
            return
        if jobs[0].snapshot.fingerprint != lane.measured_model:  # a new model may be a thousand times as large
            lane.measured_model, lane.seconds_per_answer = jobs[0].snapshot.fingerprint, _MAX_INLINE
        if sum(len(job.queries) for job in jobs) * lane.seconds_per_answer <= _MAX_INLINE:
            self._finish_round(loop, lane, jobs, _score(lane, jobs))
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
            scoring = loop.run_in_executor(self._thread, _score, lane, jobs)
            scoring.add_done_callback(lambda done: self._finish_round(loop, lane, jobs, done.result()))

    def _finish_round(self, loop: asyncio.AbstractEventLoop, lane: Lane, jobs: list[_Job], result: _Result) -> None:
        """Deliver the answers, and go on with the jobs that arrived meanwhile."""
        answers = iter(result.answers)
        for job in jobs:
            own = [next(answers, None) for _ in job.queries]
            if job.answers.done():  # its client left
                continue
            if result.error is not None:
                job.answers.set_exception(result.error)
            else:
                job.answers.set_result(own)
        lane.used += result.seconds
        per_answer = result.seconds / sum(len(job.queries) for job in jobs)
        lane.seconds_per_answer += _WEIGHT * (per_answer - lane.seconds_per_answer)
        loop.call_soon(self._start_round, loop)


def _next_jobs(lane: Lane) -> list[_Job]:
    """Return the next jobs that can share a product: of one model, and at most ``MAX_ROWS`` queries."""
    jobs: list[_Job] = []
    count = 0
    while lane.jobs:
        job = lane.jobs[0]
        if job.answers.done():  # its client left
            lane.jobs.popleft()
            continue
        count += len(job.queries)
        if jobs and (count > MAX_ROWS or job.snapshot is not jobs[0].snapshot):
            break
        jobs.append(lane.jobs.popleft())
    return jobs


def _score(lane: Lane, jobs: list[_Job]) -> _Result:
    """Score the queries of several jobs together; an error is part of the result, and goes to all of them."""
    # Processor time, not wall time: a thread that waits for the interpreter would seem slower than it is, and more
    # answers would be sent to the thread because of it.
    started = thread_time()
    answers: list[Any] = []
    error = None
    try:
        answers = lane.score(jobs[0].snapshot, [query for job in jobs for query in job.queries])
    except Exception as fault:
        error = fault
    return _Result(answers, error, thread_time() - started)
