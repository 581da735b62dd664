"""A connection to the other side: bytes over TLS, where every wait has an end.

It reads and writes as a file does, so that the messages of an exchange are the very bytes that files would hold.
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
"""Seconds that any piece of a message may take, however short."""
_SLOWEST: Final = 10_000
"""Bytes a second: 32 MB, a million ids, then have an hour."""
_PIECE: Final = 1 << 16
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""Seconds until the system asks whether the other machine is still there, and how often: it may compute for long."""


class Connection:
    """Bytes to and from one side that showed its certificate. Whatever goes wrong is an :class:`ExchangeError`."""

    def __init__(self, peer: ssl.SSLSocket, *, patience: float) -> None:
        self._peer = peer
        self._patience = patience
        self._first = b""

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Hang up."""
        with suppress(OSError):
            self._peer.settimeout(HANDSHAKE_SECONDS)
            if kind is None:
                self._peer.unwrap()  # says that nothing was cut off
        self._peer.close()

    def wait(self) -> None:
        """Return when the other side begins to send, which it may do after minutes of computing."""
        if not self._first:
            self._first = self._received(1, time.monotonic() + self._patience)
        if not self._first:
            raise _lost("it hung up (its screen may say why)")

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes. They must be on their way: only :meth:`wait` has patience."""
        deadline = _deadline(size)
        pieces, left = [self._first[:size]], size - len(self._first[:size])
        self._first = self._first[size:]
        while left:
            piece = self._received(min(left, _PIECE), deadline)
            if not piece:
                raise _lost("it hung up in the middle of a message")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def write(self, content: bytes | memoryview) -> None:
        """Send all of ``content``, a piece at a time."""
        unsent = memoryview(content).cast("B")
        deadline = _deadline(len(unsent))
        while unsent:
            with self._timed(deadline):
                unsent = unsent[self._peer.send(unsent[:_PIECE]) :]

    def _received(self, most: int, deadline: float) -> bytes:
        with self._timed(deadline):
            return self._peer.recv(most)

    @contextmanager
    def _timed(self, deadline: float) -> Iterator[None]:
        # The limit is for the whole: a byte now and then must not keep a connection alive for ever.
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
    return ExchangeError(f"the connection to the other side was lost: {why}; nothing was written, run both again")


def connect(host: str, port: int, credentials: Credentials, *, patience: float) -> Connection:
    """Return a connection to a side that serves; :class:`ExchangeError` says why there is none.

    Args:
        host: the name or address of its machine.
        port: where it listens.
        credentials: who we are, and whom we expect there.
        patience: seconds that it may compute before it answers.
    """
    context = credentials.context(server=False)
    where = f"{host}:{port}"
    try:
        plain = socket.create_connection((host, port), timeout=HANDSHAKE_SECONDS)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that no host can have
        why = reason_of(error) if isinstance(error, OSError) else "there is no such host"
        raise ExchangeError(f"no connection to {where}: {why}") from error
    try:
        _keep_alive(plain)
        named = host if context.check_hostname else None  # otherwise nobody on the way need read it
        peer = context.wrap_socket(plain, server_hostname=named)
    except OSError as error:
        plain.close()
        raise ExchangeError(f"{where} refused, or was refused: {reason_of(error)}") from error
    try:
        credentials.require_peer(peer)
    except BaseException:
        peer.close()
        raise
    return Connection(peer, patience=patience)


class Listener:
    """A port that waits for the other side; whoever else comes is refused, and the port goes on waiting."""

    def __init__(self, host: str, port: int, credentials: Credentials) -> None:
        self._credentials = credentials
        self._context = credentials.context(server=True)
        if not 0 <= port < 1 << 16:
            raise ParameterError(f"port must be a number from 0 (any that is free) to 65535, got {port}")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=8)
        except (OSError, OverflowError, UnicodeError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "there is no such address here"
            raise InputError(f"cannot listen on {host}:{port}: {why}") from error

    @property
    def address(self) -> str:
        """Where it listens, as ``HOST:PORT``."""
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

    def accept(self, refused: Callable[[str], None], *, patience: float) -> Connection:
        """Return a connection to the other side, once it comes.

        Args:
            refused: called with one line about everybody who is not the other side.
            patience: seconds that the other side may compute before it answers.
        """
        while True:
            plain, address = self._socket.accept()
            try:
                return self._handshake(plain, patience)
            except (OSError, ExchangeError) as error:
                plain.close()
                why = str(error) if isinstance(error, ExchangeError) else reason_of(error)
                refused(f"refused a connection from {address[0]}: {why}; still waiting")

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
        if hasattr(socket, name):  # macOS has its own name for the first
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; an IPv6 address stands in brackets.

    >>> parse_address("books.example:8443"), parse_address("[::1]:8443")
    (('books.example', 8443), ('::1', 8443))
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    valid = colon and bare and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16
    if not valid or (":" in bare and bare == host):
        raise ParameterError(f"the address must be HOST:PORT, with an IPv6 host in brackets, got {text!r:.80}")
    return bare, int(port)
