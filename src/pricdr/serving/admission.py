"""Who is let in: as many requests as can be answered soon. The others wait a moment, or are turned away.

A request waits for a quarter of a second at most. To tell those who waited in vain takes time as well, and clients that
ask again at once would take all of it: the more of them there are, the later they are told.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Final

from pricdr.serving.search import MOST_ROWS
from pricdr.serving.worker import Worker

_FEWEST: Final = 4
"""Requests in flight that are always let in, however long each takes."""
_MOST: Final = 2 * MOST_ROWS
"""One product is being computed, the next is being gathered."""
_REFUSALS: Final = 1000
"""Refusals a second, about, however many clients ask."""
_LONGEST_PAUSE: Final = 1.0
"""Seconds: clients that ask and hang up are not bounded by connections, and would make all of them wait for ever."""


class Admission:
    """Lets requests in, first come, first served.

    Args:
        longest_wait: seconds after which a request that waits is turned away.
        worker: knows how long an answer takes.
    """

    def __init__(self, longest_wait: float, worker: Worker) -> None:
        self._longest_wait, self._worker = longest_wait, worker
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self.in_flight = 0
        """Requests that were let in and are not answered yet."""
        self.refusing = 0
        """Requests that waited in vain, and are about to be told."""

    @property
    def waiting(self) -> int:
        """How many requests wait to be let in."""
        return sum(not one.done() for one in self._waiting)

    async def enter(self) -> float | None:
        """Wait to be let in; return the seconds that took, or None for a request that must be turned away.

        Whoever was let in must :meth:`leave`.
        """
        if self.in_flight < self._room() and not self._waiting:
            self.in_flight += 1
            return 0.0
        started, loop = perf_counter(), asyncio.get_running_loop()
        place: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(place)
        too_late = loop.call_later(self._longest_wait, _give_up, place)
        try:
            let_in = await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self.leave()
            raise
        finally:
            too_late.cancel()
        if let_in:
            return perf_counter() - started
        await self._pause()
        return None

    def leave(self) -> None:
        """Count a request that was answered, and let in those who wait."""
        self.in_flight -= 1
        while self._waiting and (self._waiting[0].done() or self.in_flight < self._room()):
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(True)

    def _room(self) -> int:
        """Return how many may be in flight so that the last of them is answered in time."""
        return max(_FEWEST, min(_MOST, int(self._longest_wait / self._worker.seconds_each)))

    async def _pause(self) -> None:
        self.refusing += 1
        try:
            await asyncio.sleep(min(self.refusing / _REFUSALS, _LONGEST_PAUSE))
        finally:
            self.refusing -= 1


def _give_up(place: "asyncio.Future[bool]") -> None:
    if not place.done():
        place.set_result(False)
