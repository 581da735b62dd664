"""Requests at a fixed rate, whether or not earlier ones have been answered: what many independent clients do.

    python -m benchmarks.open_loop http://127.0.0.1:8000 --rate 6000 --seconds 20

wrk waits for an answer before it sends the next request on a connection, so a server that answers slowly is also asked
less. Here a request is sent when it is due, on a connection that is free or on a new one. One JSON line is printed.
"""

import argparse
import asyncio
import json
from collections import Counter, deque
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import uvloop

USERS: Final = 20_000
MAX_CONNECTIONS: Final = 5_000
_TICK: Final = 0.002
_GRACE: Final = 5.0
"""Seconds in which the last requests may be answered."""


class Flood:
    """Sends requests and counts what becomes of them."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.free: deque[Client] = deque()
        self.connections = 0
        self.outcomes: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {"answered": [], "refused": []}
        self._next_user = 0
        self._connecting: set[asyncio.Future[None]] = set()

    async def run(self, rate: float, seconds: float) -> None:
        """Send ``rate`` requests a second."""
        started, sent = perf_counter(), 0
        while (elapsed := perf_counter() - started) < seconds:
            due = int(elapsed * rate)
            for _ in range(due - sent):
                self.send()
            sent = due
            await asyncio.sleep(_TICK)
        self.outcomes["sent"] = sent
        await asyncio.sleep(_GRACE)

    def send(self) -> None:
        """Send one request, on a free connection or on a new one."""
        self._next_user = (self._next_user + 7919) % USERS
        request = f"GET /users/user{self._next_user:08}/recommendations HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()
        if self.free:
            self.free.popleft().ask(request)
        elif self.connections < MAX_CONNECTIONS:
            self.connections += 1
            task = asyncio.ensure_future(self._connect(request))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            self.outcomes["not sent"] += 1

    async def _connect(self, request: bytes) -> None:
        try:
            loop = asyncio.get_running_loop()
            # From many addresses of this machine: one has too few ports for all that are closed.
            source = (f"127.0.0.{2 + self._next_user % 200}", 0) if self.host == "127.0.0.1" else None
            await loop.create_connection(lambda: Client(self, request), self.host, self.port, local_addr=source)
        except OSError:
            self.connections -= 1
            self.outcomes["errors"] += 1


class Client(asyncio.Protocol):
    """One connection, with at most one request under way."""

    def __init__(self, flood: Flood, request: bytes) -> None:
        self.flood, self.first, self.received, self.waiting = flood, request, b"", False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send the request that the connection was opened for."""
        self.transport = transport
        self.ask(self.first)

    def ask(self, request: bytes) -> None:
        """Send a request."""
        self.received, self.waiting, self.sent = b"", True, perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Count an answer once it is complete."""
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end or not self.waiting:
            return
        head = head.lower()
        if len(body) < int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        self.waiting = False
        outcome = {b"200": "answered", b"503": "refused"}.get(head[9:12], "errors")
        if outcome == "refused" and b"\r\nretry-after:" not in head:
            outcome = "errors"
        self.flood.outcomes[outcome] += 1
        if outcome in self.flood.seconds:
            self.flood.seconds[outcome].append(perf_counter() - self.sent)
        if b"connection: close" in head:
            self.transport.close()
        else:
            self.flood.free.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a connection that was closed before the answer was complete."""
        self.flood.connections -= 1
        if self.waiting:
            self.flood.outcomes["errors"] += 1
        elif self in self.flood.free:
            self.flood.free.remove(self)


def main() -> None:
    """Send the requests, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--rate", type=float, required=True, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    address = urlsplit(arguments.address)
    flood = Flood(address.hostname or "127.0.0.1", address.port or 80)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(flood.run(arguments.rate, arguments.seconds))
    outcomes = flood.outcomes
    lost = outcomes["sent"] - sum(outcomes[name] for name in ("answered", "refused", "errors", "not sent"))
    figures = {name: outcomes[name] for name in ("sent", "answered", "refused", "errors", "not sent")}
    times = {f"{name} p99": _p99(flood.seconds[name]) for name in flood.seconds}
    print(json.dumps({"seconds": arguments.seconds, **figures, "lost": lost, **times}))


def _p99(seconds: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return round(float(np.quantile(seconds, 0.99)) * 1e3, 1) if seconds else 0.0


if __name__ == "__main__":
    main()
