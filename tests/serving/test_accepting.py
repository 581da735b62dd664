"""A crowd of clients: connections are accepted many at a time, and the garbage collector stays out of the way."""

import asyncio
import gc
import socket
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import uvloop

from pricdr.serving.server import _exempt_from_garbage_collection, accept_connections


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

    servers = await accept_connections(listener, lambda: Counted(turns))
    count()
    while len(turns) < clients:
        await asyncio.sleep(0)
    for server in servers:
        server.close()
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


def test_connections_are_accepted_many_at_a_time():
    clients = 160
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        for _ in range(clients):
            sockets.enter_context(socket.create_connection(listener.getsockname()))
        turns = run_in_uvloop(accepted_in(listener, clients))
    assert len(turns) == clients
    assert max(turns) - min(turns) < clients / 4  # one a turn would take as many turns as there are clients


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
