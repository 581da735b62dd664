"""Scoring: questions that are asked at about the same time are answered together, by one matrix product.

Short products run in the event loop itself. To hand one to a thread and back takes longer than a product over 25,000
items, and the thread would wait for the interpreter whenever the loop is busy. Long ones run in a thread, so that the
loop goes on reading, writing and turning away.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import thread_time
from typing import Final, NamedTuple

from pricdr.serving.search import MOST_ROWS
from pricdr.serving.snapshot import Answer, Snapshot, Wanted

_SHORT: Final = 8e-3
"""Seconds that the event loop may be kept from its work."""
_WEIGHT: Final = 0.1
"""Of the newest product in the running mean of the time for each question."""


class _Job(NamedTuple):
    snapshot: Snapshot
    wanted: Sequence[Wanted]
    done: "asyncio.Future[list[Answer]]"


class Worker:
    """Answers questions in the order they came, as many at a time as one product holds."""

    def __init__(self) -> None:
        self._jobs: deque[_Job] = deque()
        self._at_work = False
        self.seconds_each = _SHORT
        """How long an answer takes, a running mean. The first ones run in the thread, until that is known."""
        self._measured = ""
        """The fingerprint of the model that it was measured of."""
        self._thread: ThreadPoolExecutor | None = None

    @property
    def waiting(self) -> int:
        """How many questions wait for their turn."""
        return sum(len(job.wanted) for job in self._jobs)

    async def answers(self, snapshot: Snapshot, wanted: Sequence[Wanted]) -> list[Answer]:
        """Return the answers, in order. Many questions take several turns, so that others come in between."""
        found: list[Answer] = []
        loop = asyncio.get_running_loop()
        for start in range(0, len(wanted), MOST_ROWS):
            job = _Job(snapshot, wanted[start : start + MOST_ROWS], loop.create_future())
            self._jobs.append(job)
            if not self._at_work:
                self._at_work = True
                # Not now: whoever else has just been read may ask something too.
                loop.call_soon(self._begin, loop)
            found += await job.done
        return found

    def close(self) -> None:
        """End the thread; what it is scoring is scored to the end."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer the next questions, here or in the thread."""
        jobs = self._taken()
        if jobs[0].snapshot.fingerprint != self._measured:  # it may be a thousand times as large
            self._measured, self.seconds_each = jobs[0].snapshot.fingerprint, _SHORT
        if sum(len(job.wanted) for job in jobs) * self.seconds_each <= _SHORT:
            self._end(loop, jobs, _answered(jobs))
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
            scoring = loop.run_in_executor(self._thread, _answered, jobs)
            scoring.add_done_callback(lambda done: self._end(loop, jobs, done.result()))

    def _end(self, loop: asyncio.AbstractEventLoop, jobs: list[_Job], scored: "_Scored") -> None:
        """Hand out the answers, and go on with what was asked meanwhile."""
        answers = iter(scored.answers)
        for job in jobs:
            if job.done.cancelled():
                _ = [next(answers, None) for _ in job.wanted]
            elif scored.error is not None:
                job.done.set_exception(scored.error)
            else:
                job.done.set_result([next(answers) for _ in job.wanted])
        each = scored.seconds / sum(len(job.wanted) for job in jobs)
        self.seconds_each += _WEIGHT * (each - self.seconds_each)
        if self._jobs:
            loop.call_soon(self._begin, loop)
        else:
            self._at_work = False

    def _taken(self) -> list[_Job]:
        """Return as many of the jobs that wait as go together: of one model, and no more than one product holds."""
        jobs = [self._jobs.popleft()]
        count = len(jobs[0].wanted)
        while self._jobs and self._jobs[0].snapshot is jobs[0].snapshot:
            count += len(self._jobs[0].wanted)
            if count > MOST_ROWS:
                break
            jobs.append(self._jobs.popleft())
        return jobs


class _Scored(NamedTuple):
    answers: list[Answer]
    error: Exception | None
    seconds: float


def _answered(jobs: list[_Job]) -> _Scored:
    """Score the questions of some jobs together; a fault is handed to whoever asked."""
    # Of the processor, not of the clock: while a thread waits for the interpreter the clock runs on, answers would seem
    # to take longer than they do, and would be sent to the thread all the more.
    started = thread_time()
    answers: list[Answer] = []
    error = None
    try:
        answers = jobs[0].snapshot.answers([one for job in jobs for one in job.wanted])
    except Exception as fault:
        error = fault
    return _Scored(answers, error, thread_time() - started)
