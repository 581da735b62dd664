"""The server process: it listens, serves, and shuts down in order."""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pricdr.errors import OutputError
from pricdr.serving.app import ServerSettings, create_app
from pricdr.serving.keys import KeyRing
from pricdr.serving.log import ServerLog
from pricdr.serving.snapshot import Snapshot, WatchedModel

_CONNECTIONS: Final = 1000
"""Open at the same time; further requests get 503."""
_POLL_INTERVAL: Final = 1.0
"""Seconds between two checks of a file."""
_SHUTDOWN_SECONDS: Final = 8
"""For requests in flight when the server is stopped."""
_SWITCH_INTERVAL: Final = 1e-3
"""Seconds after which a running thread hands the interpreter to a waiting one; the scoring thread needs it often."""


def serve(
    model: Path,
    settings: ServerSettings,
    *,
    compare: Path | None = None,
    log: ServerLog,
    ready: Callable[[str, Snapshot], None] = lambda address, snapshot: None,
    poll_interval: float = _POLL_INTERVAL,
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
        exempt_from_garbage_collection()
        return snapshot

    with _listen(settings) as listener:  # before the model is loaded, so that a port in use is reported at once
        folders = [model] if compare is None else [model, compare]
        models = [WatchedModel(folder, load=load, report=log.event) for folder in folders]
        config = uvicorn.Config(
            create_app(models, settings, keys=keys, log=log),
            http=_Connection,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client could claim any address
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=75,  # longer than that of nginx, which would else send requests to closed connections
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        for check in [*(model.reload_if_changed for model in models), *([] if keys is None else [keys.reload])]:
            repeat(check, poll_interval, log)
        log.take_over()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        server = uvicorn.Server(config)
        with _stopping_at_signals(server):
            log.event("serving", **models[0].snapshot.facts)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            ready(f"http://{host}:{listener.getsockname()[1]}", models[0].snapshot)
            exempt_from_garbage_collection()
            server.run(sockets=[listener])
        log.event("stopped")


class _Connection(HttpToolsProtocol):
    """A connection whose client may close its sending side after its last request, and is answered all the same."""

    def eof_received(self) -> bool:  # type: ignore[override]  # what asyncio expects, unlike uvicorn
        """Return whether to keep the connection open: as long as a whole request is being answered."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        return True


def repeat(check: Callable[[], None], interval: float, log: ServerLog) -> Event:
    """Call ``check`` every ``interval`` seconds in a thread of its own, until the event that is returned is set.

    A check that raises is logged and repeated: a removed key must not stay valid because a watcher has stopped. One
    thread for each: reading a large model takes minutes. Daemons, so that it does not delay the end of the process.
    """
    closed = Event()

    def run() -> None:
        while not closed.wait(interval):
            try:
                check()
            except Exception as error:
                log.fault(error)

    Thread(target=run, name="watching files", daemon=True).start()
    return closed


@contextmanager
def _stopping_at_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let signals stop the server. uvicorn raises them again once it has stopped; they must not end the process."""

    def stop(*_: object) -> None:
        server.should_exit = True

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def exempt_from_garbage_collection() -> None:
    """Let the garbage collector pass over everything that is alive now.

    A model stays until it is replaced, and is then freed by its reference count. Scanning its ids again and again for
    cycles would stop all answers for a twentieth of a second, about once a second under load.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _listen(settings: ServerSettings) -> socket.socket:
    """Return a listening socket; connections queue up in it until the model has been loaded."""
    try:
        addresses = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        return socket.create_server(address[:2], family=family, backlog=_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0
        # Python's own message repeats the address; negative numbers are name-resolution errors, unknown to strerror.
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
        raise OutputError(f"cannot listen on {settings.host} port {settings.port}: {reason}") from error
