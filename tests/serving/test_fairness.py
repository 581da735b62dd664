"""One client may not stall the others: batches, bodies that are held back, similar items; and half-closed clients."""

import asyncio
import json
import socket

import httpx
import pytest

from pricdr.serving.keys import Scope, add_key
from pricdr.serving.snapshot import Snapshot
from tests.serving.processes import answer_of, serving
from tests.serving.running import run_in_thread

ONE = "/users/u0/recommendations"
BATCH = {"users": ["u0"] * 1000, "k": 2}
CLIENTS = 64


@pytest.fixture
def two_keys(client_of, tmp_path):
    """A client of a server with keys, and the headers of two of them."""
    file = tmp_path / "keys.json"
    headers = [{"authorization": f"Bearer {add_key(file, name, [Scope.RECOMMEND])}"} for name in ("greedy", "other")]
    return client_of(keys=file), *headers


def in_order(client, *requests):
    """Send requests at the same time; return the numbers and statuses of the responses, in the order they came."""
    responses = []

    async def ask(http, number, method, path, named):
        responses.append((number, (await http.request(method, path, **named)).status_code))

    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url="http://localhost") as http:
            await asyncio.gather(*(ask(http, number, *request) for number, request in enumerate(requests)))

    run_in_thread(run())
    return responses


def statuses(responses):
    return [status for _, status in sorted(responses)]


def test_batches_of_one_key_are_admitted_for_what_they_cost(two_keys):
    client, greedy, other = two_keys
    batches = [("POST", "/recommendations", {"json": BATCH, "headers": greedy})] * CLIENTS
    of_others = [
        ("GET", ONE, {"headers": other}),
        ("POST", "/recommendations", {"json": {"users": ["u0"], "k": 1}, "headers": other}),
    ]
    responses = in_order(client, *batches, *of_others)
    answered = statuses(responses)
    assert answered[:CLIENTS].count(200) == 2
    assert answered[:CLIENTS].count(503) == CLIENTS - 2
    assert answered[CLIENTS:] == [200, 200]
    whole = [place for place, (number, status) in enumerate(responses) if number < CLIENTS and status == 200]
    assert all(responses.index((number, 200)) < min(whole) for number in (CLIENTS, CLIENTS + 1))


def test_bodies_that_are_held_back_leave_room_for_other_keys(two_keys):
    client, greedy, other = two_keys
    text = json.dumps(BATCH).encode()

    async def run():
        begun, go_on = [], asyncio.Event()

        async def hold_back():
            yield text[:-1]
            begun.append(1)
            await go_on.wait()
            yield text[-1:]

        async with httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url="http://localhost") as http:
            headers = {**greedy, "content-type": "application/json"}
            held = [
                asyncio.ensure_future(http.post("/recommendations", content=hold_back(), headers=headers))
                for _ in range(CLIENTS)
            ]
            while len(begun) + sum(task.done() for task in held) < CLIENTS:
                await asyncio.sleep(0)
            of_other = [
                await http.post("/recommendations", json={"users": ["u0"]}, headers=other),
                await http.get(ONE, headers=other),
            ]
            go_on.set()
            of_greedy = await asyncio.gather(*held)
        return [[response.status_code for response in responses] for responses in (of_other, of_greedy)]

    of_other, of_greedy = run_in_thread(run())
    assert of_other == [200, 200]
    assert sorted(of_greedy) == [200] * 2 + [503] * (CLIENTS - 2)


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "does not read"])
def test_a_batch_costs_nothing_more_once_its_client(client, monkeypatch, leaves):
    """One that leaves, and one that reads nothing: only the pieces that it took are scored, and are in memory."""
    scored, sent, answers = [], [], Snapshot.answers
    monkeypatch.setattr(Snapshot, "answers", lambda self, queries: scored.extend(queries) or answers(self, queries))
    body = json.dumps({**BATCH, "k": 50}).encode()

    async def run():
        received = [{"type": "http.request", "body": body, "more_body": False}]
        first_piece = asyncio.Event()

        async def receive():
            if received:
                return received.pop()
            await (first_piece.wait() if leaves else asyncio.sleep(30))
            return {"type": "http.disconnect"}

        async def send(message):
            if message.get("body"):
                sent.append(len(message["body"]))
                first_piece.set()
                if not leaves:
                    await asyncio.sleep(30)

        headers = [(b"host", b"localhost"), (b"content-length", b"%d" % len(body))]
        headers += [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/recommendations", "headers": headers}
        scope |= {"query_string": b"", "raw_path": b"/recommendations", "asgi": {"spec_version": "2.3"}}
        request = asyncio.ensure_future(client.app(scope, receive, send))
        if not leaves:
            await first_piece.wait()
            for _ in range(100):
                await asyncio.sleep(0)
            request.cancel()
        await asyncio.gather(request, return_exceptions=True)

    run_in_thread(run())
    assert 0 < len(scored) <= 200
    assert max(sent) < 200_000


def test_a_crowd_that_asks_for_similar_items_does_not_keep_users_waiting(client):
    responses = in_order(client, *[("GET", "/items/i1/similar", {})] * CLIENTS, ("GET", ONE, {}))
    assert set(statuses(responses)) == {200}
    assert responses.index((CLIENTS, 200)) <= 32  # not behind more than a round of theirs


@pytest.fixture(scope="module")
def server(saved):
    with serving(saved / "one") as running:
        yield running


def test_half_closed_clients_are_answered(server):
    ask = b"GET /users/u38/recommendations?k=1 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    text = json.dumps({"users": ["u38"] * 100}).encode()
    batch = b"POST /recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    batch += b"content-length: %d\r\n\r\n%b" % (len(text), text)
    with server.crowd(50) as clients:
        for client in clients:
            client.sendall(ask)
            client.shutdown(socket.SHUT_WR)
        assert {answer_of(client)[0] for client in clients} == {200}
    for sent, count in ((batch, 1), (ask * 20, 20), (ask[:-2], 0), (batch[:-1], 0)):
        with server.connect() as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            received = b""
            while block := client.recv(65536):
                received += block
        assert received.count(b"HTTP/1.1 200 OK") == count
