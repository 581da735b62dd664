"""The server as a process: slow clients, crowds, a new model under load, an orderly shutdown."""

import http.client
import json
import logging
import shutil
import signal
import socket
import ssl
import threading
import time
from contextlib import closing

import pytest

from pricdr.serving.keys import Scope, add_key
from pricdr.serving.log import ServerLog
from pricdr.serving.server import _log_faults
from pricdr.serving.settings import Limits
from pricdr.serving.snapshot import Snapshot
from tests.serving.processes import answer_of, serving
from tests.serving.tls import create_certificate

IMPATIENT = Limits(
    header_timeout=0.6, body_timeout=0.6, response_timeout=0.4, connections=100, bodies=3, shutdown_timeout=2
)
ONE = "/users/u38/recommendations"


@pytest.fixture(scope="module")
def server(saved):
    """A server with short timeouts."""
    with serving(saved / "one", IMPATIENT) as running:
        yield running


def raw(server, *pieces, pause=0.0):
    """Send raw bytes, and return the status and body of the response."""
    with server.connect() as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(pause)
        return answer_of(connection)


def test_it_answers(server):
    status, body, headers = server.get(ONE)
    assert (status, body["basis"]) == (200, "both")
    assert "server" not in headers
    assert len({server.get("/ready")[1]["model"], body["model"]}) == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),  # TLS to a server without it
        (b"GET /users/\xff/recommendations HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 200_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 20_000 + b"\r\n", 431),
        (b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n", 400),
        (b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
    ],
)
def test_an_invalid_request_is_refused(server, sent, status):
    received, body = raw(server, sent)
    assert received == status
    assert list(body) == ["error"]


def test_dots_in_an_address_are_an_id(server):
    with server.connect() as connection:
        connection.sendall(b"GET /users/../recommendations HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        status, body = answer_of(connection)
    assert (status, body["user"], body["basis"]) == (200, "..", "history")


def test_ten_megabytes_are_refused(server):
    status, body, _ = server.request("POST", "/recommendations", body=b"x" * 10_000_000)
    assert (status, list(body)) == (413, ["error"])
    status, body, _ = server.request("POST", "/recommendations", body=iter([b"x" * 1_000_000] * 10))  # chunked
    assert (status, list(body)) == (413, ["error"])


def test_a_body_that_says_it_is_enormous_is_refused_before_it_is_sent(server):
    head = b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n"
    assert raw(server, head % 10**15 + b"\r\n")[0] == 413
    assert raw(server, head % 2_000_000 + b"expect: 100-continue\r\n\r\n")[0] == 413


def test_slow_clients_time_out(server):
    started = time.monotonic()
    assert raw(server, b"GET /health HTTP/1.1\r\nhost: loc")[0] == 408
    assert (
        raw(server, b"GET /", *[b"x"] * 12, pause=0.1)[0] == 408
    )  # sending a little now and then does not extend the deadline
    assert raw(server, b"")[0] == 408
    body = b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"
    assert raw(server, body)[0] == 408
    assert raw(server, body, *[b" "] * 12, pause=0.1)[0] == 408
    assert time.monotonic() - started < 12


def test_a_client_that_does_not_read_is_cut_off(server):
    question = json.dumps({"users": ["u0"] * 1000, "k": 60}).encode()
    head = b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    whole = head + b"content-length: %d\r\n\r\n" % len(question) + question
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(whole)
        deadline = time.monotonic() + 8
        while server.metric("pricdr_connections") > 1:  # the remaining one asks for the metrics
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_slow_bodies_leave_room_for_others(server):
    with server.crowd(6) as waiting:
        for connection in waiting:
            connection.sendall(b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{")
        assert server.get(ONE)[0] == 200
        statuses = sorted(answer_of(connection)[0] for connection in waiting)
    assert statuses == [408, 408, 408, 503, 503, 503]


def test_a_thousand_connections_do_not_disturb_open_ones(server):
    before = server.memory()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as kept:
        kept.request("GET", "/health")
        kept.getresponse().read()
        with server.crowd(1000) as crowd:
            kept.request("GET", ONE)
            assert kept.getresponse().read().startswith(b'{"user"')
            statuses = [answer_of(connection)[0] for connection in crowd]
    assert set(statuses) == {408, 503}  # held until they timed out, or refused
    assert server.get(ONE)[0] == 200
    assert server.memory() - before < 30


def test_many_requests_on_one_connection(server):
    with server.connect() as connection:
        ask = b"GET /users/u38/recommendations?k=1 HTTP/1.1\r\nhost: localhost\r\n\r\n"
        connection.sendall(ask * 100 + ask.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        received = b""
        while block := connection.recv(65536):
            received += block
    assert received.count(b"HTTP/1.1 200 OK") == 101


class Crowd:
    """Clients that send requests on persistent connections until they are stopped."""

    def __init__(self, server, clients=4):
        self.server, self.models, self.failures = server, [], []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self):
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)) as connection:
            while not self._stop.is_set():
                try:
                    connection.request("GET", ONE)
                    response = connection.getresponse()
                    body = json.loads(response.read())
                    if response.status != 200:
                        self.failures.append(response.status)
                    self.models.append((body["model"], body["items"][0]["item"]))
                except Exception as error:
                    self.failures.append(repr(error))
                    return

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.slow
def test_a_new_model_takes_over_under_load_without_a_dropped_request(saved, tmp_path):
    first, second = Snapshot.load(saved / "one"), Snapshot.load(saved / "two")
    shutil.copytree(saved / "one", tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"broken")
    link = tmp_path / "model"

    def move(to):
        (tmp_path / "next").symlink_to(to)
        (tmp_path / "next").rename(link)

    def until(condition):
        deadline = time.monotonic() + 20
        while not condition(server.get("/ready")[1]):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    move(saved / "one")
    with serving(link) as server:
        crowd = Crowd(server)
        for _ in range(2):
            move(saved / "two")
            until(lambda state: state["model"] == second.fingerprint)
            move(tmp_path / "broken")
            until(lambda state: "refused" in state and state["model"] == second.fingerprint)
            assert server.metric("pricdr_model_refused") == 1
            move(saved / "one")
            until(lambda state: "refused" not in state and state["model"] == first.fingerprint)
        crowd.stop()
        code, _, log = server.stop()
    assert crowd.failures == []
    expected = {(snapshot.fingerprint, snapshot.recommend("u38", 1).items[0].item) for snapshot in (first, second)}
    assert set(crowd.models) == expected
    events = [json.loads(line) for line in log.splitlines()]
    names = [event["event"] for event in events if event["event"] != "request"]
    assert names.count("model taken") == names.count("model freed") == 4
    assert names.count("model refused") == 2
    assert code == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_it_ends_in_order_under_load(saved, how):
    with serving(saved / "one", IMPATIENT) as server:
        crowd = Crowd(server)
        with server.crowd(2) as (slow, _silent):
            slow.sendall(b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{")
            time.sleep(0.3)
            code, seconds, log = server.stop(how)
            crowd.stop()
    assert code == 0
    assert seconds < 10
    assert crowd.models
    # Every request was answered, or found the connection closed.
    closed = ("Refused", "Disconnected", "Reset")
    assert all(any(word in str(failure) for word in closed) for failure in crowd.failures)
    assert json.loads(log.splitlines()[-1])["event"] == "stopped"


def test_errors_that_asyncio_reports_are_logged_without_their_message(capfd):
    """Python would print them to standard error as they are: not JSON, and possibly with an id."""
    names = ("uvicorn", "uvicorn.error", "uvicorn.asgi", "asyncio")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    events = []
    log = ServerLog.silent()
    log.event = lambda event, **facts: events.append((event, facts["error"]))
    try:
        _log_faults(log)
        error = KeyError("secret")
        logging.getLogger("asyncio").error("Exception in callback: secret", exc_info=error)
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
    assert events == [("server fault", "KeyError")]
    assert "secret" not in capfd.readouterr().err


def test_tls_and_keys_and_a_log_without_ids_or_keys(saved, tmp_path):
    cert, key = create_certificate(tmp_path)
    good = add_key(tmp_path / "keys.json", "shop", [Scope.RECOMMEND])
    with serving(
        saved / "one", Limits(header_timeout=2), tls_cert=cert, tls_key=key, keys=tmp_path / "keys.json"
    ) as server:
        assert server.address.startswith("https://")
        trusted = ssl.create_default_context(cafile=cert)
        requests = (
            ("/users/u38/recommendations?k=3", good, 200),
            ("/users/secret-user/recommendations", good, 200),
            ("/items/secret-item/similar?k=7", good, 404),
            ("/secret-path?secret-query", good, 404),
            ("/users/u38/recommendations", f"{good}-secret", 401),
            ("/metrics", good, 403),
        )
        for path, bearer, status in requests:
            connection = http.client.HTTPSConnection("localhost", server.port, timeout=20, context=trusted)
            connection.request("GET", path, headers={"authorization": f"Bearer {bearer}"})
            response = connection.getresponse()
            assert response.status == status
            assert "max-age" in response.headers["strict-transport-security"]
            response.read()
            connection.close()
        with server.connect() as plain:  # no TLS: the handshake fails, and nothing else does
            plain.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert b"200" not in plain.recv(100)
        with server.connect() as silent:  # it never starts the handshake, and times out sooner than by default
            silent.settimeout(10)
            assert silent.recv(100) == b""
        code, _, log = server.stop()
    assert code == 0
    events = [json.loads(line) for line in log.splitlines()]
    logged = [(event["route"], event["status"], event["key"]) for event in events if event["event"] == "request"]
    assert logged == [
        ("/users/{user}/recommendations", 200, "shop"),
        ("/users/{user}/recommendations", 200, "shop"),
        ("/items/{item}/similar", 404, "shop"),
        ("none", 404, "shop"),
        ("none", 401, None),
        ("none", 403, None),
    ]
    for word in ("secret", "u38", "k=", good.partition(".")[2], "127.0.0.1"):
        assert word not in log
