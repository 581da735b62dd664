"""How many requests may be in flight: as many as can be answered before the last of them has waited too long.

Those that are turned away are told so after a moment. To tell them takes time as well, and clients that ask again at
once would otherwise take all of it: measured with 256 of them, nine in ten answers were lost to refusals.
"""

import asyncio
from time import perf_counter
from typing import Final

_FEWEST: Final = 8
"""Requests in flight that are always let in, however long each takes."""
_MOST: Final = 512
_WEIGHT: Final = 0.02
"""Of the newest request in the running mean of the time between two answers."""
_FIRST_GUESS: Final = 1e-3
_SHORTEST_PAUSE: Final = 0.05
_REFUSALS: Final = 1000
"""Refusals a second, about, however many clients ask."""


class Admission:
    """Counts requests in flight, and measures how fast they are answered while several are.

    The wait of a request is then the number before it times the time between two answers (Little's law). That covers
    everything that takes time, scoring or not, and follows the model and the machine by itself.
    """

    def __init__(self, longest_wait: float) -> None:
        self._longest_wait = longest_wait
        self._each = _FIRST_GUESS
        self._in_flight = 0
        self._last_answer: float | None = None
        self._refused = 0

    @property
    def in_flight(self) -> int:
        """Requests that were let in and are not answered yet."""
        return self._in_flight

    def wait(self) -> float:
        """Return about how many seconds a request that came now would wait."""
        return self._in_flight * self._each

    def is_full(self) -> bool:
        """Return whether a further request would wait too long."""
        return self._in_flight >= _FEWEST and (self._in_flight >= _MOST or self.wait() > self._longest_wait)

    def enter(self) -> None:
        """Count a request that is let in."""
        self._in_flight += 1

    def leave(self) -> None:
        """Count a request that was answered."""
        self._in_flight -= 1
        now = perf_counter()
        # Between two answers the server was busy all the time only if others were in flight.
        if self._last_answer is not None:
            self._each += _WEIGHT * (now - self._last_answer - self._each)
        self._last_answer = now if self._in_flight else None

    async def pause(self) -> None:
        """Wait before a refusal is sent: longer, the more clients are being refused."""
        self._refused += 1
        try:
            await asyncio.sleep(max(_SHORTEST_PAUSE, self._refused / _REFUSALS))
        finally:
            self._refused -= 1
