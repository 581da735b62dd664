"""The worker, quotas, watchers, the log: no client stalls the others, and no slow or failing part the whole."""

import asyncio
import io
import json
import threading
from contextlib import ExitStack

import httpx
import pytest

from pricdr.serving.keys import Scope, add_key
from pricdr.serving.log import ServerLog
from pricdr.serving.server import repeat
from pricdr.serving.snapshot import ItemsQuery, Snapshot
from pricdr.serving.worker import Busy, Quota, Worker
from tests.models.test_recommending import whole_model
from tests.serving.conftest import answer_of, run_in_thread, small_model

ONE = "/users/u0/recommendations"
BATCH = {"users": ["u0"] * 1000, "k": 2}
CLIENTS = 64


class Slow:
    """A snapshot whose answers wait until ``go`` is set, and are measured as slow."""

    def __init__(self):
        self.go = threading.Event()

    def answers(self, queries):
        self.go.wait(10)
        return list(queries)


def asked(worker, snapshot, name="u1"):
    """Ask for one user's answer in a task of its own."""
    return asyncio.ensure_future(worker.answers(worker.users, snapshot, [ItemsQuery(name, 1)]))


def test_a_lane_takes_no_more_than_can_be_answered_in_time():
    """At worst, four wait beside the one that is being scored."""

    async def taken(seconds_per_answer):
        worker, slow = Worker(), Slow()
        worker.users.score = Slow.answers
        worker.users.seconds_per_answer = seconds_per_answer
        first = asked(worker, slow)
        while worker.waiting or first not in asyncio.all_tasks() or not worker._scoring:
            await asyncio.sleep(0)
        others = [asked(worker, slow) for _ in range(100)]
        while worker.waiting + sum(other.done() for other in others) < 100:
            await asyncio.sleep(0)
        waiting = worker.waiting
        slow.go.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        assert sum(isinstance(result, Busy) for result in results) == 100 - waiting
        return waiting

    assert [run_in_thread(taken(seconds)) for seconds in (1e-6, 5e-3, 10.0)] == [100, 50, 4]


def test_a_quota_bounds_each_caller_and_all_together():
    quota = Quota(3, 5)
    with ExitStack() as held:
        for caller, amount, fits in (("a", 3, True), ("a", 1, False), ("b", 2, True), ("c", 1, False)):
            if fits:
                held.enter_context(quota.take(caller, amount))
            else:
                with pytest.raises(Busy):
                    held.enter_context(quota.take(caller, amount))
    assert not quota.used
    with quota.take("c", 3):
        assert quota.used.total() == 3


def test_who_leaves_does_not_take_the_answers_of_others_along():
    async def run():
        worker, slow = Worker(), Slow()
        worker.users.score = Slow.answers
        asking = [asked(worker, slow, f"u{at}") for at in range(5)]
        while worker._scoring is None:
            await asyncio.sleep(0)
        for task in asking[1:4]:
            task.cancel()
        slow.go.set()
        results = await asyncio.gather(*asking, return_exceptions=True)
        assert [results[0][0].id, results[4][0].id] == ["u0", "u4"]
        return [isinstance(result, list) for result in results]

    assert run_in_thread(run()) == [True, False, False, False, True]


def test_an_error_reaches_only_the_queries_that_caused_it():
    good, bad = (Snapshot(small_model(), fingerprint=name) for name in ("good", "bad"))

    async def run():
        worker = Worker()
        worker.users.score = lambda snapshot, queries: (
            snapshot.answers(queries) if snapshot.fingerprint == "good" else 1 / 0
        )
        return await asyncio.gather(
            *(asked(worker, snapshot) for snapshot in (good, bad, good)), return_exceptions=True
        )

    first, second, third = run_in_thread(run())
    assert first == third
    assert isinstance(second, ZeroDivisionError)


def test_queries_of_all_sizes_are_answered_in_their_order():
    snapshot = Snapshot(whole_model(5, 12, 40))  # of whole numbers: every order of additions gives the same score
    users = (*snapshot.model.users, "stranger")

    async def run():
        worker = Worker()
        asked = [[ItemsQuery(users[at % 13], 1 + at % 9)] * (1 + at % 32) for at in range(40)]
        return asked, await asyncio.gather(*(worker.answers(worker.batches, snapshot, queries) for queries in asked))

    for queries, answers in zip(*run_in_thread(run()), strict=True):
        assert answers == [answer_of(snapshot, *query) for query in queries]


def test_no_lane_waits_for_more_than_a_round_of_each_other():
    """However many queries wait there."""
    snapshot, scored = Snapshot(small_model()), []

    async def run():
        worker = Worker()
        for kind in ("users", "batches", "similar_items"):
            lane = getattr(worker, kind)
            lane.score = lambda snapshot, queries, kind=kind: scored.append(kind) or [None] * len(queries)
        crowd = [worker.answers(worker.similar_items, snapshot, [ItemsQuery("i1", 3)]) for _ in range(250)]
        crowd += [worker.answers(worker.batches, snapshot, [ItemsQuery("u1", 3)] * 32) for _ in range(10)]
        asking = [asyncio.ensure_future(one) for one in crowd]
        while not scored:
            await asyncio.sleep(0)
        before = len(scored)
        await worker.answers(worker.users, snapshot, [ItemsQuery("u1", 3)])
        place = scored.index("users") - before
        await asyncio.gather(*asking)
        return place

    assert run_in_thread(run()) <= 2


@pytest.fixture
def two_keys(client_of, tmp_path):
    """A client of a server with keys, and the headers of two of them."""
    file = tmp_path / "keys.json"
    headers = [{"authorization": f"Bearer {add_key(file, name, [Scope.RECOMMEND])}"} for name in ("greedy", "other")]
    return client_of(keys=file), *headers


def http_client(client):
    return httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url="http://localhost")


def test_batches_of_one_key_are_admitted_for_what_they_cost(two_keys):
    client, greedy, other = two_keys
    requests = [("POST", "/recommendations", {"json": BATCH, "headers": greedy})] * CLIENTS
    requests += [("GET", ONE, {"headers": other})]
    requests += [("POST", "/recommendations", {"json": {"users": ["u0"], "k": 1}, "headers": other})]
    responses = []  # in the order they come

    async def ask(http, number):
        method, path, named = requests[number]
        responses.append((number, (await http.request(method, path, **named)).status_code))

    async def run():
        async with http_client(client) as http:
            await asyncio.gather(*(ask(http, number) for number in range(len(requests))))

    run_in_thread(run())
    answered = [status for _, status in sorted(responses)]
    assert sorted(answered[:CLIENTS]) == [200] * 2 + [503] * (CLIENTS - 2)
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

        async with http_client(client) as http:
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
    # Sixteen bodies of one key may be arriving at once; the rest is refused before it has arrived.
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
    assert "pricdr_batch_users 0.0" in client.get("/metrics").text


def test_a_check_that_fails_is_repeated_and_a_slow_one_delays_no_other():
    """Loading a model may take minutes; a removed key must not stay valid that long."""
    repeated, loading, checked, finish = (threading.Event() for _ in range(4))
    log, faults = ServerLog(), []
    log.fault = lambda error: faults.append(type(error))

    def fail():
        if faults:
            repeated.set()
        raise KeyError("an id")

    def load_model():
        loading.set()
        finish.wait(10)

    def check_keys():
        if loading.is_set():
            checked.set()

    closed = [repeat(check, 0.01, log) for check in (fail, load_model, check_keys)]
    assert repeated.wait(5)
    assert checked.wait(5)
    assert faults[0] is KeyError
    for event in (finish, *closed):
        event.set()


def test_a_log_that_is_not_read_blocks_nothing():
    stream, go = io.StringIO(), threading.Event()
    stream.write = lambda text: go.wait(10) and io.StringIO.write(stream, text)
    log = ServerLog(stream, lambda event, **facts: json.dumps({"event": event, **facts}))
    for at in range(25_000):
        log.event("request", at=at)
    go.set()
    log.close()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    dropped = [event["count"] for event in events if event["event"] == "lines lost"]
    assert sum(dropped) + len(events) - len(dropped) == 25_000
    assert sum(dropped) >= 5_000  # the rest was taken at once, or had room in the queue
    closed = ServerLog(stream)
    stream.close()  # ends only the log
    for _ in range(10):
        closed.event("anything")
    closed.close()
