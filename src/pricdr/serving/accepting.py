"""Accepting connections: all that are waiting, in every turn of the event loop.

libuv accepts one connection per turn, and a busy server takes milliseconds for a turn. When a thousand clients connect
at once, the last of them would wait for seconds; when more connect than are accepted, the system drops their packets,
and they are refused after many seconds instead of at once.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

_MAX_PER_TURN: Final = 256
"""So that a crowd that connects does not keep the loop from answering."""
_OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE: Final = 0.2
"""Seconds until the next attempt when the system has no room for another connection."""
_REQUEST_BYTES: Final = 65_536


@dataclass(eq=False)
class Acceptor:
    """Accepts the connections of one listening socket; it can be closed as an ``asyncio.Server`` can.

    Args:
        listener: the listening socket.
        protocol: creates the protocol of a connection.
        connections: the open connections.
        max_connections: how many may be open.
        refusal: what a client receives when too many are open, before it is disconnected. With TLS that cannot be sent
            before a handshake, and the protocol has to refuse the client instead.
        tls: the certificate, for connections over TLS.
        handshake_timeout: seconds for the TLS handshake.
    """

    listener: socket.socket
    protocol: Callable[[], asyncio.Protocol]
    connections: Sized
    max_connections: int
    refusal: bytes
    tls: ssl.SSLContext | None = None
    handshake_timeout: float | None = None
    _opening: "set[asyncio.Task[None]]" = field(default_factory=set)
    _is_open: bool = False

    def start(self) -> None:
        """Start accepting connections in the running event loop."""
        self.listener.setblocking(False)
        self._is_open = True
        self._resume()

    def close(self) -> None:
        """Stop accepting connections."""
        self._is_open = False
        asyncio.get_running_loop().remove_reader(self.listener)
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until connections that were being opened are gone."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _resume(self) -> None:
        if self._is_open:
            asyncio.get_running_loop().add_reader(self.listener, self._accept_waiting)

    def _accept_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_MAX_PER_TURN):
            try:
                client, _ = self.listener.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_FILES:
                    raise
                loop.remove_reader(self.listener)  # it would be called again at once, and fail again
                loop.call_later(_PAUSE, self._resume)
                return
            client.setblocking(False)
            if self.tls is None and len(self.connections) + len(self._opening) >= self.max_connections:
                self._refuse(client)
                continue
            task = loop.create_task(self._open(client))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _refuse(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.send(self.refusal)
            client.shutdown(socket.SHUT_WR)
            client.recv(_REQUEST_BYTES)  # closing with the request unread would reset the connection

    async def _open(self, client: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self.protocol, client, ssl=self.tls, ssl_handshake_timeout=self.handshake_timeout
            )
        except OSError:  # the client has gone, or its TLS handshake failed
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise
