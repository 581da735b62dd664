"""Scoring: queries that arrive at about the same time are answered together, by one matrix product.

Short products run in the event loop itself. Handing one to a thread and back takes longer than a product over 25,000
items, and the thread would wait for the interpreter whenever the loop is busy. Long products run in a thread, so that
the loop can go on reading, writing and refusing requests.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import thread_time
from typing import Final, NamedTuple

from pricdr.serving.search import MAX_ROWS
from pricdr.serving.snapshot import Answer, Snapshot, UserQuery

_MAX_INLINE: Final = 8e-3
"""Seconds for which scoring may block the event loop."""
_WEIGHT: Final = 0.1
"""Weight of the newest measurement in the running mean of the seconds per answer."""


class _Job(NamedTuple):
    snapshot: Snapshot
    queries: Sequence[UserQuery]
    answers: "asyncio.Future[list[Answer]]"


class _Result(NamedTuple):
    answers: list[Answer]
    error: Exception | None
    seconds: float


class Worker:
    """Answers queries in order, as many at a time as one product holds."""

    def __init__(self) -> None:
        self._jobs: deque[_Job] = deque()
        self._busy = False
        self.seconds_per_answer = _MAX_INLINE
        """A running mean. It starts high, so that the first answers of a model are scored in the thread."""
        self._measured_model = ""
        """The fingerprint of the model that ``seconds_per_answer`` was measured on."""
        self._thread: ThreadPoolExecutor | None = None

    async def answers(self, snapshot: Snapshot, queries: Sequence[UserQuery]) -> list[Answer]:
        """Return the answers, in order. A large batch is scored in several rounds, so that others get their turn."""
        answers: list[Answer] = []
        loop = asyncio.get_running_loop()
        for start in range(0, len(queries), MAX_ROWS):
            job = _Job(snapshot, queries[start : start + MAX_ROWS], loop.create_future())
            self._jobs.append(job)
            if not self._busy:
                self._busy = True
                # Not immediately: other requests that have just been read may join this round.
                loop.call_soon(self._start_round, loop)
            answers += await job.answers
        return answers

    def close(self) -> None:
        """Shut the thread down after the round it is scoring."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def _start_round(self, loop: asyncio.AbstractEventLoop) -> None:
        """Score the next jobs, in the event loop or in the thread."""
        jobs = self._next_jobs()
        if jobs[0].snapshot.fingerprint != self._measured_model:  # a new model may be a thousand times as large
            self._measured_model, self.seconds_per_answer = jobs[0].snapshot.fingerprint, _MAX_INLINE
        if sum(len(job.queries) for job in jobs) * self.seconds_per_answer <= _MAX_INLINE:
            self._finish_round(loop, jobs, _score(jobs))
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
            scoring = loop.run_in_executor(self._thread, _score, jobs)
            scoring.add_done_callback(lambda done: self._finish_round(loop, jobs, done.result()))

    def _finish_round(self, loop: asyncio.AbstractEventLoop, jobs: list[_Job], result: _Result) -> None:
        """Deliver the answers, and go on with the jobs that arrived meanwhile."""
        answers = iter(result.answers)
        for job in jobs:
            if job.answers.cancelled():
                _ = [next(answers, None) for _ in job.queries]
            elif result.error is not None:
                job.answers.set_exception(result.error)
            else:
                job.answers.set_result([next(answers) for _ in job.queries])
        per_answer = result.seconds / sum(len(job.queries) for job in jobs)
        self.seconds_per_answer += _WEIGHT * (per_answer - self.seconds_per_answer)
        if self._jobs:
            loop.call_soon(self._start_round, loop)
        else:
            self._busy = False

    def _next_jobs(self) -> list[_Job]:
        """Return the next waiting jobs that can share a product: of one model, and at most ``MAX_ROWS`` queries."""
        jobs = [self._jobs.popleft()]
        count = len(jobs[0].queries)
        while self._jobs and self._jobs[0].snapshot is jobs[0].snapshot:
            count += len(self._jobs[0].queries)
            if count > MAX_ROWS:
                break
            jobs.append(self._jobs.popleft())
        return jobs


def _score(jobs: list[_Job]) -> _Result:
    """Score the queries of several jobs together; an error is part of the result, and goes to all of them."""
    # Processor time, not wall time: a thread that waits for the interpreter would seem slower than it is, and more
    # answers would be sent to the thread because of it.
    started = thread_time()
    answers: list[Answer] = []
    error = None
    try:
        answers = jobs[0].snapshot.answers([query for job in jobs for query in job.queries])
    except Exception as fault:
        error = fault
    return _Result(answers, error, thread_time() - started)
