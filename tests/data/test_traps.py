"""What DuckDB would do by itself, and that it does not do it here: each case was seen with DuckDB 2.0."""

import csv
import gzip
import os
import random
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings, strategies as st

from pricdr import read_ratings
from pricdr.data.reading.formats import DATE, NUMBER, Dialect, literal, number_sql, seconds_sql
from pricdr.data.reading.read import connected, read_ratings_file as read
from pricdr.data.workspace import Workspace
from pricdr.errors import InputError

# --- lines and quotes ---------------------------------------------------------------------------------------------


def test_line_breaks_in_quotes_are_refused_in_unused_columns_too(write, refused):
    for end in ("\n", "\r\n"):
        path = write("r.csv", f'user,item,note{end}a,b,"two{end}lines"{end}')
        assert "a field with line breaks needs Parquet" in refused(lambda path=path: read(path))


ENDS = st.lists(st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n\r\n"]), min_size=4, max_size=4)


@given(ends=ENDS, skip=st.booleans())
@settings(max_examples=25)
def test_line_ends_may_differ_and_lose_no_row(tmp_path_factory, ends, skip):
    """DuckDB refuses mixed line ends, except in lines that are skipped: then it loses what follows."""
    path = tmp_path_factory.mktemp("ends") / "r.csv"
    path.write_bytes(
        "".join(f"{line}{end}" for line, end in zip(("user,item", "a,x", "b,x", "c,x"), ends, strict=True)).encode()
    )
    options = {"skip_bad_rows": True, "most_bad_rows": 1.0} if skip else {}
    try:
        users = read(path, **options).ratings.users
    except InputError:
        assert "\r" in ends
        return
    lines = path.read_bytes().decode().replace("\r\n", "\n").split("\n")[1:]
    whole = [line for line in lines if line and "\r" not in line]
    # At the very end DuckDB takes a bare carriage return for the beginning of a line end that was cut off.
    cut = [line.removesuffix("\r") for line in lines[-1:] if line]
    assert users in [tuple(line.partition(",")[0] for line in found) for found in (whole, whole + cut)]


def test_a_large_file_of_mixed_line_ends_is_read_to_its_end(write):
    """Longer than the buffers that DuckDB reads in parallel, and its lines keep their numbers."""
    lines = [f"user{n},item{n % 1000},5,{'n' * 200}" for n in range(160_000)]
    path = write("r.csv", "user,item,rating,note\n" + "\n".join(lines) + "\nlast,x,five,n\r\n")
    assert path.stat().st_size > 32 << 20
    reading = read(path, skip_bad_rows=True)
    assert (reading.rows, len(reading.ratings)) == (160_001, 160_000)
    assert reading.first_bad[0].startswith("row 160001 (line 160002): the rating 'five'")


@given(st.lists(st.sampled_from(["a", '"', '""', ",", "::", " ", "é", ":"]), max_size=9), st.sampled_from([",", "::"]))
@example(['"', ":", '"', "::"], "::")
@settings(max_examples=100)
def test_sql_splits_a_line_as_python_does(parts, mark):
    line, dialect = "".join(parts), Dialect(mark)
    found = SQL.execute(f"SELECT {dialect.sql()} FROM (SELECT {literal(line)} AS line)").fetchone()[0]
    expected = dialect.split(line)
    assert found == (None if isinstance(expected, str) else expected)
    if mark == "," and line:
        try:
            assert next(csv.reader([line], strict=True)) == expected
        except csv.Error:
            assert isinstance(expected, str)


NUMBERS = st.one_of(
    st.floats().map(str),
    st.text("0123456789+-.eE_: TZ\t\x0b٣", max_size=8),
    st.datetimes().map(lambda moment: moment.isoformat(random.Random(moment.day).choice("T "))),
    st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat()),
)


BLANKS = " \t\n\x0b\x0c\r"


def finite_number(text):
    plain = text.strip(BLANKS)
    number = float(plain) + 0.0 if re.fullmatch(NUMBER, plain) else np.inf
    return number if np.isfinite(number) else None


def seconds_of(text):
    text = text.strip(BLANKS)
    if (number := finite_number(text)) is not None:
        return number
    try:
        moment = datetime.fromisoformat(text) if re.fullmatch(DATE, text) else None
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        return float(since // timedelta(microseconds=1)) / 1e6
    except (ValueError, OverflowError, AttributeError):
        return None


@given(NUMBERS)
@settings(max_examples=150)
def test_sql_reads_numbers_and_times_as_python_does(text):
    found = SQL.execute(f"SELECT {number_sql('t')}, {seconds_sql('t')} FROM (SELECT {literal(text)} AS t)").fetchone()
    finite = tuple(number if number is not None and np.isfinite(number) else None for number in found)
    assert finite == (finite_number(text), seconds_of(text))


SQL = duckdb.connect()
SQL.execute("SET TimeZone = 'UTC'")


# --- headers and types --------------------------------------------------------------------------------------------


def test_columns_are_mapped_by_the_header_of_each_file(tmp_path):
    (tmp_path / "1.csv").write_text("user,item\na,x\n")
    (tmp_path / "2.csv").write_text("\n\nitem,user\ny,b\n")
    ratings = read_ratings(tmp_path)
    assert (ratings.users, ratings.items) == (("a", "b"), ("x", "y"))
    (tmp_path / "h.csv").write_text("\na,x\nb,y\n")
    assert read_ratings(tmp_path / "h.csv", columns="user=1,item=2").users == ("a", "b")


def test_each_parquet_file_has_its_own_types(tmp_path, refused):
    pl.DataFrame({"user": [7], "item": ["x"]}).write_parquet(tmp_path / "1.parquet")
    frame = pl.DataFrame({"USER": ["no"], "user": ["007"], "item": ["x"], "nested": [[{"user": "deep"}]]})
    frame[["user", "item"]].write_parquet(tmp_path / "2.parquet")
    assert "column 'user' holds VARCHAR, in" in refused(lambda: read(tmp_path))
    frame.write_parquet(tmp_path / "1.parquet")  # names that differ only in case are not confused
    assert read_ratings(tmp_path / "1.parquet", columns="user=user,item=item").users == ("007",)


def test_names_are_no_patterns_and_only_the_named_file_is_read(tmp_path):
    (tmp_path / "a1.csv").write_text("user,item\nwrong,x\n")
    for name in ("a[1].csv", "b*.csv", "c?'.csv", "d{x,y}~.csv", os.fsdecode(b"\xff.csv")):
        (tmp_path / name).write_text("user,item\nright,x\n")
        assert read_ratings(tmp_path / name).users == ("right",)
    (tmp_path / "bb.csv").write_text("user,item\nwrong,x\n")
    assert read_ratings(tmp_path / "b*.csv").users == ("right",)


# --- ties ---------------------------------------------------------------------------------------------------------


def test_among_equal_times_the_largest_value_counts_every_time(write):
    rng = np.random.default_rng(0)
    rows = [f"u{n % 50},i,{value},7" for n, value in enumerate(rng.integers(1, 6, 5000))]
    found = set()
    for at in range(4):
        random.Random(at).shuffle(rows)
        found.add(tuple(read_ratings(write("r.csv", "user,item,rating,time\n" + "\n".join(rows))).matrix.data))
    assert found == {(5.0,) * 50}


# --- JSON ---------------------------------------------------------------------------------------------------------

OBJECTS = {
    '{"user": "a\\u0000", "item": "x", "rating": 1}': "the user id 'a\\x00' holds",
    '{"user": "a", "item": "x", "rating": NaN}': "the rating 'NaN' is not a finite number",
    '{"user": "a", "item": "x", "rating": Infinity}': "the rating 'Infinity' is not a finite number",
    '{"user": {"id": 1}, "item": "x", "rating": 1}': "must be text or a whole number",
    '{"user": 1e3, "item": "x", "rating": 1}': "the user id 1000.0 must be text or a whole number",
    '{"user": true, "item": "x", "rating": 1}': "must be text or a whole number",
    '{"user": "a", "user": "b", "item": "x", "rating": 1}': "the object names a column more than once: 'user'",
    '{"user": "a", "item": "x", "rating": 1} {}': "is not a JSON object",
    '["user"]': "is not a JSON object",
}


@pytest.mark.parametrize("line", OBJECTS)
def test_objects_that_are_no_ratings(write, refused, line):
    good = '{"user": 12345678901234567890123, "item": "x", "rating": 1}'
    path = write(
        "r.jsonl",
        f"{good}\n\n{line}\n" + '{"user": "1", "item": 1, "rating": 2}\n{"user": 1, "item": "1", "rating": 3}',
    )
    message = refused(lambda: read(path))
    assert "row 2 (line 3)" in message
    assert OBJECTS[line] in message
    ratings = read(path, skip_bad_rows=True, most_bad_rows=0.5).ratings
    assert (ratings.users, ratings.items) == (("1", "12345678901234567890123"), ("1", "x"))
    assert ratings.matrix.data.tolist() == [3.0, 1.0]


# --- what is no text ----------------------------------------------------------------------------------------------


def test_compressed_files_are_read_whole(tmp_path):
    (tmp_path / "two.csv.gz").write_bytes(gzip.compress(b"user,item\na,i\n") + gzip.compress(b"z,i\n"))
    assert read(tmp_path / "two.csv.gz").rows == 2


# --- the connection -----------------------------------------------------------------------------------------------


def test_a_connection_reads_what_it_is_given_and_nothing_else(tmp_path):
    given, other = tmp_path / "given.csv", tmp_path / "other.csv"
    for path in (given, other):
        path.write_text("a\n")
    secret = "python variables are not tables"  # noqa: F841
    with Workspace.opened(tmp_path) as workspace, connected(workspace, [given], 10**8) as connection:
        assert connection.execute(f"SELECT * FROM read_csv({literal(str(given))}, header = false)").fetchall()
        for statement in (
            f"SELECT * FROM read_csv({literal(str(other))})",
            f"COPY (SELECT 1) TO {literal(str(tmp_path / 'out'))}",
            "SELECT * FROM secret",
            "SELECT * FROM 'https://example.com/r.parquet'",
            "SET enable_external_access = true",
            "SET memory_limit = '1TB'",
            "INSTALL httpfs",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.csv", "other.csv"]


def test_what_duckdb_says_is_never_shown(write, refused):
    message = refused(lambda: read(write("long.csv", "user,item\n" + "private" * 400_000 + ",x\n")))
    assert "private" not in message
    assert "fixes" not in message


def test_frames_need_neither_pyarrow_nor_pandas_and_nothing_is_left_or_printed(tmp_path):
    """And the commands start without DuckDB."""
    code = """
import sys, pricdr.cli
assert "duckdb" not in sys.modules
sys.modules["pandas"] = sys.modules["pyarrow"] = None
import polars
from pricdr import Ratings, read_ratings
frame = polars.DataFrame({"user": ["a"], "item": ["x"], "note": [None]})
assert Ratings.of(frame).users == ("a",)
class Stream:
    def __arrow_c_stream__(self, requested_schema=None):
        return frame.__arrow_c_stream__(requested_schema)
assert Ratings.of(Stream()).users == ("a",)
open("r.csv", "w").write("user,item\\na,x\\n")
read_ratings("r.csv")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv"]
