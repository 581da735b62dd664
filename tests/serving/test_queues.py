"""The queue before the answers, the worker, and the log: bounded, in order, and robust against whoever waits."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest

from pricdr.serving.admission import Admission
from pricdr.serving.log import EventLines
from pricdr.serving.snapshot import Snapshot, Wanted
from pricdr.serving.watching import Watcher
from pricdr.serving.worker import Worker
from tests.serving.conftest import small_model
from tests.serving.running import run_in_thread


def admission(each, longest_wait=0.05):
    worker = Worker()
    worker.seconds_each = each
    return Admission(longest_wait, worker)


def test_as_many_are_let_in_as_are_answered_in_time():
    async def let_in(each):
        queue = admission(each)
        entering = [asyncio.ensure_future(queue.enter()) for _ in range(100)]
        await asyncio.sleep(0)  # no longer: on a busy machine they would give up meanwhile
        count = queue.in_flight, queue.waiting
        for one in entering:
            one.cancel()
        return count

    assert run_in_thread(let_in(each=1e-6)) == (64, 36)
    assert run_in_thread(let_in(each=5e-3)) == (10, 90)
    assert run_in_thread(let_in(each=10.0)) == (4, 96)


def test_first_come_first_served_until_time_is_over():
    async def run():
        queue, order = admission(each=10.0), []

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


def test_clients_that_hang_up_do_not_make_the_others_wait_for_ever():
    """Requests outlive their connections, so nothing bounds how many are about to be told."""

    async def run():
        queue = admission(each=10.0, longest_wait=1e-3)
        for _ in range(4):
            await queue.enter()
        queue.refusing = 1_000_000
        async with asyncio.timeout(10):
            return await queue.enter()

    assert asyncio.run(run()) is None


def test_a_look_that_fails_is_made_again():
    heard, looked = [], threading.Event()

    def failing():
        if heard:
            looked.set()
        raise KeyError("an id")

    watcher = Watcher([failing], lambda event, **facts: heard.append((event, facts["error"])), every=0.01)
    assert looked.wait(5)
    watcher.close()
    assert heard[0] == ("fault", "KeyError")


def test_a_place_whose_owner_is_gone_goes_to_the_next():
    async def run():
        queue = admission(each=10.0, longest_wait=5)
        for _ in range(4):
            await queue.enter()
        first, second = (asyncio.ensure_future(queue.enter()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        queue.leave()
        assert await second >= 0
        third = asyncio.ensure_future(queue.enter())
        await asyncio.sleep(0)
        queue.leave()  # third is let in, and cancelled before it notices
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        assert queue.in_flight == 3

    run_in_thread(run())


@pytest.mark.parametrize("each", [1e-9, 10.0], ids=["in the loop", "in the thread"])
def test_questions_are_answered_wherever_they_are_scored(each):
    snapshot = replace(Snapshot.of(small_model()), fingerprint="")

    async def run():
        worker = Worker()
        worker.seconds_each = each
        asked = [[Wanted(f"u{at % 50}", 3)] * (1 + at % 70) for at in range(20)]
        answers = await asyncio.gather(*(worker.answers(snapshot, wanted) for wanted in asked))
        worker.close()
        for wanted, found in zip(asked, answers, strict=True):
            assert [one.user for one in found] == [one.user for one in wanted]
            assert found[0].items[0].item == snapshot.recommend(*wanted[0]).items[0].item
        assert await worker.answers(snapshot, [Wanted("u1", 1)])  # closing is no end for good
        worker.close()

    run_in_thread(run())


def test_a_fault_reaches_those_who_asked_and_nobody_else(monkeypatch):
    good, bad = (replace(Snapshot.of(small_model()), fingerprint=name) for name in ("good", "bad"))
    answers = Snapshot.answers
    monkeypatch.setattr(
        Snapshot, "answers", lambda self, wanted: answers(self, wanted) if self.fingerprint == "good" else 1 / 0
    )

    async def run():
        worker = Worker()
        found = await asyncio.gather(
            *(worker.answers(snapshot, [Wanted("u1", 1)]) for snapshot in (good, bad, good)), return_exceptions=True
        )
        worker.close()
        return found

    first, second, third = run_in_thread(run())
    assert first == third
    assert isinstance(second, ZeroDivisionError)


class SlowStream:
    """A reader of the log that does not read until it is told to."""

    def __init__(self):
        self.text, self.go = "", threading.Event()

    def write(self, text):
        self.go.wait(10)
        self.text += text

    def flush(self):
        pass


def as_json(event, **facts):
    return json.dumps({"event": event, **facts})


def test_a_log_that_nobody_reads_holds_nobody_up():
    stream = SlowStream()
    log = EventLines(stream, as_json)
    for at in range(25_000):
        log.request("GET", "/health", 200, at / 1e3, None)
    stream.go.set()
    log.close()
    events = [json.loads(line) for line in stream.text.splitlines()]
    lost = [event["count"] for event in events if event["event"] == "lines lost"]
    assert sum(lost) + len(events) - len(lost) == 25_000
    assert sum(lost) >= 10_000


def test_methods_of_a_clients_choosing_are_not_logged():
    stream = SlowStream()
    stream.go.set()
    log = EventLines(stream, as_json)
    log.request("SECRET-WORD", "/health", 405, 0.0, None)
    log.close()
    assert "SECRET" not in stream.text
    assert '"other"' in stream.text


def test_a_stream_that_is_closed_ends_the_log_and_nothing_else(tmp_path):
    file = (tmp_path / "log").open("w")
    file.close()
    log = EventLines(file, as_json)
    for _ in range(10):
        log.event("anything")
    log.close()
