"""Admission control: only as many requests run at once as can be answered soon; the rest wait briefly or get 503.

A request waits for at most a quarter of a second. Sending a refusal takes time too, and clients that retry at once
would take up all of it. So the more requests are being refused, the longer each refusal is delayed.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Final

from pricdr.serving.search import MAX_ROWS
from pricdr.serving.worker import Worker

_MIN_IN_FLIGHT: Final = 4
"""Requests that may always run at once, however long each takes."""
_MAX_IN_FLIGHT: Final = 2 * MAX_ROWS
"""One batch is being scored while the next is being collected."""
_REFUSALS_PER_SECOND: Final = 1000
"""About this many refusals a second, however many clients retry."""
_MAX_PAUSE: Final = 1.0
"""Seconds. Clients that send a request and hang up are not bounded by the number of connections, so that without this
limit they could delay every refusal for ever."""


class Admission:
    """Admits requests, first come, first served.

    Args:
        max_wait: seconds after which a waiting request is refused.
        worker: knows how long an answer takes.
    """

    def __init__(self, max_wait: float, worker: Worker) -> None:
        self._max_wait, self._worker = max_wait, worker
        self._queue: deque[asyncio.Future[bool]] = deque()
        self.in_flight = 0
        """Requests that were admitted and have not been answered yet."""
        self.refusing = 0
        """Requests that timed out in the queue and whose refusal is being delayed."""

    @property
    def waiting(self) -> int:
        """How many requests are waiting to be admitted."""
        return sum(not slot.done() for slot in self._queue)

    async def enter(self) -> float | None:
        """Wait to be admitted; return the seconds waited, or None if the request must be refused.

        Every admitted request must call :meth:`leave`, and every refused one should :meth:`pause` first.
        """
        if self.in_flight < self._capacity() and not self._queue:
            self.in_flight += 1
            return 0.0
        started, loop = perf_counter(), asyncio.get_running_loop()
        slot: asyncio.Future[bool] = loop.create_future()
        self._queue.append(slot)
        timeout = loop.call_later(self._max_wait, _give_up, slot)
        try:
            admitted = await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled() and slot.result():
                self.leave()
            raise
        finally:
            timeout.cancel()
        return perf_counter() - started if admitted else None

    def leave(self) -> None:
        """Record that a request was answered, and admit waiting ones."""
        self.in_flight -= 1
        while self._queue and (self._queue[0].done() or self.in_flight < self._capacity()):
            slot = self._queue.popleft()
            if not slot.done():
                self.in_flight += 1
                slot.set_result(True)

    async def pause(self) -> None:
        """Delay a refusal: the more requests are being refused, the longer."""
        self.refusing += 1
        try:
            await asyncio.sleep(min(self.refusing / _REFUSALS_PER_SECOND, _MAX_PAUSE))
        finally:
            self.refusing -= 1

    def _capacity(self) -> int:
        """Return how many requests may run at once so that the last of them is answered in time."""
        return max(_MIN_IN_FLIGHT, min(_MAX_IN_FLIGHT, int(self._max_wait / self._worker.seconds_per_answer)))


def _give_up(slot: "asyncio.Future[bool]") -> None:
    if not slot.done():
        slot.set_result(False)
