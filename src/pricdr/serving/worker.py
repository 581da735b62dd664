"""The thread that scores. Questions that wait at the same time are answered together, by one matrix product.

One thread is enough: the product waits for memory, and while it runs the event loop reads and writes on another core.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Condition, Thread
from time import perf_counter
from typing import Final, NamedTuple

from pricdr.serving.search import MOST_ROWS
from pricdr.serving.snapshot import Answer, Snapshot, Wanted

_FEWEST: Final = 2 * MOST_ROWS
"""Questions that may always wait: they are answered by the next two products."""
_WEIGHT: Final = 0.05
"""Of the newest product in the running mean of the time for each question."""
_FIRST_GUESS: Final = 1e-3
"""Seconds for each question, until one was answered."""


class _Job(NamedTuple):
    snapshot: Snapshot
    wanted: Sequence[Wanted]
    done: "Future[list[Answer]]"


class Worker:
    """Answers questions in the order they came, as many at a time as one product holds."""

    def __init__(self, *, longest_wait: float) -> None:
        self._longest_wait = longest_wait
        self._jobs: deque[_Job] = deque()
        self._ready = Condition()
        self._ended = False
        self._waiting = 0
        self._seconds_each = _FIRST_GUESS
        self._thread = Thread(target=self._work, name="scoring", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many questions wait for their answer."""
        return self._waiting

    def wait(self) -> float:
        """Return about how many seconds a question that came now would wait."""
        return self._waiting * self._seconds_each

    def is_busy(self) -> bool:
        """Return whether a further question would have to wait too long."""
        return self._waiting >= _FEWEST and self.wait() > self._longest_wait

    async def answers(self, snapshot: Snapshot, wanted: Sequence[Wanted]) -> list[Answer]:
        """Return the answers, in order. Many questions take several turns, so that others come in between."""
        found: list[Answer] = []
        for start in range(0, len(wanted), MOST_ROWS):
            found += await self._turn(snapshot, wanted[start : start + MOST_ROWS])
        return found

    def close(self) -> None:
        """End the thread when it has answered what it holds."""
        with self._ready:
            self._ended = True
            self._ready.notify()
        self._thread.join(timeout=5)

    async def _turn(self, snapshot: Snapshot, wanted: Sequence[Wanted]) -> list[Answer]:
        job = _Job(snapshot, wanted, Future())
        with self._ready:
            self._jobs.append(job)
            self._waiting += len(wanted)
            self._ready.notify()
        return await asyncio.wrap_future(job.done)

    def _work(self) -> None:
        while jobs := self._taken():
            started = perf_counter()
            wanted = [one for job in jobs for one in job.wanted]
            try:
                answers = iter(jobs[0].snapshot.answers(wanted))
            except BaseException as error:  # whoever asked is told; this thread answers the others
                for job in jobs:
                    job.done.set_exception(error)
            else:
                for job in jobs:
                    job.done.set_result([next(answers) for _ in job.wanted])
            each = (perf_counter() - started) / len(wanted)
            self._seconds_each += _WEIGHT * (each - self._seconds_each)
            with self._ready:
                self._waiting -= len(wanted)
            del jobs, wanted  # an old model must not live on until the next question

    def _taken(self) -> list[_Job]:
        """Wait for questions and return as many as go together; none when all is over."""
        with self._ready:
            while not self._jobs and not self._ended:
                self._ready.wait()
            jobs: list[_Job] = []
            count = 0
            while self._jobs and (
                not jobs
                or (self._jobs[0].snapshot is jobs[0].snapshot and count + len(self._jobs[0].wanted) <= MOST_ROWS)
            ):
                jobs.append(self._jobs.popleft())
                count += len(jobs[-1].wanted)
            return jobs
