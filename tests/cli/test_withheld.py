"""Which refusals a log shows, and which it withholds: a file as a whole may be named, a row may not be quoted."""

import errno
import gzip
import io
import json
import os
from pathlib import Path

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


FILE_FAULTS = {
    "a missing pattern": ("r*.csv", None, "r*.csv: no such file, and as a pattern it matches none"),
    "a header alone": ("r.csv", lambda: HEADER, "r.csv: the file has a header and no rows"),
    "damaged": ("r.csv.gz", lambda: gzip.compress(HEADER + ROWS)[:-8] + bytes(8), "the gzip data is truncated or"),
    "cut-off Parquet": ("r.parquet", lambda: parquet()[:-20], "r.parquet: cannot be read as Parquet: truncated"),
    "ids of another type": ("r.parquet", lambda: parquet([1.5, 2.5]), "the user column 'user' holds DOUBLE"),
    "no column": ("r.csv", lambda: b"user,thing\nalice,dune\n", "no item column in the header; name them with"),
    "no header": ("r.csv", lambda: ROWS, "line 1 looks like data, not like a header; for a file without"),
    "ids in the header": ("r.csv", lambda: b"user,item,alice,alice\n", "the header names a column more than once"),
}


@pytest.mark.parametrize("where", KEPT)
@pytest.mark.parametrize("case", FILE_FAULTS)
def test_what_is_wrong_with_a_file_as_a_whole_is_in_the_log(here, publish, monkeypatch, case, where):
    keep(monkeypatch, where)
    name, content, says = FILE_FAULTS[case]
    if content is not None:
        Path(name).write_bytes(content())
    outcome = publish(name, "--log-json", *config(log="log.jsonl"))
    assert outcome.code == 2
    for lines in (outcome.err, Path("log.jsonl").read_text()):
        failed = last_event(lines)
        assert (failed["error"], failed["exit_code"]) == ("InputFileError", 2)
        assert says in failed["message"]
        assert not [word for word in (*IDS, "0x", "thing") if word in lines]


def test_what_is_wrong_with_a_list_or_a_key_as_a_whole_is_in_the_log(here, ratings, publish):
    (here / "empty.txt").touch()
    for options, says in (
        (("--users", "nobody.txt"), "nobody.txt: no such file"),
        (("--users", "empty.txt"), "empty.txt: the file is empty"),
        (("--users", here), f"{here}: this is a folder, a file is needed"),
        (("--sign", "no.key"), "cannot read key no.key: No such file or directory"),
    ):
        outcome = publish(ratings, "--log-json", *options)
        assert last_event(outcome.err)["message"] == says


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


ROW_FAULTS = {
    "an empty id": ("r.csv", HEADER + b"alice,,5\n", {}),
    "a byte that is not text": ("r.csv", HEADER + b"alice,\xff,5\n", {}),
    "too many bad rows": ("r.csv", HEADER + ROWS + b"alice,,5\n", {"skip_bad_rows": True}),
    "no object": ("r.jsonl", b'{"user": "alice", "item": "dune", "rating": 5}\n"emma"\n', {}),
}


@pytest.mark.parametrize("where", KEPT)
@pytest.mark.parametrize("case", ROW_FAULTS)
def test_what_is_wrong_with_a_row_is_withheld(here, publish, monkeypatch, case, where):
    keep(monkeypatch, where)
    name, content, settings = ROW_FAULTS[case]
    Path(name).write_bytes(content)
    outcome = publish(name, "--log-json", *config(log="log.jsonl", **settings))
    for lines in (outcome.err, Path("log.jsonl").read_text()):
        failed = last_event(lines)
        assert (outcome.code, failed["error"], failed["message"][:8]) == (2, "InputError", "withheld")


def test_an_id_that_a_list_repeats_is_withheld(here, ratings, publish):
    (here / "users.txt").write_text("alice\nalice\n")
    outcome = publish(ratings, "--log-json", "--users", "users.txt")
    assert last_event(outcome.err)["message"].startswith("withheld")
    assert "alice" not in outcome.err


def test_too_little_memory_is_in_the_log_without_sizes(here, ratings, publish, monkeypatch):
    keep(monkeypatch, "on disk")
    monkeypatch.setenv("PRICDR_MEMORY", "3MB")
    failed = last_event(publish(ratings, "--log-json").err)
    assert (failed["error"], failed["exit_code"]) == ("MemoryLimitError", 2)
    assert failed["message"].startswith("more memory is needed than the limit allows")
    assert "MB" not in failed["message"]


def test_a_message_is_withheld_unless_it_is_about_a_file_or_the_system():
    for error in (InputError("row 7: the user id 'alice' repeats"), ValueError("alice"), OSError("alice")):
        assert failure(error)["message"].startswith("withheld")
    assert failure(InputFileError("r.csv", "no such file"))["message"] == "r.csv: no such file"
    assert failure(OSError(errno.ENOSPC, "alice"))["message"] == os.strerror(errno.ENOSPC)
