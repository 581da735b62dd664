"""Quotas, the worker, the watcher and the log: bounded, in order, and robust against slow or failing parts."""

import asyncio
import json
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from pricdr.serving.errors import Refusal
from pricdr.serving.log import ServerLog
from pricdr.serving.models import watch
from pricdr.serving.snapshot import Query, Snapshot
from pricdr.serving.worker import Quota, Worker
from tests.serving.conftest import small_model
from tests.serving.running import run_in_thread


class Slow:
    """A snapshot whose answers wait until ``go`` is set, and are measured as slow."""

    def __init__(self):
        self.go = threading.Event()

    def answers(self, queries):
        self.go.wait(10)
        return list(queries)


def test_a_lane_takes_no_more_than_can_be_answered_in_time():
    """At worst, four wait beside the one that is being scored."""

    async def taken(seconds_per_answer):
        worker, slow = Worker(), Slow()
        worker.users.score = Slow.answers
        worker.users.seconds_per_answer = seconds_per_answer
        first = asyncio.ensure_future(worker.answer(slow, Query("u1", 1)))
        while worker.waiting or first not in asyncio.all_tasks() or not worker._rounds:
            await asyncio.sleep(0)
        others = [asyncio.ensure_future(worker.answer(slow, Query("u1", 1))) for _ in range(100)]
        while worker.waiting + sum(other.done() for other in others) < 100:
            await asyncio.sleep(0)
        waiting = worker.waiting
        slow.go.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        worker.close()
        refused = [result for result in results if isinstance(result, Refusal)]
        assert {refusal.status for refusal in refused} <= {503}
        assert len(refused) == 100 - waiting
        return waiting

    assert [run_in_thread(taken(seconds)) for seconds in (1e-6, 5e-3, 10.0)] == [100, 50, 4]


def test_a_quota_bounds_each_caller_and_all_together():
    quota = Quota(3, 5)
    with ExitStack() as held:
        held.enter_context(quota.take("a", 3))
        with pytest.raises(Refusal, match="busy"):
            held.enter_context(quota.take("a"))
        held.enter_context(quota.take("b", 2))
        with pytest.raises(Refusal, match="busy"):
            held.enter_context(quota.take("c"))
    assert not quota.used
    with quota.take("c", 3):
        assert quota.used.total() == 3


def test_a_cancelled_query_is_not_scored():
    async def run():
        worker, slow, scored = Worker(), Slow(), []
        worker.users.score = lambda snapshot, queries: scored.extend(queries) or snapshot.answers(queries)
        asking = [asyncio.ensure_future(worker.answer(slow, Query(f"u{at}", 1))) for at in range(5)]
        while worker._rounds is None:
            await asyncio.sleep(0)
        for task in asking[1:4]:
            task.cancel()
        slow.go.set()
        results = await asyncio.gather(*asking, return_exceptions=True)
        worker.close()
        assert [query.id for query in scored] == ["u0", "u4"]
        return [isinstance(result, Query) for result in results]

    assert run_in_thread(run()) == [True, False, False, False, True]


def test_a_check_that_fails_is_repeated():
    events, repeated = [], threading.Event()

    def failing():
        if events:
            repeated.set()
        raise KeyError("an id")

    closed = threading.Event()
    watch(failing, lambda event, **facts: events.append((event, facts["error"])), closed, interval=0.01)
    assert repeated.wait(5)
    closed.set()
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

    closed = threading.Event()
    for check in (load_model, check_keys):
        watch(check, lambda event, **facts: None, closed, interval=0.01)
    assert checked.wait(5)
    finish.set()
    closed.set()


def test_queries_of_all_sizes_are_answered_in_their_order():
    snapshot = Snapshot.of(small_model())

    async def run():
        worker = Worker()
        batches = [[Query(f"u{at % 50}", 3)] * (1 + at % 32) for at in range(40)]
        results = await asyncio.gather(*(worker.batch(snapshot, queries) for queries in batches))
        for queries, answers in zip(batches, results, strict=True):
            assert [answer.user for answer in answers] == [query.id for query in queries]
            assert answers[0].items[0].item == snapshot.recommend(*queries[0]).items[0].item
        worker.close()

    run_in_thread(run())


def test_an_error_reaches_only_the_queries_that_caused_it():
    good, bad = (replace(Snapshot.of(small_model()), fingerprint=name) for name in ("good", "bad"))

    async def run():
        worker = Worker()
        worker.users.score = lambda snapshot, queries: (
            snapshot.answers(queries) if snapshot.fingerprint == "good" else 1 / 0
        )
        results = await asyncio.gather(
            *(worker.answer(snapshot, Query("u1", 1)) for snapshot in (good, bad, good)), return_exceptions=True
        )
        worker.close()
        return results

    first, second, third = run_in_thread(run())
    assert first == third
    assert isinstance(second, ZeroDivisionError)


def test_no_lane_waits_for_more_than_a_round_of_another():
    """However many queries wait there."""
    snapshot, order = Snapshot.of(small_model()), []

    async def run():
        worker = Worker()

        async def ask(kind, answer):
            await answer
            order.append(kind)

        crowd = [ask("similar", worker.similar(snapshot, Query("i1", 3))) for _ in range(250)]
        crowd += [ask("batch", worker.batch(snapshot, [Query("u1", 3)] * 32)) for _ in range(10)]
        asking = [asyncio.ensure_future(one) for one in crowd]
        while not order:
            await asyncio.sleep(0)
        before = len(order)
        await ask("user", worker.answer(snapshot, Query("u1", 3)))
        place = order.index("user") - before
        await asyncio.gather(*asking)
        worker.close()
        return place

    assert run_in_thread(run()) <= 64  # at most the round that was under way, and one that was chosen before


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
        log.event("request", at=at)
    stream.go.set()
    log.close()
    events = [json.loads(line) for line in stream.text.splitlines()]
    dropped = [event["count"] for event in events if event["event"] == "lines lost"]
    assert sum(dropped) + len(events) - len(dropped) == 25_000
    assert sum(dropped) >= 5_000  # the rest was taken at once, or had room in the queue


def test_a_closed_stream_ends_only_the_log(tmp_path):
    file = (tmp_path / "log").open("w")
    file.close()
    log = ServerLog(file, as_json)
    for _ in range(10):
        log.event("anything")
    log.close()
