"""The server process: it listens, serves, and shuts down in order."""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread
from typing import Final

import uvicorn

from pricdr.errors import OutputError, ParameterError
from pricdr.serving.app import create_app
from pricdr.serving.keys import KeyRing
from pricdr.serving.log import ServerLog
from pricdr.serving.snapshot import Snapshot, WatchedModel

_CONNECTIONS: Final = 1000  # open at the same time; further requests get 503
_SHUTDOWN_SECONDS: Final = 8  # for requests in flight when the server is stopped


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: Path | None = None,
    insecure_listen: bool = False,
    allowed_hosts: Iterable[str] = (),
    public_key: Path | None = None,
    exact: bool = False,
    compare: Path | None = None,
    evaluation: Path | None = None,
    frontier: Path | None = None,
    log: ServerLog,
    ready: Callable[[str, Snapshot], None],
    poll_interval: float = 1.0,
) -> None:
    """Serve a model folder until told to stop; ``ready`` gets the address and the model before the first answer."""
    if not is_loopback(host) and not insecure_listen:
        raise ParameterError(
            f"--host {host} can be reached from other machines: put a proxy with TLS and limits in front "
            "(deploy/nginx.conf), or give --insecure-listen"
        )
    ring = None if keys is None else KeyRing(keys, log.event)

    def load(folder: Path) -> Snapshot:
        snapshot = Snapshot.load(folder, public_key=public_key, exact=exact)
        exempt_from_garbage_collection()
        return snapshot

    with _listen(host, port) as listener:  # before the model is loaded, so that a port in use is reported at once
        models = [WatchedModel(folder, load=load, report=log.event) for folder in (model, compare) if folder]
        hosts = known_hosts(host, allowed_hosts)
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(models, hosts=hosts, keys=ring, log=log, evaluation=evaluation, frontier=frontier),
                http="httptools",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # any client could claim any address
                limit_concurrency=_CONNECTIONS,
                timeout_keep_alive=75,  # longer than nginx's, which would else send requests to closed connections
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        for check in [*(model.reload_if_changed for model in models), *([ring.reload] if ring else [])]:
            repeat(check, poll_interval, log)
        log.take_over()
        sys.setswitchinterval(1e-3)  # seconds: the scoring thread needs the interpreter often
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn raises the signals again once it has stopped: they must not end the process then.
            signal.signal(number, server.handle_exit)
        snapshot = models[0].snapshot
        log.event("serving", **snapshot.facts)
        ready(f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}", snapshot)
        exempt_from_garbage_collection()
        server.run(sockets=[listener])
        log.event("stopped")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens there."""
    with suppress(ValueError):  # a name may stand for any address
        return host == "localhost" or ip_address(host).is_loopback
    return False


def known_hosts(host: str, allowed: Iterable[str]) -> frozenset[str] | None:
    """Return the host names that a request may use, in lower case; None for any.

    Else a web page could point a name of its own at 127.0.0.1 and read answers in a visitor's browser (DNS rebinding).
    """
    names = frozenset(name.lower() for name in allowed)
    return names | {"localhost", "127.0.0.1", "::1", host.lower()} if is_loopback(host) else names or None


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


def exempt_from_garbage_collection() -> None:
    """Exempt what is alive now: scanning a model's ids for cycles would stop all answers for 50 ms, once a second."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; connections queue up in it until the model has been loaded."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None) or 0
        # Python's own message repeats the address; negative numbers are name-resolution errors, unknown to strerror.
        reason = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
        raise OutputError(f"cannot listen on {host} port {port}: {reason}") from error
