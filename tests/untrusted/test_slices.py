"""A process that decodes some rows at a time may die, hang or lie between them: one clear error each."""

import os
import time

import polars as pl
import pytest

from pricdr.data.reading.batches import open_stream
from pricdr.errors import InputError
from pricdr.untrusted import sandbox
from pricdr.untrusted.parquet import As, Parquet

TAKEN_OVER = """
import json, os, signal, sys, time
sys.path[:] = json.loads(sys.argv[1])
from pricdr.untrusted import decoding, host
import numpy as np

honest = decoding.decode

def text(*values):
    joined = np.frombuffer("\\n".join(values).encode(), dtype=np.uint8)
    lengths = np.array([len(value.encode()) for value in values])
    return {"text": joined, "lengths": lengths, "missing": np.zeros(len(values), dtype=bool)}

def rows(users, items, count=None):
    arrays = {f"{at}/{name}": array for at, one in enumerate((users, items)) for name, array in one.items()}
    return {"slice": len(users["lengths"]) if count is None else count}, arrays

def decode(descriptor, request, limit_memory):
    content = os.pread(descriptor, 1 << 12, 0)
    if content.startswith(b"PAR1"):
        yield from honest(descriptor, request, limit_memory)
    elif "slice_rows" not in request:
        yield {"sha256": None}, {}
        yield {"rows": 4, "metadata": []}, {}
        yield {"columns": [["user", "String", "text"], ["item", "String", "text"]]}, {}
    else:
        limit_memory(64 << 20, 0)
        yield {"rows": 4, "metadata": []}, {}
        yield {"columns": []}, {}
        yield rows(text("a", "b"), text("x", "y"))
        scope = {**globals(), "answers": []}
        exec(content, scope)
        yield from scope["answers"]

decoding.decode = decode
host.main()
"""
LIES = "its columns do not agree with its footer"
CRASHED = "crashed or was stopped"

pytestmark = pytest.mark.usefixtures("obedient")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("os.abort()", CRASHED),
        ("os._exit(0)", CRASHED),
        ("pass", CRASHED),
        ("bytearray(4 << 30)", "more memory"),
        ("raise decoding.RefusedError('no')", "no"),
        ("answers += [rows(text('a', 'b', 'c'), text('x', 'y', 'z'))]", LIES),
        ("answers += [rows(text('a'), text('x'), count=0)]", LIES),
        ("answers += [rows(text('a'), text('x'), count=2)]", LIES),
        ("answers += [rows(text('a'), text('x', 'y'))]", LIES),
        ("answers += [({'slice': 1}, {})]", LIES),
        ("one = text('a'); one['lengths'][0] = 7; answers += [rows(one, text('x'))]", LIES),
        (
            "one = text('a'); one['lengths'] = one['lengths'].astype(np.float64); answers += [rows(one, text('x'))]",
            LIES,
        ),
        ("one = text('a'); one['text'] = np.array([255], np.uint8); answers += [rows(one, text('x'))]", "not UTF-8"),
        ("answers += [({'nothing': 1}, {})]", LIES),
    ],
)
def test_a_child_that_dies_or_lies_between_slices(tmp_path, action, message):
    path = tmp_path / "hostile.parquet"
    path.write_text(action)
    batches = open_stream(path).batches()
    assert next(batches).users.to_list() == ["a", "b"]
    with pytest.raises(InputError, match=message) as caught:
        next(batches)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_line_feed_that_a_child_puts_into_an_id_is_a_fault_of_that_id(tmp_path):
    path = tmp_path / "hostile.parquet"
    path.write_text(r"answers += [rows(text('a\nb', 'c'), text('x', 'y'))]")
    batches = open_stream(path).batches()
    next(batches)
    with pytest.raises(InputError, match=r"row 3: the user id 'a\\nb' holds a line break"):
        next(batches)


@pytest.mark.slow
def test_a_child_that_hangs_between_slices_runs_out_of_time(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE", 0)
    path = tmp_path / "hostile.parquet"
    path.write_text("time.sleep(60)")
    descriptor = os.open(path, os.O_RDONLY)
    slices = Parquet(descriptor, InputError, seconds=1).slices((0, As.TEXT), (1, As.TEXT), rows=10)
    next(slices)
    with pytest.raises(InputError, match=rf"took more than 1 seconds|{CRASHED}"):
        next(slices)
    os.close(descriptor)


@pytest.mark.slow
def test_time_is_counted_for_each_slice_and_not_while_the_reader_is_busy(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE", 0)
    # More than a pipe holds, so that the child waits for its reader.
    frame = pl.DataFrame({"user": [f"user {at:06}" for at in range(300_000)], "item": ["x"] * 300_000})
    frame.write_parquet(tmp_path / "r.parquet", row_group_size=100_000)
    counts = []
    with Parquet.opened(tmp_path / "r.parquet", InputError, seconds=4) as parquet:
        for part in parquet.slices((0, As.TEXT), (1, As.TEXT), rows=100_000):
            counts.append(part.rows)
            time.sleep(5 if len(counts) == 1 else 0)
    assert counts == [100_000] * 3
