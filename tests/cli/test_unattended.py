"""Unattended runs of ``pricdr publish``: JSON lines, one run at a time, and what a killed run leaves behind."""

import errno
import fcntl
import gzip
import io
import json
import os
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from pricdr import Ledger, progress
from pricdr.cli.console import failure
from pricdr.errors import BusyError, EngineError, InputError, InputFileError, OutputError
from pricdr.files import only_run, require_only_writer
from tests.data.kept import KEPT, keep
from tests.settings import config

IDS = ("alice", "bob", "dune", "emma")


def events(text):
    """Return the lines as JSON, each with its time, process and event."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "process", "event"} <= set(line) for line in lines)
    return lines


def last_event(text):
    return events(text)[-1]


# --log-json


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
    assert not [word for word in IDS if word in outcomes[0].err]


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
        failed = last_event(lines)
        assert (failed["event"], failed["spent"]) == ("failed", spent)
        assert "alice" not in lines
    assert "to publish again is to pay again" in str(error) or "blocks" not in place
    refused = publish("nowhere.csv", "--ledger", ledger, "--log-json")
    assert "spent" not in last_event(refused.err)


def test_what_holds_no_ratings_is_told_in_full(ratings, ledger, publish, pricdr):
    spent = publish(ratings, "--log-json", "--ledger", ledger, "--epsilon", 9)
    assert (spent.code, last_event(spent.err)["error"]) == (1, "BudgetError")
    assert "refuses: spent so far" in last_event(spent.err)["message"]
    ledger.write_bytes(ledger.read_bytes().replace(b'"epsilon":8.0', b'"epsilon":9.0'))
    changed = publish(ratings, "--log-json", "--ledger", ledger)
    assert "its hash does not match" in last_event(changed.err)["message"]
    usage = pricdr("publish", ratings, "--log-json", "--epsilon", "four")
    (failed,) = events(usage.err)
    assert (usage.code, failed["exit_code"], "four" in failed["message"]) == (2, 2, True)


def test_standard_error_and_a_log_file_have_one_line_of_json_for_each_event_and_nothing_else(
    here, ratings, ledger, publish
):
    asked = (ratings, "--log-json", "--ledger", ledger, *config(log=here / "log.jsonl"))
    first, second = publish(*asked), publish(*asked)
    assert (first.code, first.out, second.code, second.out) == (0, "", 2, "")
    assert (here / "log.jsonl").read_text() == first.err + second.err
    told = [[line["event"] for line in events(run.err)] for run in (first, second)]
    assert told == [["began", "made", "published", "finished"], ["began", "failed"]]
    made = events(first.err)[1]
    assert (made["epsilon"], made["ledger_release"], made["dim"]) == (4.0, 1, 8)


def test_progress_is_a_share_and_no_count(ratings, publish, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.001)
    outcome = publish(ratings, "--log-json")
    reports = [line for line in events(outcome.err) if line["event"] == "progress"]
    assert reports
    assert all(set(line) == {"time", "process", "event", "what", "share", "seconds"} for line in reports)


# Which refusals a log shows, and which it withholds: a file as a whole may be named, a row may not be quoted.


HEADER = b"user,item,rating\n"
ROWS = b"alice,dune,5\nbob,emma,4\n"


def parquet(user=("alice", "bob")):
    content = io.BytesIO()
    pl.DataFrame({"user": user, "item": ["dune", "emma"]}).write_parquet(content)
    return content.getvalue()


FILE_FAULTS = (
    ("r*.csv", None, "r*.csv: no such file, and as a pattern it matches none"),
    ("r.csv", HEADER, "r.csv: the file has a header and no rows"),
    ("r.csv.gz", gzip.compress(HEADER + ROWS)[:-8] + bytes(8), "the gzip data is truncated or"),
    ("r.parquet", parquet()[:-20], "r.parquet: cannot be read as Parquet: truncated"),
    ("r.parquet", parquet([1.5, 2.5]), "the user column 'user' holds DOUBLE"),
    ("r.csv", b"user,thing\nalice,dune\n", "no item column in the header; name them with"),
    ("r.csv", ROWS, "line 1 looks like data, not like a header; for a file without"),
    ("r.csv", b"user,item,alice,alice\n", "the header names a column more than once"),
    ("r.csv", HEADER + ROWS, "nobody.txt: no such file", "--users", "nobody.txt"),
    ("r.csv", HEADER + ROWS, "empty.txt: the file is empty", "--users", "empty.txt"),
    ("r.csv", HEADER + ROWS, ".: this is a folder, a file is needed", "--users", "."),
    ("r.csv", HEADER + ROWS, "cannot read key no.key: No such file or directory", "--sign", "no.key"),
)


@pytest.mark.parametrize("where", KEPT)
def test_what_is_wrong_with_a_file_as_a_whole_is_in_the_log(here, publish, monkeypatch, where):
    keep(monkeypatch, where)
    (here / "empty.txt").touch()
    for name, content, says, *options in FILE_FAULTS:
        if content is not None:
            Path(name).write_bytes(content)
        outcome = publish(name, "--log-json", *config(log="log.jsonl"), *options)
        assert outcome.code == 2
        for lines in (outcome.err, Path("log.jsonl").read_text()):
            failed = last_event(lines)
            assert (failed["error"], failed["exit_code"]) == ("InputFileError", 2)
            assert says in failed["message"]
            assert not [word for word in (*IDS, "0x", "thing") if word in lines]


@pytest.mark.parametrize("where", KEPT)
def test_a_folder_is_named_in_the_log_and_the_files_in_it_are_not(here, publish, monkeypatch, where):
    """Folders may be named after the values of a column: of users, say."""
    keep(monkeypatch, where)
    for user in ("alice", "bob"):
        (here / "ratings" / f"user={user}").mkdir(parents=True)
        (here / "ratings" / f"user={user}" / "part.csv").write_text("item\ndune\n" if user == "alice" else "")
    options = ("--columns", "user=user,item=item")
    assert "user=bob/part.csv: the file is empty" in publish("ratings", *options).err
    outcome = publish("ratings", *options, "--log-json")
    assert last_event(outcome.err)["message"] == "in ratings: the file is empty"
    (here / "ratings" / "user=bob" / "part.csv").write_text("item,emma\nit,1\n")
    assert "user=bob/part.csv: it has a column 'emma'" in publish("ratings", *options).err
    outcome = publish("ratings", *options, "--log-json")
    assert "in ratings: its columns are not those of the first file" in last_event(outcome.err)["message"]
    assert not [word for word in IDS if word in outcome.err]


ROW_FAULTS = (
    ("r.csv", HEADER + b"alice,,5\n", {}),  # an empty id
    ("r.csv", HEADER + b"alice,\xff,5\n", {}),
    ("r.csv", HEADER + ROWS + b"alice,,5\n", {"skip_bad_rows": True}),  # too many of them
    ("r.jsonl", b'{"user": "alice", "item": "dune", "rating": 5}\n"emma"\n', {}),
    ("r.csv", HEADER + ROWS, {}, "--users", "twice.txt"),
)


@pytest.mark.parametrize("where", KEPT)
def test_what_is_wrong_with_a_row_is_withheld(here, publish, monkeypatch, where):
    keep(monkeypatch, where)
    (here / "twice.txt").write_text("alice\nalice\n")
    for name, content, settings, *options in ROW_FAULTS:
        Path(name).write_bytes(content)
        outcome = publish(name, "--log-json", *config(log="log.jsonl", **settings), *options)
        for lines in (outcome.err, Path("log.jsonl").read_text()):
            failed = last_event(lines)
            assert (outcome.code, failed["error"], failed["message"][:8]) == (2, "InputError", "withheld")
            assert "alice" not in lines


def test_too_little_memory_or_room_is_in_the_log_without_sizes(here, ratings, publish, monkeypatch):
    keep(monkeypatch, "on disk")
    with monkeypatch.context() as patch:
        patch.setenv("PRICDR_MEMORY", "3MB")
        failed = last_event(publish(ratings, "--log-json").err)
    assert (failed["error"], failed["exit_code"]) == ("MemoryLimitError", 2)
    assert failed["message"].startswith("more memory is needed than the limit allows")
    assert "MB" not in failed["message"]
    monkeypatch.setattr("pricdr.data.workspace.shutil.disk_usage", lambda _: SimpleNamespace(free=60))
    assert "sorting" in publish(ratings).err
    failed = last_event(publish(ratings, "--log-json").err)
    assert (failed["error"], failed["exit_code"]) == ("DiskSpaceError", 2)
    assert failed["message"] == "the disk has too little room: choose another one with temp-dir in --config"


def test_a_message_is_withheld_unless_it_is_about_a_file_or_the_system():
    for error in (InputError("row 7: the user id 'alice' repeats"), ValueError("alice"), OSError("alice")):
        assert failure(error)["message"].startswith("withheld")
    assert failure(InputFileError("r.csv", "no such file"))["message"] == "r.csv: no such file"
    assert failure(OSError(errno.ENOSPC, "alice"))["message"] == os.strerror(errno.ENOSPC)


# One run at a time


def test_a_second_run_ends_at_once_with_its_own_code(here, ratings, ledger, start, until, pricdr, monkeypatch):
    os.mkfifo(here / "users.txt")  # a list that never comes: the first run waits for it
    options = ("--epsilon", 1, "--delta", 1e-6)
    first = start("publish", ratings, *options, "--out", "first", "--users", "users.txt", "--ledger", ledger)
    lock, staged = here / ".budget.jsonl.lock", here / f".first.partial-{first.pid}"
    until(lambda: lock.exists() and lock.read_text() and staged.exists(), first)
    before = staged.stat().st_ino

    def refused(*shared):
        second = pricdr("publish", ratings, *options, *shared)
        assert (second.code, second.err.count("\n"), "nothing was spent" in second.err) == (75, 1, True)
        return second.err

    for shared in (("--out", "second", "--ledger", ledger), ("--out", "first")):
        assert f"in use by another run (process {first.pid}): nothing was spent" in refused(*shared)
    # Containers count processes for themselves: this one's number may be that of the run over there, or unknown.
    for name, here_it_is in (("os.getpid", lambda: first.pid), ("pricdr.files._is_dead", lambda number: True)):
        with monkeypatch.context() as patch:
            patch.setattr(name, here_it_is)
            refused("--out", "first", "--ledger", ledger)
    assert staged.stat().st_ino == before
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
