"""A process that decodes for us may die, hang, lie or eat memory: one clear error each, and the next file is read."""

import os
import resource
import signal
import sys
import time

import numpy as np
import polars as pl
import pytest

from pricdr.data.reading.readers import read_ratings_file as read
from pricdr.errors import InputError
from pricdr.untrusted import sandbox
from pricdr.untrusted.parquet import As, Parquet, Text

TAKEN_OVER = """
import json, os, signal, sys, time
sys.path[:] = json.loads(sys.argv[1])
from pricdr.untrusted import decoding, host
import numpy as np

honest = decoding.decode

def decode(descriptor, request, limit_memory):
    content = os.pread(descriptor, 1 << 12, 0)
    if content.startswith(b"PAR1"):
        yield from honest(descriptor, request, limit_memory)
        return
    yield {"sha256": None}, {}
    limit_memory(64 << 20)
    yield {"rows": 2, "metadata": []}, {}
    exec(content, globals())
    yield {"columns": [["user", "String", "text"], ["item", "String", "text"]]}, arrays

decoding.decode = decode
host.main()
"""
CRASHED = "crashed or was stopped"

pytestmark = pytest.mark.usefixtures("obedient")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "r.parquet"
    pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"]}).write_parquet(path)
    return path


@pytest.fixture
def hostile(tmp_path):
    """A file that makes its child do something else."""

    def make(action: str):
        path = tmp_path / "hostile.parquet"
        path.write_text(action)
        return path

    return make


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("os.abort()", CRASHED),
        ("os.kill(os.getpid(), signal.SIGSEGV)", CRASHED),
        ("os._exit(0)", CRASHED),
        ("bytearray(4 << 30)", "more memory"),
        ("np.ones(1 << 29)", "more memory"),
        ("raise decoding.RefusedError('no')", "no"),
        ("raise BaseException('a panic' + chr(10) + 'in two lines')", "a panic in two lines"),
    ],
)
def test_a_child_that_dies_is_one_line_and_the_next_file_is_read(file, hostile, action, message):
    with pytest.raises(InputError, match=rf"hostile\.parquet: cannot be read as Parquet: .*{message}") as caught:
        read(hostile(action))
    assert str(caught.value).isprintable()
    assert read(file).rows == 2


def read_within_a_second(path):
    with Parquet.opened(path, InputError, seconds=1) as parquet:
        parquet.read(("user", As.TEXT))


def test_a_child_that_hangs_is_killed_in_time(hostile):
    started = time.monotonic()
    with pytest.raises(InputError, match=rf"{CRASHED}|took more than 1 seconds"):
        read_within_a_second(hostile("time.sleep(100)"))
    assert time.monotonic() - started < 20


def test_a_child_that_ignores_its_alarm_is_killed_too(hostile, monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE", 0.2)
    with pytest.raises(InputError, match="took more than 1 seconds"):
        read_within_a_second(hostile("signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(100)"))
    assert sandbox.host_pid() is None


def said(codes="np.array([0, 1], 'int32')", lengths="[1, 1]", text="[97, 98]") -> str:
    return f"{{'0/codes': {codes}, '0/lengths': np.array({lengths}), '0/text': np.array({text}, 'uint8')}}"


LIES = {
    "codes out of range": said(codes="np.array([0, 2], 'int32')"),
    "lengths that do not add up": said(lengths="[9, 9]"),
    "negative lengths": said(lengths="[3, -1]"),
    "unsorted names": said(text="[98, 97]"),
    "repeated names": said(text="[97, 97]"),
    "no UTF-8": said(text="[97, 255]"),
    "other types": said(codes="np.array([0.0, 1.0])"),
    "fewer rows": said(codes="np.array([0], 'int32')"),
    "nothing": "{}",
    "objects": "{'0/codes': np.array([1, 2], dtype='complex128')}",
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_child_says_is_checked(hostile, lie):
    with (
        pytest.raises(InputError, match=r"do not agree with its footer|an impossible answer"),
        Parquet.opened(hostile(f"arrays = {LIES[lie]}"), InputError) as parquet,
    ):
        parquet.read(("user", As.TEXT))


def test_a_child_cannot_make_us_allocate(hostile):
    """A report of more than may be sent is refused before anything of its size is made."""
    huge = "np.broadcast_to(np.zeros(1), (1 << 45,))"  # 256 TB that take 8 bytes where they are
    with (
        pytest.raises(InputError, match="an impossible answer"),
        Parquet.opened(hostile(f"arrays = {{'0/codes': {huge}}}"), InputError) as parquet,
    ):
        parquet.read(("user", As.TEXT))


def test_a_host_that_was_killed_is_replaced(file):
    assert read(file).rows == 2
    killed = sandbox.host_pid()
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert read(file).rows == 2
    assert sandbox.host_pid() != killed


def test_a_forked_process_has_a_host_of_its_own(file):
    assert read(file).rows == 2
    before = sandbox.host_pid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with Parquet.opened(file, InputError) as parquet:  # not read(): polars itself does not survive a fork
                rows = parquet.read(("user", As.TEXT)).rows
            status = 0 if rows == 2 and sandbox.host_pid() != before else 1
            sandbox.stop()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read(file).rows == 2
    assert sandbox.host_pid() == before


def test_a_process_forked_while_a_host_is_started_does_not_hang(file):
    with sandbox._lock:
        child = os.fork()
        if child == 0:
            status = 1
            signal.alarm(20)
            try:
                with Parquet.opened(file, InputError) as parquet:
                    status = 0 if parquet.read(("user", As.TEXT)).rows == 2 else 1
                sandbox.stop()
            finally:
                os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_modules_in_the_working_folder_are_not_imported(file, tmp_path, monkeypatch):
    """A delivery may hold a json.py beside its release, and somebody may verify it from inside."""
    for name in ("json", "resource", "polars", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('taken over', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    sandbox.stop()
    assert read(file).rows == 2
    assert not (tmp_path / "taken over").exists()


def test_a_process_with_thousands_of_open_files_reads_on(file):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("so many cannot be opened here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    descriptors = []
    try:
        descriptors += [os.open(os.devnull, os.O_RDONLY) for _ in range(1200)]
        assert read(file).rows == 2
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_interrupt_ends_the_child(hostile, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(sandbox.select, "poll", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(hostile("time.sleep(100)"))
    assert sandbox.host_pid() is None


def test_every_kind_of_column(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame(
        {
            "text": ["b", None, "a"],
            "whole": pl.Series([2, None, 10], dtype=pl.UInt8),
            "numbers": [1.5, None, float("inf")],
            "vectors": pl.Series(np.eye(3, dtype=np.float32)),
        }
    ).write_parquet(path)
    with Parquet.opened(path, InputError) as parquet:
        read = parquet.read(("text", As.TEXT), (1, As.TEXT), ("whole", As.NUMBERS), (2, As.NUMBERS), (3, As.VECTORS))
    text, whole, as_numbers, numbers, vectors = read.decoded
    assert [column.kind for column in read.columns] == ["text", "integers", "numbers", "vectors"]
    assert text.rows() == ["b", None, "a"]
    assert isinstance(whole, Text)
    assert whole.rows() == ["2", None, "10"]
    assert as_numbers.missing.tolist() == [False, True, False]
    assert as_numbers.values[[0, 2]].tolist() == [2, 10]
    assert numbers.values[2] == np.inf
    assert np.array_equal(vectors, np.eye(3))


@pytest.mark.parametrize("kind", ["a pipe", "a socket"])
def test_parquet_is_read_from_regular_files_only(tmp_path, kind):
    import socket

    path = tmp_path / "r.parquet"
    if kind == "a pipe":
        os.mkfifo(path)
        with pytest.raises(InputError, match="not a regular file"):
            read(path)
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
            with pytest.raises(InputError, match="cannot be read"):
                read(path)


def test_a_bomb_of_rows_is_refused_before_it_is_decoded(tmp_path):
    path = tmp_path / "r.parquet"
    column = pl.Series(["a"]).new_from_index(0, 10_000_000)
    pl.DataFrame({"user": column, "item": column}).write_parquet(path, compression="zstd", row_group_size=1 << 26)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="a compression bomb"):
        read(path)


def test_a_footer_of_millions_of_empty_structs_is_refused(tmp_path):
    """A byte each in the file, a hundred in memory."""
    path = tmp_path / "r.parquet"
    many = b"\xb9\xfc" + b"\x80\x80\x80\x18" + bytes(3 << 24) + b"\0"  # field 11: a list of 3 * 2^24 structs
    path.write_bytes(b"PAR1" + many + len(many).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(InputError, match="more than 2,097,152 values"):
        read(path)
