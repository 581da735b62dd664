"""Whatever the bytes, reading ends in ratings or in one line."""

import gzip
import io

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricdr.data.ids import read_ids
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError

SUFFIXES = ["csv", "tsv", "inter", "dat", "jsonl", "csv.gz", "jsonl.gz"]
STARTS = [b"", b"user,item,rating\n", b"user_id:token\titem_id:token\n", b'{"user": "a", "item": 1}\n', b"1::2::3\n"]
SNIPPETS = [b"\xff", b"\0", b"\r", b"\n", b'"', b",", b"::", b"\t", b"a", b"{", b"\xc3\xa9", b"\xef\xbb\xbf", b"nan"]


def result_or_one_line(call):
    try:
        return call()
    except InputError as error:
        message = str(error)
    assert message.isprintable()
    return message


@settings(max_examples=200)
@given(
    suffix=st.sampled_from(SUFFIXES),
    start=st.sampled_from(STARTS),
    rest=st.binary(max_size=40) | st.lists(st.sampled_from(SNIPPETS)).map(b"".join),
    cut=st.none() | st.integers(0, 60),
)
def test_any_bytes(tmp_path_factory, suffix, start, rest, cut):
    raw = start + rest
    path = tmp_path_factory.mktemp("any") / f"r.{suffix}"
    path.write_bytes((gzip.compress(raw) if suffix.endswith("gz") else raw)[:cut])
    result_or_one_line(lambda: read(path))


@given(raw=st.binary(max_size=40) | st.lists(st.sampled_from(SNIPPETS)).map(b"".join))
def test_any_bytes_as_a_list_of_ids(tmp_path_factory, raw):
    path = tmp_path_factory.mktemp("any") / "users.txt"
    path.write_bytes(raw)
    ids = result_or_one_line(lambda: read_ids(path))
    if isinstance(ids, tuple):
        assert len(set(ids)) == len(ids)
        assert not any(set(name) & set("\n\r\0") or name == "" for name in ids)


@pytest.fixture(scope="module")
def parquet() -> bytes:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"user": rng.integers(0, 50, 400).astype(str), "item": rng.integers(0, 9, 400)})
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={"pricdr.filtered": "five steps"})
    return buffer.getvalue()


def test_parquet_cut_anywhere(tmp_path, parquet):
    path = tmp_path / "r.parquet"
    for size in range(7, len(parquet), 7):
        path.write_bytes(parquet[:size])
        with pytest.raises(InputError, match="cannot be read as Parquet"):
            read(path)


def test_parquet_with_spoilt_bytes(tmp_path, parquet):
    rng = np.random.default_rng(0)
    path = tmp_path / "r.parquet"
    for count in rng.choice([1, 3, 20], size=100):
        raw = np.frombuffer(parquet, dtype=np.uint8).copy()
        raw[rng.integers(0, len(raw), count)] = rng.integers(0, 256, count)
        path.write_bytes(raw.tobytes())
        result_or_one_line(lambda: read(path))
