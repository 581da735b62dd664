"""Unattended runs of ``pricdr publish``: JSON lines, one run at a time, and what a killed run leaves behind."""

import fcntl
import json
import os
import signal
from collections import namedtuple
from pathlib import Path

import pytest

from pricdr import Ledger, progress
from pricdr.cli.run_lock import only_run, require_only_writer
from pricdr.errors import BusyError, EngineError, OutputError
from tests.data.kept import keep
from tests.settings import config

NOT_FOR_A_LOG = ("alice", "bob", "dune", "emma")


def events(text):
    """Return the lines as JSON, each with its time, process and event."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "process", "event"} <= set(line) for line in lines)
    return lines


def named(text):
    return [line["event"] for line in events(text)]


# --log-json


def test_standard_error_has_one_line_of_json_for_each_event_and_nothing_else(ratings, ledger, publish):
    outcome = publish(ratings, "--log-json", "--ledger", ledger)
    assert (outcome.code, outcome.out) == (0, "")
    assert named(outcome.err) == ["began", "made", "published", "finished"]
    made = events(outcome.err)[1]
    assert (made["epsilon"], made["ledger_release"], made["dim"]) == (4.0, 1, 8)


def test_the_lines_say_nothing_that_was_read_off_the_ratings(here, publish):
    """The same command, once over some ratings and once over others: only times, hashes and paths may differ."""
    users = here / "users.txt"
    users.write_text("alice\nbob\n")
    (here / "few.csv").write_text("user,item,rating\nalice,dune,5\n")
    (here / "many.csv").write_text(
        "user,item,rating\n" + "".join(f"{user},i{item},9\n" for user in ("alice", "zoe") for item in range(50))
    )
    options = ("--users", users, "--log-json", "--values", "--rating-bound", 5, "--rating-step", 1)
    outcomes = [publish(here / f"{name}.csv", *options, out=name) for name in ("few", "many")]
    assert [outcome.code for outcome in outcomes] == [0, 0]
    varies = {"time", "process", "certificate_sha256", "ratings", "release"}
    few, many = (
        [{key: value for key, value in line.items() if key not in varies} for line in events(outcome.err)]
        for outcome in outcomes
    )
    assert few == many
    assert not [word for word in NOT_FOR_A_LOG if word in outcomes[0].err]


def test_what_a_cluster_says_of_a_row_is_not_quoted_and_its_code_leaves_the_spend_open(ratings, publish, monkeypatch):
    def fail(*_, **__):
        cause = "a task failed 4 times, the last time because 'dune' is not a number"
        raise EngineError("Spark could not compute", cause)

    monkeypatch.setattr("pricdr.publish", fail)
    outcome = publish(ratings, "--log-json", *config(log="log.jsonl"))
    failed = events(outcome.err)[-1]
    assert (outcome.code, failed["error"], failed["exit_code"]) == (2, "EngineError", 2)
    assert "dune" not in outcome.err + Path("log.jsonl").read_text()
    assert "a task failed 4 times" in publish(ratings, out="again").err


def test_how_many_rows_a_full_disk_was_to_sort_is_not_in_the_log(ratings, publish, monkeypatch):
    usage = namedtuple("usage", "total used free")
    keep(monkeypatch, "on disk")
    monkeypatch.setattr("pricdr.data.workspace.shutil.disk_usage", lambda _: usage(1, 1, 60))
    outcome = publish(ratings)
    assert outcome.code == 2
    assert "sorting" in outcome.err
    outcome = publish(ratings, "--log-json", *config(log="log.jsonl"))
    for lines in (outcome.err, Path("log.jsonl").read_text()):
        failed = events(lines)[-1]
        assert (failed["event"], failed["error"], failed["exit_code"]) == ("failed", "DiskSpaceError", 2)
        assert failed["message"] == "the disk has too little room: choose another one with temp-dir in --config"


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("pricdr.data.blocks.InMemory.rows", EngineError("Spark could not", "alice")),
        ("pricdr.data.blocks.InMemory.rows", OutputError("No space left on device")),
        ("pricdr.release.folder.Release.write_into", OSError(28, "No space left")),
        ("pricdr.release.folder.Release.write_into", KeyboardInterrupt()),
        ("pricdr.release.folder.Release.write_into", MemoryError()),
    ],
)
def test_what_fails_after_the_spend_is_spent_and_says_so(ratings, ledger, publish, monkeypatch, place, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(place, fail)
    outcome = publish(ratings, "--ledger", ledger, "--log-json", *config(log="log.jsonl"))
    assert outcome.code != 0
    (line,) = Ledger(ledger).read().spends
    spent = {"ledger_release": 1, "ledger_line": line.hash, "mu": line.mu, "promise": line.promise}
    for lines in (outcome.err, Path("log.jsonl").read_text()):
        failed = events(lines)[-1]
        assert (failed["event"], failed["spent"]) == ("failed", spent)
        assert "alice" not in lines
    assert "to publish again is to pay again" in str(error) or "blocks" not in place
    refused = publish("nowhere.csv", "--ledger", ledger, "--log-json")
    assert "spent" not in events(refused.err)[-1]


def test_what_holds_no_ratings_is_told_in_full(ratings, ledger, publish, pricdr):
    spent = publish(ratings, "--log-json", "--ledger", ledger, "--epsilon", 9)
    assert (spent.code, events(spent.err)[-1]["error"]) == (1, "BudgetError")
    assert "refuses: spent so far" in events(spent.err)[-1]["message"]
    ledger.write_bytes(ledger.read_bytes().replace(b'"epsilon":8.0', b'"epsilon":9.0'))
    changed = publish(ratings, "--log-json", "--ledger", ledger)
    assert "its hash does not match" in events(changed.err)[-1]["message"]
    usage = pricdr("publish", ratings, "--log-json", "--epsilon", "four")
    (failed,) = events(usage.err)
    assert (usage.code, failed["exit_code"], "four" in failed["message"]) == (2, 2, True)


def test_a_log_file_and_the_lines_hold_the_same_events(here, ratings, publish):
    first, second = (publish(ratings, "--log-json", *config(log=here / "log.jsonl")) for _ in range(2))
    assert (first.code, second.code) == (0, 2)
    assert (here / "log.jsonl").read_text() == first.err + second.err
    assert named(second.err) == ["began", "failed"]


def test_progress_is_a_share_and_no_count(ratings, publish, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.001)
    outcome = publish(ratings, "--log-json")
    reports = [line for line in events(outcome.err) if line["event"] == "progress"]
    assert reports
    assert all(set(line) == {"time", "process", "event", "what", "share", "seconds"} for line in reports)


def test_a_run_that_is_told_to_end_says_so(here, ratings, start, until):
    os.mkfifo(here / "users.txt")
    options = ("--epsilon", 1, "--delta", 1e-6, "--out", "o", "--users", "users.txt")
    child = start("publish", ratings, *options, "--log-json")
    until(lambda: any(here.glob(".o.partial-*")), child)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 128 + signal.SIGTERM
    assert events(err)[-1]["exit_code"] == 128 + signal.SIGTERM
    assert sorted(path.name for path in here.iterdir()) == ["ratings.csv", "users.txt"]


# One run at a time


@pytest.mark.parametrize("shared", ["ledger", "output"])
def test_a_second_run_ends_at_once_with_its_own_code(here, ratings, ledger, start, until, pricdr, shared):
    os.mkfifo(here / "users.txt")  # a list that never comes: the first run waits for it
    options = ("--epsilon", 1, "--delta", 1e-6)
    first = start("publish", ratings, *options, "--out", "first", "--users", "users.txt", "--ledger", ledger)
    lock = here / ".budget.jsonl.lock"
    until(lambda: lock.exists() and lock.read_text(), first)
    beside = ("--out", "second", "--ledger", ledger) if shared == "ledger" else ("--out", "first")
    second = pricdr("publish", ratings, *options, *beside)
    assert (second.code, second.err.count("\n")) == (75, 1)
    assert f"in use by another run (process {first.pid}): nothing was spent" in second.err
    other = pricdr("publish", ratings, *options, "--out", "other")
    assert other.code == 0, other.err
    first.kill()
    first.wait()
    assert pricdr("publish", ratings, *options, "--out", "first", "--ledger", ledger).code == 0
    assert not list(here.glob(".*"))


def test_the_name_of_a_ledger_does_not_matter(here, ledger):
    (here / "link.jsonl").symlink_to(ledger)
    with only_run(ledger), pytest.raises(BusyError), only_run(here / "link.jsonl"):
        pass


def test_a_lock_that_was_just_removed_is_not_taken_for_held(here, ledger, monkeypatch):
    """A run that opens the file right before its holder removes it gets the lock of a file without a name."""
    real, seen, lock = fcntl.flock, [], here / ".budget.jsonl.lock"

    def remove_first(descriptor, operation):
        if not seen:
            lock.unlink()
        seen.append(operation)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with only_run(ledger):
        assert lock.read_text() == f"{os.getpid()}\n"
    assert not lock.exists()


def test_what_a_killed_run_was_staging_stops_nobody(here):
    mine, left, another = (here / f".o[1].partial-{number}" for number in (1, 2, 3))
    for folder in (mine, left, another):
        folder.mkdir()
    require_only_writer(mine, here / "o[1]")
    descriptor = os.open(another, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="process 3"):
            require_only_writer(mine, here / "o[1]")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("number", ["the same", "unknown here"])
def test_a_run_in_another_container_is_not_swept_away(here, ratings, ledger, start, until, pricdr, monkeypatch, number):
    """Containers count processes for themselves: this one's number may be that of the run over there, or unknown."""
    os.mkfifo(here / "users.txt")
    options = ("--epsilon", 1, "--delta", 1e-6, "--out", "o", "--ledger", ledger)
    first = start("publish", ratings, *options, "--users", "users.txt")
    until(lambda: (here / ".budget.jsonl.lock").exists(), first)
    if number == "the same":
        monkeypatch.setattr(os, "getpid", lambda: first.pid)
    else:
        monkeypatch.setattr("pricdr.files._is_dead", lambda number: True)
    staged = here / f".o.partial-{first.pid}"
    before = staged.stat().st_ino
    second = pricdr("publish", ratings, *options)
    assert (second.code, second.err.count("\n")) == (75, 1)
    assert "nothing was spent" in second.err
    assert staged.stat().st_ino == before
    first.kill()
    first.wait()
