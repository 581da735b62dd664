"""The settings of a server."""

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
    """Answers a second for each key, or for each client address if there are no keys; None for no limit."""
    body_bytes: int = 1 << 20
    """Size of a request's body."""
    header_bytes: int = 32 << 10
    """Size of a request's headers."""
    connections: int = 1000
    """Open at the same time; further ones get 503 and are closed."""
    bodies: int = 64
    """Requests whose bodies are being received at the same time."""
    bodies_each: int = 16
    """The same for each key, or for each client address if there are no keys."""
    pipelined: int = 100
    """Requests that one connection may send before the first of them is answered."""
    unread_bytes: int = 128 << 20
    """Responses of all connections together that were sent and that clients have not read yet."""
    header_timeout: float = 10.0
    """Seconds until the headers of a request must have arrived, and until an idle connection is closed."""
    body_timeout: float = 10.0
    """Seconds until the body must have arrived."""
    response_timeout: float = 30.0
    """Seconds until the response must have been computed and read by the client."""
    max_wait: float = 0.25
    """Seconds that a request may wait to be admitted before it is refused."""
    shutdown_timeout: float = 8.0
    """Seconds that requests in flight have to finish when the server is stopped."""

    def __post_init__(self) -> None:
        require_count(connections=self.connections, body_bytes=self.body_bytes)
        require_positive(max_wait=self.max_wait, **({} if self.rate is None else {"rate": self.rate}))


@dataclass(frozen=True)
class Settings:
    """Where a server listens, which requests it accepts and what it shows."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None
    """The file of API keys; without one, every request is answered."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure_listen: bool = False
    """Listen beyond this machine without keys or without TLS."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that requests may use, in addition to those of the loopback interface."""
    public_key: Path | None = None
    exact: bool = False
    evaluation: Path | None = None
    """The output of ``pricdr evaluate --json``, for the page."""
    frontier: Path | None = None
    """Measurements of several releases, for the page."""
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ParameterError(f"--port must lie between 0 and 65535, got {self.port}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ParameterError("--tls-cert and --tls-key belong together: give both or neither")
        required = (("--keys", self.keys), ("--tls-cert and --tls-key", self.tls_cert))
        missing = [name for name, value in required if value is None]
        if missing and not self.on_loopback and not self.insecure_listen:
            raise ParameterError(
                f"--host {self.host} can be reached from other machines: give {' and '.join(missing)}, or "
                "--insecure-listen to run without"
            )

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:  # a name, which may stand for any address
            return False

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """The host names that a request may use, in lower case; None if any name will do.

        Without this check, a web page could point a name of its own at 127.0.0.1 and read the answers in a visitor's
        browser (DNS rebinding).
        """
        allowed = frozenset(name.lower() for name in self.allowed_hosts)
        if not self.on_loopback:
            return allowed or None
        return allowed | LOOPBACK_NAMES | {self.host.lower()}
