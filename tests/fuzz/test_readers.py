"""Hostile rating files: whatever the bytes, ratings or one line of refusal."""

import gzip
import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pricdr.data.ids import read_ids
from pricdr.data.reading.read import Columns
from pricdr.data.reading.read import read_ratings_file as read
from pricdr.errors import InputError, ParameterError

quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

NASTY = (
    """ \x00 \ufeff \u202e \ud7ff a\u0300 0 007 1e309 nan -inf NULL None ../x /etc/passwd C:\\x =cmd() ' " "" "," \\"""
)
nasty = st.sampled_from([*NASTY.split(" "), " ", "\t", "\r", "\n", "\r\n", "\u2028", "💥" * 40, "x" * 5000])
field = st.one_of(nasty, st.text(max_size=12), st.integers().map(str), st.floats().map(str))
ids = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=6)
SUFFIXES = (".csv", ".tsv", ".inter", ".jsonl", ".json", ".dat", ".csv.gz", ".tsv.gz", ".jsonl.gz")


def _outcome(path: Path, **options) -> str:
    """Ratings, or one printable line."""
    try:
        reading = read(path, **options)
    except (InputError, ParameterError) as error:
        message = str(error)
        assert "\n" not in message
        assert "\r" not in message
        assert len(message) < 1000
        return "refused"
    assert reading.rows > 0  # none of them may be rated high enough
    assert reading.summary()
    return "read"


def _write(folder: Path, suffix: str, content: bytes) -> Path:
    path = folder / f"ratings{suffix}"
    path.write_bytes(gzip.compress(content, 1) if suffix.endswith(".gz") else content)
    return path


@quick
@given(st.sampled_from(SUFFIXES), st.binary(max_size=400))
def test_any_bytes_under_any_name(tmp_path, suffix, content):
    assert _outcome(_write(tmp_path, suffix, content)) in {"read", "refused"}


@quick
@given(
    st.sampled_from([".csv", ".tsv", ".csv.gz"]),
    st.lists(st.lists(field, min_size=0, max_size=5), max_size=12),
    st.sampled_from(["user,item,rating", "user,item", "item,user,rating,time", "rating,user", "user,user,item", ""]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([None, 3.0]),
)
def test_any_table_of_nasty_fields(tmp_path, suffix, rows, header, newline, threshold):
    comma = "\t" if suffix.startswith(".tsv") else ","
    lines = [header.replace(",", comma), *(comma.join(row) for row in rows)]
    content = newline.join(lines).encode("utf-8", "surrogatepass")
    assert _outcome(_write(tmp_path, suffix, content), threshold=threshold) in {"read", "refused"}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@quick
@given(st.lists(st.fixed_dictionaries({}, optional={"user": values, "item": values, "rating": values}), max_size=8))
def test_any_json_lines(tmp_path, rows):
    content = "\n".join(json.dumps(row) for row in rows).encode()
    assert _outcome(_write(tmp_path, ".jsonl", content)) in {"read", "refused"}


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deeply_nested_json_is_refused(tmp_path, depth):
    content = b'{"user": ' + b"[" * depth + b"]" * depth + b', "item": 1}\n'
    assert _outcome(_write(tmp_path, ".jsonl", content)) == "refused"


@quick
@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_spoilt_gzip(tmp_path, content, at, value):
    packed = bytearray(gzip.compress(b"user,item\na,x\n" + content))
    packed[at % len(packed)] = value
    path = tmp_path / "ratings.csv.gz"
    path.write_bytes(bytes(packed))
    assert _outcome(path) in {"read", "refused"}


@quick
@given(st.lists(field, max_size=10), st.sampled_from(["\n", "\r\n"]))
def test_any_id_list(tmp_path, ids, newline):
    path = tmp_path / "users.txt"
    path.write_bytes(newline.join(ids).encode("utf-8", "surrogatepass"))
    try:
        read_back = read_ids(path)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert len(set(read_back)) == len(read_back) > 0
    assert all(read_back)


@quick
@given(st.text(alphabet=string.printable, max_size=40))
@example("user=1,item=1")
@example("user=0,item=2")
@example("user=" + "9" * 400 + ",item=1")
def test_any_columns_option(text):
    try:
        columns = Columns.parse(text)
    except ParameterError as error:
        assert "\n" not in str(error)
        return
    assert columns.user != columns.item


@quick
@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=12))
def test_ids_survive_json_byte_for_byte(tmp_path, pairs):
    content = "\n".join(json.dumps({"user": u, "item": i}) for u, i in pairs).encode()
    ratings = read(_write(tmp_path, ".jsonl", content), columns="user=user,item=item").ratings
    assert set(ratings.users) == {u for u, _ in pairs}
    assert set(ratings.items) == {i for _, i in pairs}
