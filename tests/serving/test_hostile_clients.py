"""Clients that try to use more than their share, or to bypass the checks, against a real server."""

import json
import socket
import time
from dataclasses import replace

import pytest

from pricdr.serving.connections import connection_class
from pricdr.serving.settings import Limits, Settings
from tests.serving.conftest import small_model
from tests.serving.processes import serving

GET = b"GET /users/u38/recommendations?k=1 HTTP/1.1\r\nhost: localhost\r\n\r\n"
FEW = Limits(max_wait=1e-4, header_timeout=2)
"""Four requests in flight, and none waits."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose answers are large: its items have long names."""
    folder = tmp_path_factory.mktemp("long") / "model"
    model = small_model()
    long = tuple(f"{name}{'x' * 900}" if at > 10 else name for at, name in enumerate(model.items))
    replace(model, items=long).save(folder)
    with serving(folder, FEW) as running:
        yield running


def exchange(server, sent):
    """Send bytes, and return everything received until the connection is closed."""
    with server.connect() as connection:
        connection.sendall(sent)
        return receive_all(connection)


def receive_all(connection):
    received = b""
    try:
        while block := connection.recv(65536):
            received += block
    except ConnectionResetError:
        pass
    return received


def post(body, headers=b""):
    return (
        b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n%b\r\n%b" % (len(body), headers, body)
    )


def test_endless_requests_on_one_connection_are_cut_off(server):
    before = server.memory()
    with server.connect() as connection:
        connection.settimeout(5)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(GET * 200_000)
    started = time.monotonic()
    assert server.get("/health")[0] == 200
    assert time.monotonic() - started < 2
    assert server.memory() - before < 20


def test_clients_that_read_nothing_do_not_delay_others(server):
    """Each leaves megabytes unread, and has sent more requests."""
    question = post(json.dumps({"users": ["u0"] * 90, "k": 60}).encode())
    unread = []
    try:
        for _ in range(5):
            connection = socket.socket()
            unread.append(connection)
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
        for connection in unread:
            connection.close()


class Transport:
    def __init__(self, size):
        self.size, self.aborted = size, False

    def get_write_buffer_size(self):
        return self.size

    def abort(self):
        self.aborted = True


def test_unread_responses_are_bounded_and_the_oldest_are_dropped_first():
    connection_type = connection_class(Settings(limits=Limits(unread_bytes=100)), metrics=None)
    connections = []
    for size in (40, 0, 60, 50, 1000):
        connection = connection_type.__new__(connection_type)
        connection.transport = Transport(size)
        connections.append(connection)
        connection._bound_unread()
        if size == 60:
            assert not any(connection.transport.aborted for connection in connections)
    # The newest stays, however large: otherwise it could never be read.
    assert [connection.transport.aborted for connection in connections] == [True, False, True, True, False]
    assert list(connection_type.unread) == connections[-1:]


def test_a_trailer_is_not_a_header(server):
    sent = (
        b"POST /recommendations HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        b'10\r\n{"users":["u3"]}\r\n0\r\nhost: localhost\r\nconnection: close\r\n\r\n'
    )
    assert exchange(server, sent).startswith(b"HTTP/1.1 421 ")


def test_an_upgrade_is_declined_and_its_connection_closed(server):
    upgrade = b"connection: Upgrade\r\nupgrade: h2c\r\n"
    started = time.monotonic()
    answer = exchange(server, GET[:-2] + upgrade + b"\r\n" + GET)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer
    refused = exchange(server, post(b'{"users":["u3"]}', upgrade))
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert b"without an Upgrade header" in refused
    assert time.monotonic() - started < 1.5  # an open connection would wait for 2 seconds


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"a" * 200_000, b""])
def test_an_invalid_request_is_refused_with_all_security_headers(server, sent):
    answer = exchange(server, sent)
    assert answer.split()[1] in {b"400", b"431", b"408"}
    for header in (b"content-security-policy: default-src 'none'", b"nosniff", b"no-store", b"no-referrer", b"DENY"):
        assert header in answer
