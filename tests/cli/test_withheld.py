"""Which refusals a log shows, and which it withholds: a file as a whole may be named, a row may not be quoted."""

import errno
import gzip
import io
import json
import os
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from pricdr.cli.console import failure
from pricdr.errors import InputError, InputFileError
from tests.data.kept import KEPT, keep
from tests.settings import config

IDS = ("alice", "bob", "dune", "emma")
HEADER = b"user,item,rating\n"
ROWS = b"alice,dune,5\nbob,emma,4\n"


def last_event(text):
    """Return the last line of a log."""
    return json.loads(text.splitlines()[-1])


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
