"""Clients that try to take more than their share, or to slip something past the checks, against a real server."""

import json
import socket
import time
from dataclasses import replace

import pytest

from pricdr.serving.connections import guarded
from pricdr.serving.settings import Limits, Settings
from tests.serving.conftest import small_model
from tests.serving.processes import serving

GET = b"GET /users/u38/recommendations?k=1 HTTP/1.1\r\nhost: localhost\r\n\r\n"
FEW = Limits(longest_wait=1e-4, slow_header=2)
"""Four requests in flight, and nobody waits."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose answers are large: its items have long names."""
    folder = tmp_path_factory.mktemp("long") / "model"
    model = small_model()
    long = tuple(f"{name}{'x' * 900}" if at > 10 else name for at, name in enumerate(model.items))
    replace(model, items=long).save(folder)
    with serving(folder, FEW) as running:
        yield running


def said(server, sent):
    """Return all that a connection says until it is closed."""
    with server.connect() as connection:
        connection.sendall(sent)
        return everything(connection)


def everything(connection):
    heard = b""
    try:
        while block := connection.recv(65536):
            heard += block
    except ConnectionResetError:
        pass
    return heard


def post(body, more=b""):
    return (
        b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n%b\r\n%b" % (len(body), more, body)
    )


def test_requests_without_end_on_one_connection_are_cut_off(server):
    before = server.memory()
    with server.connect() as connection:
        connection.settimeout(5)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(GET * 200_000)
    started = time.monotonic()
    assert server.get("/health")[0] == 200
    assert time.monotonic() - started < 2
    assert server.memory() - before < 20


def test_whoever_reads_nothing_keeps_nobody_waiting(server):
    """Each leaves megabytes unread, and has asked for more."""
    question = post(json.dumps({"users": ["u0"] * 90, "k": 60}).encode())
    deaf = []
    try:
        for _ in range(5):
            connection = socket.socket()
            deaf.append(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            for _ in range(3):
                connection.sendall(question)
                time.sleep(0.15)
        deadline = time.monotonic() + 5
        while server.metric("pricdr_requests_in_flight"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert server.get("/users/u38/recommendations?k=1")[0] == 200
    finally:
        for connection in deaf:
            connection.close()


class Transport:
    def __init__(self, size):
        self.size, self.aborted = size, False

    def get_write_buffer_size(self):
        return self.size

    def abort(self):
        self.aborted = True


def test_answers_that_nobody_takes_are_bounded_and_the_oldest_go_first():
    made = guarded(Settings(limits=Limits(unread=100)), metrics=None)
    connections = []
    for size in (40, 0, 60, 50, 1000):
        connection = made.__new__(made)
        connection.transport = Transport(size)
        connections.append(connection)
        connection._bound_unread()
        if size == 60:
            assert not any(one.transport.aborted for one in connections)
    # The newest stays, however large: nobody could ever take it otherwise.
    assert [one.transport.aborted for one in connections] == [True, False, True, True, False]
    assert list(made.unread) == connections[-1:]


def test_a_trailer_is_no_header(server):
    sent = (
        b"POST /recommendations HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        b'10\r\n{"users":["u3"]}\r\n0\r\nhost: localhost\r\nconnection: close\r\n\r\n'
    )
    assert said(server, sent).startswith(b"HTTP/1.1 421 ")


def test_an_upgrade_is_not_made_and_leaves_no_connection_behind(server):
    upgrade = b"connection: Upgrade\r\nupgrade: h2c\r\n"
    started = time.monotonic()
    answer = said(server, GET[:-2] + upgrade + b"\r\n" + GET)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer
    refused = said(server, post(b'{"users":["u3"]}', upgrade))
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert b"without an Upgrade header" in refused
    assert time.monotonic() - started < 1.5  # a connection that is left waits for 2 seconds


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000, b""])
def test_what_never_became_a_request_is_refused_with_all_headers(server, sent):
    answer = said(server, sent)
    assert answer.split()[1] in {b"400", b"431", b"408"}
    for header in (b"content-security-policy: default-src 'none'", b"nosniff", b"no-store", b"no-referrer", b"DENY"):
        assert header in answer
