"""What a server is told when it starts."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pricdr.errors import ParameterError, require_count, require_positive

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Limits:
    """What one client, and all clients together, may use."""

    rate: float | None = None
    """Answers a second for each key, or for each address where there are no keys; None for no limit."""
    body: int = 1 << 20
    """Bytes of a request's body."""
    header: int = 32 << 10
    """Bytes of a request's headers."""
    connections: int = 1000
    """Open at the same time; further ones are answered with 503 and closed."""
    bodies: int = 64
    """Bodies being received at the same time."""
    pipelined: int = 100
    """Requests that one connection may send before the first of them is answered."""
    unread: int = 128 << 20
    """Bytes of answers, of all connections together, that were sent and not taken yet."""
    slow_header: float = 10.0
    """Seconds until the headers of a request must be there, and until an idle connection is closed."""
    slow_body: float = 10.0
    """Seconds until the body must be there."""
    slow_answer: float = 30.0
    """Seconds until the answer must be made and taken."""
    longest_wait: float = 0.25
    """Seconds that a request may have to wait for its turn; where it would be more, it is turned away at once."""
    shutdown: float = 8.0
    """Seconds that requests in flight have to end when the server is stopped."""

    def __post_init__(self) -> None:
        require_count(connections=self.connections, body=self.body)
        require_positive(longest_wait=self.longest_wait, **({} if self.rate is None else {"rate": self.rate}))


@dataclass(frozen=True)
class Settings:
    """Where a server listens, whom it answers and what it shows."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None
    """The file of API keys; without one everybody is answered."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure_listen: bool = False
    """Listen beyond this machine without keys or without TLS."""
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the server may be addressed, beside those of the loopback interface."""
    public_key: Path | None = None
    exact: bool = False
    evaluation: Path | None = None
    """What ``pricdr evaluate --json`` wrote, for the page."""
    frontier: Path | None = None
    """Measurements of several releases, for the page."""
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ParameterError(f"--port must lie between 0 and 65535, got {self.port}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ParameterError("--tls-cert and --tls-key belong together: give both or neither")
        needed = (("--keys", self.keys), ("--tls-cert and --tls-key", self.tls_cert))
        missing = [name for name, given in needed if given is None]
        if missing and not self.on_loopback and not self.insecure_listen:
            raise ParameterError(
                f"--host {self.host} can be reached from other machines: give {' and '.join(missing)}, or "
                "--insecure-listen to do without"
            )

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:  # a name, which may stand for any address
            return False

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """Names that a request may address, in small letters; None where any will do.

        Without this a web page could point a name of its own at 127.0.0.1 and read the answers in a visitor's browser.
        """
        named = frozenset(name.lower() for name in self.allowed_hosts)
        if not self.on_loopback:
            return named or None
        return named | LOOPBACK_NAMES | {self.host.lower()}
