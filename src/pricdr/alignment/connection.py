"""A connection to the other side: bytes over TLS, with a time limit on every wait.

It reads and writes like a file, so that the messages of an exchange are the same bytes that files would hold.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from pricdr.alignment.tls import Credentials, reason_of
from pricdr.errors import ExchangeError, InputError, ParameterError

HANDSHAKE_SECONDS: Final = 10.0
_GRACE: Final = 60.0
"""Seconds allowed for any piece of a message, however short."""
_SLOWEST: Final = 10_000
"""Bytes per second: 32 MB, a million ids, may take about an hour."""
_PIECE: Final = 1 << 16
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""When and how often the system checks that the other machine is still there: it may compute for a long time."""


class Connection:
    """A byte stream to an authenticated peer. Every failure is raised as :class:`ExchangeError`."""

    def __init__(self, peer: ssl.SSLSocket, *, patience: float) -> None:
        self._peer = peer
        self._patience = patience
        self._buffer = b""

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._peer.settimeout(HANDSHAKE_SECONDS)
            if kind is None:
                self._peer.unwrap()  # tells the other side that nothing was cut off
        self._peer.close()

    def wait(self) -> None:
        """Wait until the other side starts to send, which can take minutes while it computes."""
        if not self._buffer:
            self._buffer = self._receive(1, time.monotonic() + self._patience)
        if not self._buffer:
            raise _lost("it hung up (its screen may say why)")

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, which must arrive soon: only :meth:`wait` allows for computing."""
        deadline = _deadline(size)
        pieces, left = [self._buffer[:size]], size - len(self._buffer[:size])
        self._buffer = self._buffer[size:]
        while left:
            piece = self._receive(min(left, _PIECE), deadline)
            if not piece:
                raise _lost("it hung up in the middle of a message")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def write(self, content: bytes | memoryview) -> None:
        """Send all of ``content``, in pieces."""
        unsent = memoryview(content).cast("B")
        deadline = _deadline(len(unsent))
        while unsent:
            with self._timed(deadline):
                unsent = unsent[self._peer.send(unsent[:_PIECE]) :]

    def _receive(self, most: int, deadline: float) -> bytes:
        with self._timed(deadline):
            return self._peer.recv(most)

    @contextmanager
    def _timed(self, deadline: float) -> Iterator[None]:
        # The limit is for the whole read or write: one byte now and then must not keep a connection alive forever.
        left = deadline - time.monotonic()
        if left <= 0:
            raise _lost("it took too long")
        try:
            self._peer.settimeout(left)
            yield
        except OSError as error:
            raise _lost(reason_of(error)) from error


def _deadline(size: int) -> float:
    return time.monotonic() + _GRACE + size / _SLOWEST


def _lost(why: str) -> ExchangeError:
    return ExchangeError(
        f"the connection to the other side was lost: {why}; nothing was written here, run both sides again"
    )


def connect(host: str, port: int, credentials: Credentials, *, patience: float) -> Connection:
    """Connect to the side that serves.

    Args:
        host: the name or address of its machine.
        port: the port it listens on.
        credentials: our certificate, and what we expect of the other side's.
        patience: how many seconds the other side may compute before it answers.

    Raises:
        ExchangeError: the connection failed; the message says why.
    """
    context = credentials.context(server=False)
    where = f"{host}:{port}"
    try:
        plain = socket.create_connection((host, port), timeout=HANDSHAKE_SECONDS)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
        why = reason_of(error) if isinstance(error, OSError) else "no such host"
        raise ExchangeError(f"no connection to {where}: {why}") from error
    try:
        _keep_alive(plain)
        checked_name = host if context.check_hostname else None  # sent in the clear, so only if it is checked
        peer = context.wrap_socket(plain, server_hostname=checked_name)
    except OSError as error:
        plain.close()
        raise ExchangeError(f"no connection to {where}: {reason_of(error)}") from error
    try:
        credentials.require_peer(peer)
    except BaseException:
        peer.close()
        raise
    return Connection(peer, patience=patience)


class Listener:
    """A port that waits for the other side. It refuses anyone else and keeps waiting."""

    def __init__(self, host: str, port: int, credentials: Credentials) -> None:
        self._credentials = credentials
        self._context = credentials.context(server=True)
        if not 0 <= port < 1 << 16:
            raise ParameterError(f"port must be between 0 (any free port) and 65535, got {port}")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=8)
        except (OSError, OverflowError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "this machine has no such address"
            raise InputError(f"cannot listen on {host}:{port}: {why}") from error

    @property
    def address(self) -> str:
        """The address it listens on, as ``HOST:PORT``."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def __enter__(self) -> Self:
        """Return the listener."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening."""
        self._socket.close()

    def accept(self, on_refusal: Callable[[str], None], *, patience: float) -> Connection:
        """Wait for the other side and return the connection to it.

        Args:
            on_refusal: called with one line for each connection that is refused.
            patience: how many seconds the other side may compute before it answers.
        """
        while True:
            plain, address = self._socket.accept()
            try:
                return self._handshake(plain, patience)
            except (OSError, ExchangeError) as error:
                plain.close()
                why = str(error) if isinstance(error, ExchangeError) else reason_of(error)
                on_refusal(f"refused a connection from {address[0]}: {why}; still waiting")

    def _handshake(self, plain: socket.socket, patience: float) -> Connection:
        plain.settimeout(HANDSHAKE_SECONDS)
        _keep_alive(plain)
        peer = self._context.wrap_socket(plain, server_side=True)
        try:
            self._credentials.require_peer(peer)
        except BaseException:
            peer.close()
            raise
        return Connection(peer, patience=patience)


def _keep_alive(plain: socket.socket) -> None:
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # macOS has another name for the first
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT``; an IPv6 address must be in brackets.

    >>> parse_address("books.example:8443"), parse_address("[::1]:8443")
    (('books.example', 8443), ('::1', 8443))
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 1 << 16
    if not (colon and bare and is_port) or (":" in bare and bare == host):
        raise ParameterError(f"the address must be HOST:PORT, with an IPv6 host in brackets, got {text!r:.80}")
    return bare, int(port)
