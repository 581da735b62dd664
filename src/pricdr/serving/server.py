"""The server process: it listens, serves, and shuts down in order."""

import asyncio
import gc
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
from pricdr.serving.accepting import Acceptor
from pricdr.serving.app import create_app
from pricdr.serving.connections import connection_class, too_many_connections
from pricdr.serving.keys import KeyRing
from pricdr.serving.log import ServerLog
from pricdr.serving.models import Models
from pricdr.serving.settings import Limits, Settings
from pricdr.serving.snapshot import Snapshot
from pricdr.serving.watching import POLL_INTERVAL, Watcher

_BACKLOG: Final = 4096
"""Connections that the system keeps until they are accepted, if it allows so many."""
_OTHER_FILES: Final = 256
"""Open files that a server needs in addition to its connections."""
_SWITCH_INTERVAL: Final = 1e-3
"""Seconds after which a running thread hands the interpreter to a waiting one."""
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(
    model: Path,
    settings: Settings,
    *,
    compare: Path | None = None,
    log: ServerLog,
    ready: Callable[[str, Snapshot], None] = lambda address, snapshot: None,
    poll_interval: float = POLL_INTERVAL,
) -> None:
    """Serve until the process is told to stop; requests in flight then have some seconds to finish.

    Args:
        model: the model folder, or a link to one.
        settings: where to listen, and which requests to accept.
        compare: a second model, for the page.
        log: where events go.
        ready: called with the address and the model once the server is about to answer requests.
        poll_interval: seconds between two checks of the model folder and of the file of keys.
    """
    keys = None if settings.keys is None else KeyRing(settings.keys, log.event)

    def load(folder: Path) -> Snapshot:
        snapshot = Snapshot.load(folder, public_key=settings.public_key, exact=settings.exact)
        _exempt_from_garbage_collection()
        return snapshot

    tls = _tls_context(settings)
    listener = _listen(settings)  # before the model is loaded, so that a port in use is reported at once
    try:
        models = Models(model, compare, load=load, report=log.event)
        checks = [models.reload_if_changed, *([] if keys is None else [keys.reload_if_changed])]
        watcher = Watcher(checks, log.event, poll_interval)
        app = create_app(models, settings, keys=keys, log=log)
        config = uvicorn.Config(
            app,
            http=connection_class(settings, app.state.metrics),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client could claim any address
            timeout_keep_alive=max(1, int(settings.limits.header_timeout)),
            timeout_graceful_shutdown=max(1, int(settings.limits.shutdown_timeout)),
            backlog=_BACKLOG,
        )
        if tls is not None:
            config.load()
            config.ssl = tls
        _allow_connections(settings.limits.connections)
        _log_faults(log)
        # The scoring thread needs the interpreter many times, and waits up to this long each time.
        sys.setswitchinterval(_SWITCH_INTERVAL)
        server = _Server(config, settings.limits)
        address = _address(settings, listener)
        with models.current() as snapshot:
            log.event("serving", model=snapshot.fingerprint, users=snapshot.n_users, items=snapshot.n_items)
            ready(address, snapshot)
        _exempt_from_garbage_collection()
        server.run(sockets=[listener])
        watcher.close()
        log.event("stopped")
    finally:
        listener.close()


class _Server(uvicorn.Server):
    """Exits normally when it is told to stop, while uvicorn would raise the signal again.

    It also accepts connections itself (:mod:`pricdr.serving.accepting`), with a shorter timeout for TLS handshakes: by
    default, a client that never starts the handshake is kept for a minute, and is not counted as a connection.
    """

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self._limits = limits

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        config = self.config
        protocol: Callable[..., asyncio.Protocol] = config.http_protocol_class
        for listener in sockets or ():
            acceptor = Acceptor(
                listener,
                partial(protocol, config=config, server_state=self.server_state, app_state=self.lifespan.state),
                self.server_state.connections,
                self._limits.connections,
                refusal=too_many_connections(tls=config.ssl is not None),
                tls=config.ssl,
                handshake_timeout=None if config.ssl is None else self._limits.header_timeout,
            )
            acceptor.start()
            self.servers.append(acceptor)  # type: ignore[arg-type]  # uvicorn only closes it

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        previous = {number: signal.signal(number, self.handle_exit) for number in _STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _exempt_from_garbage_collection() -> None:
    """Let the garbage collector pass over everything that is alive now.

    A model stays until it is replaced, and is then freed by its reference count. Scanning its ids again and again for
    cycles would stop all answers for a twentieth of a second, about once a second under load.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


class _FaultHandler(logging.Handler):
    """Logs the type of an error that uvicorn or asyncio reports, without its message, which may quote a request."""

    def __init__(self, log: ServerLog) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        self._log.event("server fault", error=None if kind is None else kind.__name__, line=record.lineno)


def _log_faults(log: ServerLog) -> None:
    # Without a handler, Python would print their messages, which are not JSON, to standard error.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], False
        logger.setLevel(logging.ERROR)
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addHandler(_FaultHandler(log))


def _listen(settings: Settings) -> socket.socket:
    """Return a listening socket; connections queue up in it until the model has been loaded."""
    try:
        addresses = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0
        # Python's own message repeats the address; negative numbers are name-resolution errors, unknown to strerror.
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
        raise OutputError(f"cannot listen on {settings.host} port {settings.port}: {reason}") from error


def _tls_context(settings: Settings) -> ssl.SSLContext | None:
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
    """Refuse an encrypted key: OpenSSL would otherwise prompt for the password on the terminal, and wait."""
    raise ValueError("the key is encrypted, and a server cannot ask for its password")


def _allow_connections(count: int) -> None:
    """Raise the limit on open files to what the connections need, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        with suppress(OSError, ValueError):
            limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _address(settings: Settings, listener: socket.socket) -> str:
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"
