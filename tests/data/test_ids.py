"""Ids are accepted as lists, arrays and columns; whole numbers become their decimal text."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from pricdr import Ratings
from pricdr.data.ids import as_ids
from pricdr.errors import ParameterError

NUMBERS = {
    "list": [1, 20],
    "tuple": (1, 20),
    "numpy": np.array([1, 20]),
    "numpy scalars": [np.int64(1), np.uint8(20)],
    "pandas": pd.Series([1, 20]),
    "pandas nullable": pd.Series([1, 20], dtype="Int64"),
    "pandas arrow": pd.Series([1, 20], dtype="int64[pyarrow]"),
    "index": pd.Index([1, 20]),
    "polars": pl.Series([1, 20], dtype=pl.UInt32),
    "arrow": pa.array([1, 20]),
    "arrow chunks": pa.chunked_array([[1], [20]]),
    "generator": (number for number in (1, 20)),
    "text": ["1", "20"],
    "numpy text": np.array(["1", "20"]),
    "categories": pd.Series(pd.Categorical(["1", "20"])),
    "mixed": [1, "20"],
}


FRAMES = (pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table)


def test_every_kind_of_list_gives_text():
    for kind, given in NUMBERS.items():
        ids = as_ids("users", given)
        assert ids == ("1", "20"), kind
        assert {type(name) for name in ids} == {str}


def test_anything_else_is_refused_in_one_clear_line(refused):
    for ids, says in (
        ("12", "users must be a list of ids, got the text '12'"),
        (b"12", "users must be a list of ids, got the text b'12'"),
        ([1.0], "users must be text or whole numbers, got 1.0 at position 1 (cast a column of floats)"),
        (np.array([1.0, 2.0]), "got 1.0 at position 1 (cast"),
        (pd.Series([1, None]), "got 1.0 at position 1 (cast"),
        (["a", None], "got None at position 2"),
        ([True], "got True at position 1"),
        (7, "users must be a list of ids, got 7"),
        *((one({"user": [1]}), "one column of ids, got a data frame") for one in FRAMES),
    ):
        assert says in refused(lambda ids=ids: as_ids("users", ids), ParameterError)


def test_triples_accept_whole_numbers():
    ratings = Ratings.from_triples(np.array([2, 10]), pd.Series([7, 7]), [1, 2])
    assert (ratings.users, ratings.items) == (("10", "2"), ("7",))


def test_triples_refuse_values_that_are_not_a_list_of_numbers(refused):
    for values in (["five"], [None, None], [[1.0], [2.0]], 5.0, [[1.0], [2.0, 3.0]]):
        message = refused(lambda values=values: Ratings.from_triples(["a", "b"], ["x", "y"], values))
        assert "ratings must be" in message
