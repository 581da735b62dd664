"""Data frames: what comes out goes back in, and a frame is read and refused as a file with the same rows."""

import csv
import io
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from pricdr import Ratings, read_ratings
from pricdr.errors import InputError, ParameterError

IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), min_size=0, max_size=6)
VALUES = st.floats(-1e9, 1e9) | st.sampled_from([np.nan, np.inf])
ROWS = st.lists(st.tuples(IDS, IDS, VALUES), min_size=1, max_size=20)


class Stream:
    """Offers the Arrow PyCapsule interface and nothing else."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame.__arrow_c_stream__(requested_schema)


WAYS = {
    "polars": lambda frame: frame,
    "pandas": lambda frame: pd.DataFrame(frame.to_dict(as_series=False)),
    "pandas objects": lambda frame: pd.DataFrame(frame.to_dict(as_series=False), dtype=object),
    "pandas arrow": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "arrow": lambda frame: frame.to_arrow(),
    "capsules": Stream,
}


@pytest.fixture(params=WAYS)
def taken(request):
    """Ratings from a polars frame by way of another library."""
    return lambda frame, **columns: Ratings.of(WAYS[request.param](frame), **columns)


def _same(one: Ratings, other: Ratings) -> bool:
    return (
        (one.users, one.items, one.has_values) == (other.users, other.items, other.has_values)
        and np.array_equal(one.matrix.indptr, other.matrix.indptr)
        and np.array_equal(one.matrix.indices, other.matrix.indices)
        and np.array_equal(one.matrix.data, other.matrix.data)
    )


def _outcome(call):
    """The ratings, or which value of which row is refused: "row 3: the user" (a file also tells the line)."""
    try:
        return call()
    except InputError as error:
        rule = re.sub(r" \(line \d+\)", "", str(error).split(": ", 1)[1])
        return " ".join(rule.split()[:4])


@settings(max_examples=25)
@given(rows=ROWS, way=st.sampled_from(sorted(WAYS)))
def test_a_frame_is_read_like_a_file_of_the_same_rows(tmp_path_factory, rows, way):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("user_id", "item_id", "rating"), *rows])
    path = tmp_path_factory.mktemp("csv") / "r.csv"
    path.write_bytes(text.getvalue().encode())
    expected = _outcome(lambda: read_ratings(path))
    frame = pl.DataFrame(rows, schema={"user_id": pl.String, "item_id": pl.String, "rating": pl.Float64}, orient="row")
    found = _outcome(lambda: Ratings.of(WAYS[way](frame)))
    assert found == expected if isinstance(expected, str) else _same(found, expected)


@settings(max_examples=20)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.floats(-9, 9)), min_size=1, max_size=40),
    has_values=st.booleans(),
    way=st.sampled_from(["polars", "pandas", "pyarrow", "capsules"]),
)
def test_what_goes_out_comes_back(pairs, has_values, way):
    users, items, values = zip(*((f"u {u}", f"é{i}", value) for u, i, value in pairs), strict=True)
    ratings = Ratings.from_triples(users, items, values)
    ratings = ratings if has_values else ratings.positives()
    frame = Stream(ratings.to_frame()) if way == "capsules" else ratings.to_frame(way)
    assert _same(Ratings.of(frame), ratings)


def test_whole_numbers_become_decimal_text_and_repeated_pairs_keep_the_largest(taken):
    frame = pl.DataFrame({"userId": [10, 9, 10], "movieId": [-1, 7, -1], "time": [0, 0, 0], "stars": [3, 4, 5]})
    assert taken(frame).to_frame().rows() == [("10", "-1", 5.0), ("9", "7", 4.0)]
    assert taken(frame.drop("stars")).to_frame().rows() == [("10", "-1"), ("9", "7")]


def test_columns_may_be_named(taken):
    frame = pl.DataFrame({"buyer": ["a"], "user": ["no"], "item": ["x"], "thing": ["y"], "label": [2.0]})
    ratings = taken(frame, user="buyer", item="thing", rating="label")
    assert (ratings.users, ratings.items, ratings.matrix.data.tolist()) == (("a",), ("y",), [2.0])
    assert taken(frame, user="buyer").items == ("x",)
    assert taken(frame, user="thing", item="user").users == ("y",)
    with pytest.raises(InputError, match="no item column in the header"):
        taken(frame, user="item")
    with pytest.raises(ParameterError, match="different columns"):
        taken(frame, user="thing", item="thing")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"buyer": ["a"], "item": ["x"]}, "no user column in the header ['buyer', 'item']; name them with user=…"),
        ({"user": ["a"], "item": ["x"], "score": [1], "stars": [2]}, "could be the rating column: 'score' and 'stars'"),
        (dict.fromkeys(("user", "item"), pl.Series([], dtype=pl.String)), "it has columns and no rows"),
        ({"user": ["a", None], "item": ["x", "y"]}, "row 2: the user id is empty (null)"),
        (
            {"user": ["a"], "item": ["x"], "rating": ["good"]},
            ("the rating column holds VARCHAR; ratings", "the rating 'good' is not a finite number"),
        ),
        (
            {"user": [1.5], "item": ["x"]},
            ("the user column holds DOUBLE; ids must be", "the user id 1.5 must be text or a whole number"),
        ),
    ],
)
def test_what_is_refused(taken, refused, columns, message):
    refusal = refused(lambda: taken(pl.DataFrame(columns)))
    assert refusal.startswith("the data frame: ")
    # Columns without a type hold Python values, which are judged one by one.
    assert any(part in refusal for part in ((message,) if isinstance(message, str) else message))
    assert "--columns" not in refusal


def test_what_is_peculiar_to_pandas_and_arrow(refused):
    categories = pd.DataFrame({"user": pd.Categorical(["b", "a"]), "item": pd.array([1, 2], dtype="Int64")})
    assert Ratings.of(categories).items == ("1", "2")
    mixed = pd.DataFrame({"user": ["1", 1], "item": ["x", "y"]})
    assert Ratings.of(mixed).users == ("1",)
    missing = pd.DataFrame({"user": [1, None], "item": ["x", "y"]})
    assert "holds DOUBLE; ids must be text" in refused(lambda: Ratings.of(missing))
    half = pd.DataFrame({"user": pd.Series(["a", "\ud800"], dtype=object), "item": ["x", "y"]})
    assert "row 2: the user id" in refused(lambda: Ratings.of(half))
    twice = pd.DataFrame([["a", "b", "x"]], columns=["user", "user", "item"])
    assert "more than once: 'user'" in refused(lambda: Ratings.of(twice))
    numbered = pd.DataFrame([["a", "x"]], columns=[0, 1])
    assert Ratings.of(numbered, user="0", item="1").users == ("a",)
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["user", "user"])
    assert "no item column" in refused(lambda: Ratings.of(table))
    anywhere = pd.DataFrame({"user": ["a", "b"], "item": ["x", "y"], "rating": [1, 2.5]}, index=[7, 7])
    assert Ratings.of(anywhere).matrix.data.tolist() == [1.0, 2.5]


def test_a_text_among_dates_does_not_decide_how_the_dates_are_read():
    """One column of objects in pandas: each time is read by its own type."""
    times = [pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-01"), "soon"]
    columns = {"user": ["a", "a", "b"], "item": ["x", "x", "x"], "rating": [1.0, 5.0, 2.0]}
    for rows in (2, 3):
        frame = pd.DataFrame({**columns, "time": pd.Series(times, dtype=object)})[:rows]
        assert Ratings.of(frame).to_frame().rows()[0] == ("a", "x", 1.0)
