"""A repeated (user, item) pair: the latest row counts where there is a time."""

import csv
import io
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from pricdr import Ratings
from pricdr.data.reading import read as reading_module
from pricdr.data.reading.read import AMAZON_2014, Columns, read_ratings_file as read, sorted_pairs
from tests.data.conftest import cells

NAMES = ("user", "item", "rating", "timestamp")
TIMES = st.sampled_from(
    ["5", "7.5", "-3", "1e3", "2024-05-31", "2024-05-31T12:00:00Z", "1970-01-01 00:00:06", "", "soon"]
)
ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(1, 5), TIMES), min_size=1, max_size=15
)


def text_of(rows, names=NAMES) -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    return text.getvalue().encode()


def timed(rows) -> pd.DataFrame:
    """The rows, and the time of each."""
    frame = pd.DataFrame(rows, columns=list(NAMES))
    numbers = pd.to_numeric(frame["timestamp"], errors="coerce")
    dates = frame["timestamp"].map(lambda text: pd.to_datetime(text, utc=True, errors="coerce", format="ISO8601"))
    frame["at"] = numbers.fillna((pd.to_datetime(dates, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds())
    return frame.assign(at=frame["at"].fillna(-np.inf))


def naive(rows) -> dict[tuple[str, str], float]:
    """The last of each group after sorting by time and then by value; what is no time comes first."""
    last = timed(rows).sort_values(["at", "rating"]).groupby(["user", "item"])["rating"].last()
    return {pair: float(value) for pair, value in last.items()}


@settings(max_examples=10)
@given(rows=ROWS)
@pytest.mark.slow
def test_the_latest_counts_as_in_a_naive_groupby(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "r.csv"
    path.write_bytes(text_of(rows))
    reading = read(path, with_times=True)
    assert cells(reading.ratings) == naive(rows)
    assert reading.repeats.rows == len(rows) - len({row[:2] for row in rows})
    frame = pl.DataFrame(rows, schema=list(NAMES), orient="row")
    for taken in (frame, frame.to_pandas(), frame.to_arrow(), frame.lazy()):
        assert cells(Ratings.of(taken)) == naive(rows)
    # The times that come with the ratings are those of the rows that count.
    assert reading.times is not None
    of_row = dict(zip([row[3] for row in rows], timed(rows)["at"], strict=True))
    for (user, item, value), time in zip(reading.ratings.to_frame().rows(), reading.times, strict=True):
        known = [of_row[row[3]] for row in rows if row[:3] == (user, item, value)]
        assert (-np.inf if np.isnan(time) else time) in known


# What one row may change is ``test_one_row``; here is a rule that would break it.


def changed_cells(before: list, after: list) -> int:
    old, new = (cells(Ratings.of(pl.DataFrame(rows, schema=list(NAMES), orient="row"))) for rows in (before, after))
    return sum(old.get(pair) != new.get(pair) for pair in old.keys() | new.keys())


def test_a_rule_that_one_row_decides_for_everybody_changes_several_entries(monkeypatch):
    """As if one unreadable time made the largest value count everywhere."""

    def flawed(*arguments):
        unreadable = "EXISTS (SELECT 1 FROM rows WHERE seconds = '-infinity')"
        order = f"ORDER BY key, CASE WHEN {unreadable} THEN 0 ELSE seconds END"
        return sorted_pairs(*arguments).replace("ORDER BY key, seconds", order)

    rows = [(user, "x", value, str(time)) for user in "ab" for value, time in ((5, 1), (1, 2))]
    for rule, changes in ((flawed, 3), (sorted_pairs, 1)):
        monkeypatch.setattr(reading_module, "sorted_pairs", rule)
        assert changed_cells(rows, [*rows, ("c", "x", 3, "soon")]) == changes


def test_a_time_column_is_found_by_its_name_or_place(write):
    for name in ("timestamp", "Time", "date", "unixReviewTime", "date_time", "created_at"):
        reading = read(write("r.csv", f"user,item,rating,{name}\na,x,5,1\na,x,2,3\na,x,4,2\n"))
        assert cells(reading.ratings) == {("a", "x"): 2.0}
        assert "2 rows repeat a (user, item) pair; the latest counts, by the time column" in reading.summary()
    rows = "A,B,5.0,1400000002\nA,B,2.0,1400000003\n"
    for columns in (AMAZON_2014, "user=1,item=2,rating=3,time=4"):
        assert cells(read(write("p.csv", rows), columns=columns).ratings) == {("A", "B"): 2.0}
    assert cells(read(write("r.dat", rows.replace(",", "::"))).ratings) == {("A", "B"): 2.0}


def test_times_that_cannot_be_read_count_as_the_earliest_unless_the_column_was_named(write, refused):
    path = write("r.csv", "user,item,rating,date\na,x,5,soon\na,x,2,2020-01-01\nb,x,3,\nb,x,4,\n")
    reading = read(path)
    assert cells(reading.ratings) == {("a", "x"): 2.0, ("b", "x"): 4.0}
    assert "3 without a readable time count as the earliest" in reading.summary()
    columns = "user=user,item=item,rating=rating,time=date"
    assert "row 1 (line 2): the time 'soon' is not a time" in refused(lambda: read(path, columns=columns))


def test_every_kind_of_time_in_parquet_and_json(tmp_path, write, refused):
    moments = [datetime(2024, 1, day, tzinfo=UTC) for day in (2, 1)]
    texts = ["2024-01-02", "2024-01-01T05:00"]
    for at, times in enumerate([[date(2024, 1, 2), date(2024, 1, 1)], moments, [2, 1], [2.5, None], texts]):
        frame = pl.DataFrame({"user": ["a", "a"], "item": [1, 1], "rating": [1, 5], "time": times})
        frame.write_parquet(tmp_path / f"{at}.parquet")
        assert cells(read(tmp_path / f"{at}.parquet").ratings) == {("a", "1"): 1.0}
        assert cells(Ratings.of(frame.to_pandas())) == cells(Ratings.of(frame)) == {("a", "1"): 1.0}
    odd = pl.DataFrame({"user": ["a", "a"], "item": [1, 1], "rating": [1, 5], "time": [[2], [1]]})
    odd.write_parquet(tmp_path / "odd.parquet")
    assert cells(read(tmp_path / "odd.parquet").ratings) == cells(Ratings.of(odd)) == {("a", "1"): 5.0}
    named = Columns("user", "item", "rating", "time")
    assert "times must be dates" in refused(lambda: read(tmp_path / "odd.parquet", columns=named))
    lines = '{"user": 1, "item": 2, "rating": 5}\n{"user": 1, "item": 2, "rating": 1, "unixReviewTime": 9}\n'
    first = '{"user": 1, "item": 2, "rating": 3, "unixReviewTime": 4, "reviewTime": "05 6, 2010"}\n'
    assert cells(read(write("r.jsonl", first + lines)).ratings) == {("1", "2"): 1.0}
