"""The server as a process: slow clients, crowds, a new model under load, an orderly shutdown."""

import http.client
import json
import logging
import shutil
import signal
import threading
import time
from contextlib import closing

import pytest

from pricdr.serving.keys import Scope, add_key
from pricdr.serving.log import ServerLog
from pricdr.serving.snapshot import Snapshot
from tests.serving.conftest import answer_of
from tests.serving.processes import serving

ONE = "/users/u38/recommendations"


@pytest.fixture(scope="module")
def server(saved):
    """A running server."""
    with serving(saved / "one") as running:
        yield running


def test_what_is_not_http_is_refused(server):
    strange_method = b"SECRET-WORD /health HTTP/1.1\r\nhost: localhost\r\n\r\n"  # methods are logged
    not_ascii = b"GET /users/\xff/recommendations HTTP/1.1\r\n\r\n"
    for sent in (b"nonsense\r\n\r\n", b"\x16\x03\x01\x02", not_ascii, strange_method):
        with server.connect() as connection:
            connection.sendall(sent)
            assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_many_requests_on_one_connection(server):
    """And dots in an address, which clients resolve themselves, are an id."""
    ask = b"GET /users/u38/recommendations?k=1 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = b"GET /users/../recommendations HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    received = server.send(ask * 100 + last)
    assert received.count(b"HTTP/1.1 200 OK") == 101
    assert b'"user":"..","basis":"history"' in received


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
        deadline = time.monotonic() + 120
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
        code, log = server.stop()
    assert crowd.failures == []
    expected = {(snapshot.fingerprint, answer_of(snapshot, "u38", 1).items[0].item) for snapshot in (first, second)}
    assert set(crowd.models) == expected
    events = [json.loads(line) for line in log.splitlines()]
    names = [event["event"] for event in events if event["event"] != "request"]
    assert names.count("model taken") == names.count("model freed") == 4
    assert names.count("model refused") == 2
    assert code == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_it_ends_in_order_under_load(saved, how):
    with serving(saved / "one") as server:
        crowd = Crowd(server)
        with server.connect() as slow, server.connect():
            slow.sendall(b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{")
            while len(crowd.models) < 10:
                time.sleep(0.01)
            code, log = server.stop(how)
            crowd.stop()
    assert code == 0
    # Every request was answered, or found the connection closed.
    closed = ("Refused", "Disconnected", "Reset")
    assert all(any(word in str(failure) for word in closed) for failure in crowd.failures)
    assert json.loads(log.splitlines()[-1])["event"] == "stopped"


def test_errors_that_asyncio_reports_are_logged_without_their_message(capfd, monkeypatch):
    """Python would print them to standard error as they are: not JSON, and possibly with an id."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi", "asyncio"):
        for attribute in ("handlers", "propagate", "level"):
            logger = logging.getLogger(name)
            monkeypatch.setattr(logger, attribute, getattr(logger, attribute))
    log, events = ServerLog(), []
    log.event = lambda event, **facts: events.append((event, facts["error"]))
    log.take_over()
    logging.getLogger("asyncio").error("Exception in callback: secret", exc_info=KeyError("secret"))
    assert events == [("server fault", "KeyError")]
    assert "secret" not in capfd.readouterr().err


def test_a_log_without_ids_or_keys(saved, tmp_path):
    good = add_key(tmp_path / "keys.json", "shop", [Scope.RECOMMEND])
    with serving(saved / "one", keys=tmp_path / "keys.json") as server:
        requests = (
            ("/users/u38/recommendations?k=3", good, 200),
            ("/users/secret-user/recommendations", good, 200),
            ("/items/secret-item/similar?k=7", good, 404),
            ("/secret-path?secret-query", good, 404),
            ("/users/u38/recommendations", f"{good}-secret", 401),
            ("/metrics", good, 403),
        )
        for path, bearer, status in requests:
            assert server.get(path, authorization=f"Bearer {bearer}")[0] == status
        code, log = server.stop()
    assert code == 0
    events = [json.loads(line) for line in log.splitlines()]
    logged = [(event["route"], event["status"], event["key"]) for event in events if event["event"] == "request"]
    route = "/users/{user}/recommendations"
    known = [(route, 200), (route, 200), ("/items/{item}/similar", 404), ("none", 404)]
    assert logged == [*((*one, "shop") for one in known), ("none", 401, None), ("none", 403, None)]
    for word in ("secret", "u38", "k=", good.partition(".")[2], "127.0.0.1"):
        assert word not in log
