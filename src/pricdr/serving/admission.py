"""Admission control: only as many requests run at once as can be answered soon; the rest wait briefly or get 503.

Each lane of the worker has its own queue, so a crowd asking for similar items does not keep users waiting. A batch is
admitted for what it costs: each of its users counts.

A request waits for at most a quarter of a second. Sending a refusal takes time too, and clients that retry at once
would take up all of it. So the more requests are being refused, the longer each refusal is delayed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from pricdr.serving.search import MAX_ROWS
from pricdr.serving.worker import Lane

_MIN_IN_FLIGHT: Final = 4
"""Requests that may always run at once, however long each takes."""
_MAX_IN_FLIGHT: Final = 2 * MAX_ROWS
"""One batch is being scored while the next is being collected."""
_MAX_USERS_EACH: Final = 2000
"""Users in the batches of one caller that are being answered: two of the largest."""
_MAX_USERS: Final = 8000
"""The same for all callers together."""
_REFUSALS_PER_SECOND: Final = 1000
"""About this many refusals a second, however many clients retry."""
_MAX_PAUSE: Final = 1.0
"""Seconds. Clients that send a request and hang up are not bounded by the number of connections, so that without this
limit they could delay every refusal for ever."""


class Admission:
    """Admits requests, first come, first served.

    Args:
        max_wait: seconds after which a waiting request is refused.
        lane: knows how long an answer takes.
    """

    def __init__(self, max_wait: float, lane: Lane) -> None:
        self._max_wait, self._lane = max_wait, lane
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
        return max(_MIN_IN_FLIGHT, min(_MAX_IN_FLIGHT, int(self._max_wait / self._lane.seconds_per_answer)))


class Batches:
    """Admits batches as long as their users together are not too many: those of each caller, and of all callers."""

    def __init__(self) -> None:
        self._by_caller: Counter[str] = Counter()

    @property
    def users(self) -> int:
        """How many users the admitted batches have."""
        return self._by_caller.total()

    @contextmanager
    def admitted(self, caller: str, users: int) -> Iterator[bool]:
        """Yield whether a batch is admitted; it counts until the block ends."""
        admitted = self._by_caller[caller] + users <= _MAX_USERS_EACH and self.users + users <= _MAX_USERS
        if admitted:
            self._by_caller[caller] += users
        try:
            yield admitted
        finally:
            self._by_caller[caller] -= users if admitted else 0
            if not self._by_caller[caller]:
                del self._by_caller[caller]


def _give_up(slot: "asyncio.Future[bool]") -> None:
    if not slot.done():
        slot.set_result(False)
