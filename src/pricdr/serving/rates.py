"""Rate limits: a token bucket for each client."""

from collections import OrderedDict
from math import ceil
from typing import Final

_BURST_SECONDS: Final = 2.0
"""A full bucket holds this many seconds' worth of tokens."""
_MAX_CLIENTS: Final = 10_000
"""Buckets that are kept; the least recently used is dropped first."""
_MAX_WAIT: Final = 86_400
"""The longest wait, in seconds, that a client is ever told."""


class _Bucket:
    __slots__ = ("tokens", "updated_at")

    def __init__(self, tokens: float, updated_at: float) -> None:
        self.tokens, self.updated_at = tokens, updated_at


class RateLimiter:
    """Limits the answers a second of each client."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, client: str, rate: float, now: float) -> int | None:
        """Take one token; return None, or the seconds to wait if the bucket is empty.

        >>> limiter = RateLimiter()
        >>> [limiter.take("shop", 1.0, now=0.0) for _ in range(3)], limiter.take("shop", 1.0, now=1.0)
        ([None, None, 1], None)
        """
        capacity = max(1.0, _BURST_SECONDS * rate)
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(capacity, now)
            if len(self._buckets) > _MAX_CLIENTS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
            bucket.tokens = min(capacity, bucket.tokens + rate * max(0.0, now - bucket.updated_at))
            bucket.updated_at = now
        if bucket.tokens < 1:
            return _wait(bucket, rate)
        bucket.tokens -= 1
        return None

    def charge(self, client: str, tokens: int, rate: float) -> int | None:
        """Take further tokens for a request that turned out larger; return None, or the seconds to wait.

        The balance may become negative, or a bucket that holds fewer could never pay for a large request. It delays the
        next one, and of several that arrived together, all but the first are refused.
        """
        bucket = self._buckets.get(client)
        if bucket is None:
            return None
        if bucket.tokens < 0:
            return _wait(bucket, rate)
        bucket.tokens -= tokens
        return None


def _wait(bucket: _Bucket, rate: float) -> int:
    return max(1, ceil(min((1 - bucket.tokens) / rate, _MAX_WAIT)))
