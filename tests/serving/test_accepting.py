"""A crowd of clients: connections are accepted many at a time or refused at once; no pauses for garbage collection."""

import asyncio
import errno
import gc
import socket
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import uvloop

from pricdr.serving.accepting import Acceptor
from pricdr.serving.server import _exempt_from_garbage_collection


class Counted(asyncio.Protocol):
    """Notes in which turn of the event loop each connection was made."""

    def __init__(self, turns):
        self.turns = turns

    def connection_made(self, transport):
        self.turns.append(asyncio.get_running_loop().turn)
        transport.close()


async def accepted_in(listener, clients):
    """Return the turns of the event loop in which waiting connections were accepted."""
    loop, turns = asyncio.get_running_loop(), []
    loop.turn = 0

    def count():
        loop.turn += 1
        loop.call_soon(count)

    acceptor = Acceptor(listener, lambda: Counted(turns), connections=(), max_connections=1000, refusal=b"no")
    acceptor.start()
    count()
    while len(turns) < clients:
        await asyncio.sleep(0)
    acceptor.close()
    await acceptor.wait_closed()
    return turns


class CountingLoop(uvloop.Loop):
    """The event loop that uvicorn runs, with room for a counter."""


def run_in_uvloop(coroutine):
    """Run a coroutine in a loop of uvloop, in another thread."""

    def run():
        with asyncio.Runner(loop_factory=CountingLoop) as runner:
            return runner.run(coroutine)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        yield listening


def test_connections_are_accepted_many_at_a_time(listener):
    clients = 160
    with ExitStack() as sockets:
        for _ in range(clients):
            sockets.enter_context(socket.create_connection(listener.getsockname()))
        turns = run_in_uvloop(accepted_in(listener, clients))
    assert len(turns) == clients
    assert max(turns) - min(turns) < clients / 4  # one a turn would take as many turns as there are clients


def test_clients_above_the_limit_receive_the_whole_refusal(listener):
    """Although their requests have arrived, and nobody reads them."""
    refusal = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\r\n"

    async def accept(seconds):
        acceptor = Acceptor(listener, asyncio.Protocol, connections=range(3), max_connections=3, refusal=refusal)
        acceptor.start()
        await asyncio.sleep(seconds)
        acceptor.close()

    with ExitStack() as sockets:
        clients = [sockets.enter_context(socket.create_connection(listener.getsockname())) for _ in range(50)]
        for client in clients:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        run_in_uvloop(accept(0.2))
        for client in clients:
            assert client.makefile("rb").read() == refusal


class OutOfFiles(socket.socket):
    """A listening socket for which the system has no file left, twice."""

    failures = 2

    def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_it_goes_on_accepting_after_the_system_had_no_file_left():
    with OutOfFiles() as listener, ExitStack() as sockets:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sockets.enter_context(socket.create_connection(listener.getsockname()))
        assert len(run_in_uvloop(accepted_in(listener, 1))) == 1
        assert listener.failures == 0


@pytest.fixture
def thawed():
    """Give the collector back what a test has exempted."""
    yield
    gc.unfreeze()


class Node:
    """Something that can be referred to weakly, and by itself."""


@pytest.mark.usefixtures("thawed")
def test_what_is_alive_is_exempt_from_collection_and_is_still_freed():
    alone, in_a_cycle = Node(), Node()
    in_a_cycle.itself = in_a_cycle
    freed, collected = weakref.ref(alone), weakref.ref(in_a_cycle)
    _exempt_from_garbage_collection()
    assert gc.get_freeze_count() > 1000
    del alone, in_a_cycle
    assert freed() is None  # by its reference count
    gc.collect()
    assert collected() is not None
    _exempt_from_garbage_collection()  # as for every model that is loaded
    assert collected() is None
