"""Admission, the worker, the watcher and the log: bounded, in order, and robust against slow or failing parts."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from pricdr.serving.admission import Admission
from pricdr.serving.log import ServerLog
from pricdr.serving.snapshot import Snapshot, UserQuery
from pricdr.serving.watching import Watcher
from pricdr.serving.worker import Lane, Worker
from tests.serving.conftest import small_model
from tests.serving.running import run_in_thread


def admission(seconds_per_answer, max_wait=0.05):
    return Admission(max_wait, Lane(None, seconds_per_answer=seconds_per_answer))


def test_as_many_are_admitted_as_can_be_answered_in_time():
    async def admitted(seconds_per_answer):
        queue = admission(seconds_per_answer)
        entering = [asyncio.ensure_future(queue.enter()) for _ in range(100)]
        await asyncio.sleep(0)  # not longer: on a busy machine they would time out meanwhile
        count = queue.in_flight, queue.waiting
        for task in entering:
            task.cancel()
        return count

    assert run_in_thread(admitted(1e-6)) == (64, 36)
    assert run_in_thread(admitted(5e-3)) == (10, 90)
    assert run_in_thread(admitted(10.0)) == (4, 96)


def test_first_come_first_served_until_the_wait_is_over():
    async def run():
        queue, order = admission(10.0), []

        async def ask(number):
            if await queue.enter() is None:
                order.append(-number)
            else:
                order.append(number)

        waiting = [asyncio.ensure_future(ask(number)) for number in range(1, 9)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        queue.leave()
        queue.leave()
        await asyncio.gather(*waiting)
        assert (queue.in_flight, queue.waiting, queue.refusing) == (4, 0, 0)
        return order

    assert run_in_thread(run()) == [1, 2, 3, 4, 5, 6, -7, -8]


def test_clients_that_hang_up_do_not_delay_refusals_for_ever():
    """Requests outlive their connections, so nothing bounds how many are being refused."""

    async def run():
        queue = admission(10.0)
        queue.refusing = 1_000_000
        async with asyncio.timeout(10):
            await queue.pause()

    run_in_thread(run())


def test_a_check_that_fails_is_repeated():
    events, repeated = [], threading.Event()

    def failing():
        if events:
            repeated.set()
        raise KeyError("an id")

    watcher = Watcher([failing], lambda event, **facts: events.append((event, facts["error"])), interval=0.01)
    assert repeated.wait(5)
    watcher.close()
    assert events[0] == ("fault", "KeyError")


def test_a_slow_check_does_not_delay_another():
    """Loading a model may take minutes; a removed key must not stay valid that long."""
    loading, checked, finish = threading.Event(), threading.Event(), threading.Event()

    def load_model():
        loading.set()
        finish.wait(10)

    def check_keys():
        if loading.is_set():
            checked.set()

    watcher = Watcher([load_model, check_keys], lambda event, **facts: None, interval=0.01)
    assert checked.wait(5)
    finish.set()
    watcher.close()


def test_a_cancelled_request_frees_its_slot():
    async def run():
        queue = admission(10.0, max_wait=5)
        for _ in range(4):
            await queue.enter()
        first, second = (asyncio.ensure_future(queue.enter()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        queue.leave()
        assert await second >= 0
        third = asyncio.ensure_future(queue.enter())
        await asyncio.sleep(0)
        queue.leave()  # third is admitted, and cancelled before it runs
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        assert queue.in_flight == 3

    run_in_thread(run())


@pytest.mark.parametrize("seconds_per_answer", [1e-9, 10.0], ids=["in the loop", "in the thread"])
def test_queries_are_answered_wherever_they_are_scored(seconds_per_answer):
    snapshot = replace(Snapshot.of(small_model()), fingerprint="")

    async def run():
        worker = Worker()
        worker.batches.seconds_per_answer = seconds_per_answer
        batches = [[UserQuery(f"u{at % 50}", 3)] * (1 + at % 32) for at in range(40)]
        results = await asyncio.gather(*(worker.batch(snapshot, queries) for queries in batches))
        worker.close()
        for queries, answers in zip(batches, results, strict=True):
            assert [answer.user for answer in answers] == [query.user for query in queries]
            assert answers[0].items[0].item == snapshot.recommend(*queries[0]).items[0].item
        assert await worker.answer(snapshot, UserQuery("u1", 1))  # a closed worker starts again
        worker.close()

    run_in_thread(run())


def test_an_error_reaches_only_the_queries_that_caused_it(monkeypatch):
    good, bad = (replace(Snapshot.of(small_model()), fingerprint=name) for name in ("good", "bad"))
    answers = Snapshot.answers
    monkeypatch.setattr(
        Snapshot, "answers", lambda self, queries: answers(self, queries) if self.fingerprint == "good" else 1 / 0
    )

    async def run():
        worker = Worker()
        results = await asyncio.gather(
            *(worker.answer(snapshot, UserQuery("u1", 1)) for snapshot in (good, bad, good)), return_exceptions=True
        )
        worker.close()
        return results

    first, second, third = run_in_thread(run())
    assert first == third
    assert isinstance(second, ZeroDivisionError)


def test_no_lane_waits_for_more_than_a_round_of_another():
    """However many queries wait there; each round costs the same here."""
    snapshot, order = replace(Snapshot.of(small_model()), fingerprint=""), []

    async def run():
        worker = Worker()

        async def ask(kind, answer):
            await answer
            order.append(kind)

        crowd = [ask("similar", worker.similar(snapshot, "i1", 3)) for _ in range(320)]
        crowd += [ask("batch", worker.batch(snapshot, [UserQuery("u1", 3)] * 32)) for _ in range(10)]
        asking = [asyncio.ensure_future(one) for one in crowd]
        while not order:
            await asyncio.sleep(0)
        before = len(order)
        await ask("user", worker.answer(snapshot, UserQuery("u1", 3)))
        place = order.index("user") - before
        await asyncio.gather(*asking)
        worker.close()
        return place

    assert run_in_thread(run()) <= 33


class SlowStream:
    """A stream that blocks until ``go`` is set."""

    def __init__(self):
        self.text, self.go = "", threading.Event()

    def write(self, text):
        self.go.wait(10)
        self.text += text

    def flush(self):
        pass


def as_json(event, **facts):
    return json.dumps({"event": event, **facts})


def test_a_log_that_is_not_read_blocks_nothing():
    stream = SlowStream()
    log = ServerLog(stream, as_json)
    for at in range(25_000):
        log.request("GET", "/health", 200, at / 1e3, None)
    stream.go.set()
    log.close()
    events = [json.loads(line) for line in stream.text.splitlines()]
    dropped = [event["count"] for event in events if event["event"] == "lines lost"]
    assert sum(dropped) + len(events) - len(dropped) == 25_000
    assert sum(dropped) >= 5_000  # the rest was taken at once, or had room in the queue


def test_unknown_methods_are_not_logged():
    stream = SlowStream()
    stream.go.set()
    log = ServerLog(stream, as_json)
    log.request("SECRET-WORD", "/health", 405, 0.0, None)
    log.close()
    assert "SECRET" not in stream.text
    assert '"other"' in stream.text


def test_a_closed_stream_ends_only_the_log(tmp_path):
    file = (tmp_path / "log").open("w")
    file.close()
    log = ServerLog(file, as_json)
    for _ in range(10):
        log.event("anything")
    log.close()
