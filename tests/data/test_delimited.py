"""The fast path must agree with Python's csv module on every file, well-formed or not."""

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pricdr.data.reading import delimited_rows, field_counts
from pricdr.data.reading.readers import Columns
from pricdr.data.reading.readers import read_ratings_file as read
from pricdr.errors import InputError

PIECES = st.lists(st.sampled_from(["a", "b", ",", '"', "\n", "\r\n", "\r", '""', 'a,"b"\n', "a,b\n", '"x,y",z\n']))


def outcome(path):
    try:
        reading = read(path)
    except InputError as error:
        message = str(error)
        assert "\n" not in message
        return "refused"
    coo = reading.ratings.matrix.tocoo()
    cells = sorted(zip(coo.row.tolist(), coo.col.tolist(), strict=True))
    return reading.ratings.users, reading.ratings.items, cells, reading.rows, reading.dropped


@settings(max_examples=300)
@given(pieces=PIECES, block=st.sampled_from([3, 7, 1 << 24]))
@example(pieces=['"x,y",z\n', "a", '"', ",b\n"], block=3)
@example(pieces=["a,b\n", "\r\n", "a,b\n", "\n", "\n"], block=3)
@example(pieces=['a,"', "\n", '"\r\n'], block=3)
@example(pieces=['"', "\n"], block=7)
@example(pieces=["a", "\r", ",", "a"], block=7)
def test_the_fast_path_agrees_with_the_csv_module(tmp_path_factory, pieces, block):
    path = tmp_path_factory.mktemp("csv") / "r.csv"
    path.write_bytes(("user,item\n" + "".join(pieces)).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(field_counts, "_BLOCK", block)
        fast = outcome(path)
        patch.setattr(delimited_rows, "count_fields", lambda *args, **kwargs: None)
        slow = outcome(path)
    assert fast == slow


def test_well_formed_files_take_the_fast_path(write, monkeypatch):
    def fail(*args):
        raise AssertionError("the slow path was taken")

    monkeypatch.setattr(delimited_rows.Parser, "_parse_slowly", fail)
    text = 'user,item,text\r\n"a","b,c","1"\r\n\r\nd,"e""f","x,y"\r\n,,\r\n\r\n'.replace(",,\r\n", "g,h,\r\n")
    reading = read(write("r.csv", text))
    assert reading.ratings.items == ("b,c", 'e"f', "h")
    assert reading.dropped == (("blank lines", 2),)


def test_names_that_look_like_patterns(write):
    text = "^u.*$,user,^item$\nx,y,z\n"
    for name in ("r.csv", "r.tsv"):
        path = write(name, text.replace(",", "\t") if name == "r.tsv" else text)
        ratings = read(path, columns=Columns("^u.*$", "^item$")).ratings
        assert (ratings.users, ratings.items) == (("x",), ("z",))


def test_what_polars_cannot_read_falls_back(write, monkeypatch):
    path = write("r.csv", "user,item\na,b\nc,d\n")
    expected = outcome(path)

    def broken(*args, **kwargs):
        raise pl.exceptions.ComputeError("no")

    monkeypatch.setattr(pl, "read_csv", broken)
    assert outcome(path) == expected
    monkeypatch.setattr(pl, "read_csv", lambda *args, **kwargs: pl.DataFrame({"a": ["x"], "b": ["y"]}))
    assert outcome(path) == expected


@given(rows=st.lists(st.lists(st.text('ab,"\r', max_size=3), min_size=1, max_size=4), max_size=8))
def test_the_fields_counted_are_those_written(rows):
    quoted = [",".join('"' + field.replace('"', '""') + '"' for field in row) for row in rows]
    content = "".join(f"{line}\n" for line in quoted).encode()
    seen = field_counts.count_fields(content, separator=ord(","), width=2, quoting=True)
    assert seen is not None
    assert seen.records == len(rows)
    odd = [(at, len(row)) for at, row in enumerate(rows) if len(row) != 2]
    assert seen.uneven == (odd[0] if odd else None)
    assert len(seen.blanks) == 0


@pytest.mark.parametrize("blank_at", [(), (0,), (2,), (0, 1, 3, 3, 3), (5,)])
def test_lines_are_named_exactly_around_blank_lines(blank_at, write):
    lines = [f"u{n},i" for n in range(5)]
    for wrong in range(5):
        rows = [*lines]
        rows[wrong] = f"u{wrong},"
        spaced = []
        for at, row in enumerate([*rows, None]):
            spaced += [""] * blank_at.count(at)
            spaced += [] if row is None else [row]
        path = write("r.csv", "\n".join(["user,item", *spaced, ""]))
        line = spaced.index(rows[wrong]) + 2
        with pytest.raises(InputError, match=rf"row {wrong + 1} \(line {line}\): the item id is empty"):
            read(path)


def test_counting_in_many_blocks_equals_one(monkeypatch):
    rng = np.random.default_rng(3)
    parts = rng.choice([b"a,b\n", b'"x,y",b\n', b"\n", b"\r\n", b"a,b,c\n"], size=400).tolist()
    content = b"".join(parts)
    arguments = {"separator": ord(","), "width": 2, "quoting": True}
    whole = field_counts.count_fields(content, **arguments)
    monkeypatch.setattr(field_counts, "_BLOCK", 5)
    pieces = field_counts.count_fields(content, **arguments)
    assert whole is not None
    assert pieces is not None
    assert whole.blanks.tolist() == pieces.blanks.tolist() == [n for n, p in enumerate(parts) if p in (b"\n", b"\r\n")]
    assert (whole.records, whole.uneven) == (pieces.records, pieces.uneven)
