"""So many answers a second for each client: a bucket of tokens that fills at that rate."""

from collections import OrderedDict
from math import ceil
from typing import Final

_SECONDS_OF_BURST: Final = 2.0
"""How long a client may save up."""
_MOST_CLIENTS: Final = 10_000
"""Buckets that are kept; the one that was used longest ago is forgotten first."""
_LONGEST_WAIT: Final = 86_400
"""Seconds that a client is told to wait at most."""


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens, self.at = tokens, at


class Rates:
    """Buckets of tokens, one for each client."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, client: str, rate: float, now: float) -> int | None:
        """Take one token; return the seconds to wait where there is none.

        >>> rates = Rates()
        >>> [rates.take("shop", 1.0, now=0.0) for _ in range(3)], rates.take("shop", 1.0, now=1.0)
        ([None, None, 1], None)
        """
        most = max(1.0, _SECONDS_OF_BURST * rate)
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(most, now)
            if len(self._buckets) > _MOST_CLIENTS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
            bucket.tokens = min(most, bucket.tokens + rate * max(0.0, now - bucket.at))
            bucket.at = now
        if bucket.tokens < 1:
            return max(1, ceil(min((1 - bucket.tokens) / rate, _LONGEST_WAIT)))
        bucket.tokens -= 1
        return None

    def charge(self, client: str, tokens: int) -> None:
        """Take further tokens for work that turned out to be more, into debt if need be: what comes next waits."""
        bucket = self._buckets.get(client)
        if bucket is not None:
            bucket.tokens -= tokens
