"""The process: a socket, a server on it, and an orderly end."""

import asyncio
import logging
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import uvicorn

from pricdr.errors import InputError, OutputError
from pricdr.serving.app import create_app
from pricdr.serving.connections import guarded
from pricdr.serving.keys import KeyRing
from pricdr.serving.log import EventLines
from pricdr.serving.models import Models
from pricdr.serving.settings import Settings
from pricdr.serving.snapshot import Snapshot
from pricdr.serving.watching import LOOK_EVERY, Watcher

_BACKLOG: Final = 1024
_OTHER_FILES: Final = 256
"""Files that a server has open beside its connections."""
_SWITCH: Final = 1e-3
"""Seconds until the interpreter is handed to a thread that waits for it."""
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


def serve(
    model: Path,
    settings: Settings,
    *,
    compare: Path | None = None,
    log: EventLines,
    ready: Callable[[str, Snapshot], None] = lambda address, snapshot: None,
    look_every: float = LOOK_EVERY,
) -> None:
    """Answer requests until the process is told to stop; requests in flight then have some seconds to end.

    Args:
        model: the model folder, or a link to one.
        settings: where to listen, and whom to answer.
        compare: a second model, for the page.
        log: where events go.
        ready: called with the address and the model once requests are answered.
        look_every: seconds between two looks at the model folder and the file of keys.
    """
    keys = None if settings.keys is None else KeyRing(settings.keys, log.event)
    load = partial(Snapshot.load, public_key=settings.public_key, exact=settings.exact)
    context = _certificate(settings)
    listening = _listen(settings)  # before the model is read: a port that is taken is no reason to wait for that
    try:
        models = Models(model, compare, load=load, report=log.event)
        watcher = Watcher([models.look, *([] if keys is None else [keys.look])], log.event, look_every)
        app = create_app(models, settings, keys=keys, log=log)
        config = uvicorn.Config(
            app,
            http=guarded(settings, app.state.metrics),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody could claim any address
            timeout_keep_alive=max(1, int(settings.limits.slow_header)),
            timeout_graceful_shutdown=max(1, int(settings.limits.shutdown)),
            backlog=_BACKLOG,
        )
        if context is not None:
            config.load()
            config.ssl = context
        _allow_connections(settings.limits.connections)
        _log_faults(log)
        # A thread that scores asks for the interpreter many times, and would wait up to this long each time.
        sys.setswitchinterval(_SWITCH)
        server = _Server(config, settings.limits.slow_header)
        address = _address(settings, listening)
        with models.current() as snapshot:
            log.event("serving", model=snapshot.fingerprint, users=snapshot.n_users, items=snapshot.n_items)
            ready(address, snapshot)
        server.run(sockets=[listening])
        watcher.close()
        log.event("stopped")
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """Ends without raising the signal again that ended it: to be stopped is how a server ends well.

    It listens by itself: uvicorn would give a client that never greets in TLS a minute, and counts it nowhere.
    """

    def __init__(self, config: uvicorn.Config, slow_greeting: float) -> None:
        super().__init__(config)
        self._slow_greeting = slow_greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        config = self.config
        made: Callable[..., asyncio.Protocol] = config.http_protocol_class
        connection = partial(made, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        greeting = None if config.ssl is None else self._slow_greeting
        for one in sockets or ():
            server = await asyncio.get_running_loop().create_server(
                connection, sock=one, ssl=config.ssl, ssl_handshake_timeout=greeting, backlog=config.backlog
            )
            self.servers.append(server)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {one: signal.signal(one, self.handle_exit) for one in _STOPPING}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


class _Faults(logging.Handler):
    """Logs that uvicorn complained, and of what kind of error: its words may quote a request."""

    def __init__(self, log: EventLines) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        self._log.event("server fault", error=None if kind is None else kind.__name__, line=record.lineno)


def _log_faults(log: EventLines) -> None:
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], False
        logger.setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addHandler(_Faults(log))


def _listen(settings: Settings) -> socket.socket:
    """Return a socket that listens; connections wait in it until the model has been read."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0
        # Python adds the address to the system's words, and this message has it; negative numbers are of names.
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
        raise OutputError(f"cannot listen on {settings.host} port {settings.port}: {reason}") from error


def _certificate(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"--tls-cert {settings.tls_cert} and --tls-key {settings.tls_key} cannot be used: {reason}"
        ) from error
    return context


def _no_password() -> str:
    """Refuse an encrypted key: OpenSSL would ask for the password on the terminal, and wait."""
    raise ValueError("the key is encrypted: a server has nobody to ask for its password")


def _allow_connections(count: int) -> None:
    """Raise the limit on open files as far as the connections need it, and as far as that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _address(settings: Settings, listening: socket.socket) -> str:
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listening.getsockname()[1]}"
