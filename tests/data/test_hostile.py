"""Whatever the bytes, reading ends in ratings or in one line."""

import gzip
import io

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricdr.data.readers import read, read_ids
from pricdr.errors import InputError

SUFFIXES = ["csv", "tsv", "inter", "dat", "jsonl", "csv.gz", "jsonl.gz"]
STARTS = [b"", b"user,item,rating\n", b"user_id:token\titem_id:token\n", b'{"user": "a", "item": 1}\n', b"1::2::3\n"]
SNIPPETS = [b"\xff", b"\0", b"\r", b"\n", b'"', b",", b"::", b"\t", b"a", b"{", b"\xc3\xa9", b"\xef\xbb\xbf", b"nan"]


def read_or_refuse(path):
    try:
        read(path)
    except InputError as error:
        assert "\n" not in str(error)
        assert str(error).isprintable()


@settings(max_examples=6000)
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
    read_or_refuse(path)


@given(raw=st.binary(max_size=40) | st.lists(st.sampled_from(SNIPPETS)).map(b"".join))
def test_any_bytes_as_a_list_of_ids(tmp_path_factory, raw):
    path = tmp_path_factory.mktemp("any") / "users.txt"
    path.write_bytes(raw)
    try:
        ids = read_ids(path)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert len(set(ids)) == len(ids)
    assert not any(set(name) & set("\n\r\0") or name == "" for name in ids)


@pytest.fixture(scope="module")
def parquet() -> bytes:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"user": rng.integers(0, 50, 400).astype(str), "item": rng.integers(0, 9, 400)})
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata={"pricdr.filtered": "five steps"})
    return buffer.getvalue()


@settings(max_examples=6000)
@given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=20), cut=st.floats(0, 1.5))
def test_spoilt_parquet(tmp_path_factory, parquet, places, cut):
    raw = bytearray(parquet)
    for place, byte in places:
        raw[int(place * (len(raw) - 1))] = byte
    path = tmp_path_factory.mktemp("any") / "r.parquet"
    path.write_bytes(raw[: int(cut * len(raw))])
    read_or_refuse(path)
