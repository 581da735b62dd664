"""The settings of a server."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from pricdr.errors import ParameterError


@dataclass(frozen=True)
class Settings:
    """Where a server listens, which requests it accepts and what it shows."""

    host: str = "127.0.0.1"
    port: int = 8000
    keys: Path | None = None
    """The file of API keys; without one, every request is answered."""
    insecure_listen: bool = False
    """Listen beyond this machine, although a server has neither TLS nor limits for strangers."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that requests may use, in addition to those of the loopback interface."""
    public_key: Path | None = None
    exact: bool = False
    evaluation: Path | None = None
    """The output of ``pricdr evaluate --json``, for the page."""
    frontier: Path | None = None
    """Measurements of several releases, for the page."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ParameterError(f"--port must lie between 0 and 65535, got {self.port}")
        if not self.on_loopback and not self.insecure_listen:
            raise ParameterError(
                f"--host {self.host} can be reached from other machines: put a proxy with TLS and limits in front "
                "(deploy/nginx.conf), or give --insecure-listen"
            )

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:  # a name, which may stand for any address
            return False

    @property
    def known_hosts(self) -> frozenset[str] | None:
        """The host names that a request may use, in lower case; None if any name will do.

        Without this check, a web page could point a name of its own at 127.0.0.1 and read the answers in a visitor's
        browser (DNS rebinding).
        """
        allowed = frozenset(name.lower() for name in self.allowed_hosts)
        return allowed | {"localhost", "127.0.0.1", "::1", self.host.lower()} if self.on_loopback else allowed or None
