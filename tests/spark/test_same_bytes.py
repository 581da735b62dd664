"""A release made by Spark is the release made in memory, bit for bit."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest

import pricdr
import pricdr.engines.spark.blocks as spark_blocks
from pricdr import Bounds, Guarantee, Ratings, Unit, publish
from pricdr.data.features import ItemFeatures
from pricdr.data.periods import Window
from pricdr.engines.spark import open_ratings
from pricdr.errors import InputError, ParameterError
from pricdr.strategies import JLT, Features, Guided, Spectral

pytestmark = pytest.mark.spark
PROMISE = Guarantee(epsilon=6, delta=1e-6)
WEEKS = Window.parse("2026-01-01", "2027-01-01", "7d")


@pytest.fixture(scope="module")
def in_memory(rows):
    return Ratings.of(rows)


@pytest.fixture(scope="module")
def everything(table, spark):
    with open_ratings(str(table), session=spark) as reading:
        yield reading.ratings


@pytest.fixture(scope="module")
def listed(table, spark, users, items):
    with open_ratings(str(table), session=spark, users=users, items=items) as reading:
        yield reading.ratings


def same(here, there, **arguments):
    """Publish both, and compare matrix, users and certificate."""
    arguments = {"insecure_seed": 11, **arguments}
    promise = arguments.pop("promise", PROMISE)
    a, b = publish(here, promise, **arguments), publish(there, promise, **arguments)
    assert a.users == b.users
    assert a.matrix.tobytes() == b.matrix.tobytes()
    assert a.certificate == b.certificate
    return a


def test_ids_and_counts_are_those_of_memory(in_memory, everything):
    assert everything.users == in_memory.users
    assert everything.items == in_memory.items
    assert len(everything) == len(in_memory)


def test_sums_in_many_pieces(in_memory, everything, monkeypatch):
    """A sum over items travels in chunks, and a large result partition by partition."""
    monkeypatch.setattr(spark_blocks, "CHUNK", 1 << 9)
    monkeypatch.setattr(spark_blocks, "COLLECTED_AT_ONCE", 1)
    same(in_memory, everything, strategy=Spectral(dim=2))


def test_lists_leave_all_others_out(in_memory, everything, listed, users, items):
    same(in_memory, listed, strategy=Spectral(dim=4), users=users, items=items)
    same(in_memory, everything, strategy=Spectral(dim=2), users=users)


def test_along_a_guide(in_memory, listed, users, items):
    guide = publish(in_memory, PROMISE, users=users[:50], strategy="spectral")
    same(in_memory, listed, strategy=Guided(dim=3, guide=guide, allow_missing=True), users=users, items=items)


@pytest.mark.parametrize("strategy", ["sjlt", "features"])
def test_directions_that_are_not_learnt(in_memory, listed, users, items, strategy):
    vectors = np.random.default_rng(3).standard_normal((len(items), 6))
    chosen = Features(features=ItemFeatures(items, vectors), dim=4) if strategy == "features" else strategy
    same(in_memory, listed, strategy=chosen, users=users, items=items)


@pytest.mark.parametrize("strategy", ["spectral", "jlt"])
def test_values_and_whole_users(in_memory, listed, users, items, strategy):
    promise = Guarantee(epsilon=6, delta=1e-6, unit=Unit.USER)
    bounds = Bounds(rating_bound=4, rating_step=0.5, clip=6)
    same(in_memory, listed, promise=promise, bounds=bounds, strategy=strategy, users=users, items=items)


def test_a_threshold(in_memory, table, spark, users, items):
    with open_ratings(str(table), session=spark, threshold=3.5, users=users, items=items) as reading:
        same(in_memory.at_least(3.5), reading.ratings, strategy="jlt", users=users, items=items)
        assert len(reading.ratings) == len(in_memory.at_least(3.5).select(users, items))


def test_a_table_of_the_catalogue_without_times(rows, table, spark, tmp_path):
    """Without times the largest value of a repeated pair counts; numbers as ids become text."""
    plain = rows.drop("timestamp").with_columns(user=rows["item"].str.slice(1).cast(int))
    plain.write_parquet(tmp_path / "plain.parquet")
    spark.read.parquet(str(tmp_path / "plain.parquet")).write.saveAsTable("plain_ratings")
    try:
        with open_ratings("table:plain_ratings", session=spark) as reading:
            same(Ratings.of(plain), reading.ratings, strategy=JLT(dim=4), bounds=STARS)
    finally:
        spark.sql("drop table plain_ratings")


STARS = Bounds(rating_bound=5, rating_step=0.5)


def test_times_without_a_zone_are_utc(spark, tmp_path):
    """Parquet of pandas and polars has such a type of its own."""
    times = [datetime(2024, 5, 31, hour) for hour in (14, 12, 13)]
    ratings = {"user": ["u"] * 3, "item": ["x"] * 3, "rating": [1.0, 2.0, 3.0], "time": times}
    pl.DataFrame(ratings).write_parquet(tmp_path / "r.parquet")
    expected = pricdr.read_ratings(tmp_path / "r.parquet")
    assert expected.matrix.data.tolist() == [1.0]
    with open_ratings(str(tmp_path / "r.parquet"), session=spark) as reading:
        same(expected, reading.ratings, strategy=JLT(dim=4), bounds=Bounds(rating_bound=5, rating_step=1))


TIMES = (
    "7", "-7.5", "1e3", " 8 ", ".5", "5.", "1d", "1_0", "+-1", "inf", "NaN", "", "soon", None, "0x10",
    "2024-05-31", "2024-05-31T12:00", "2024-05-31 12:00:00.5Z", "2024-05-31T12:00:00+02:00", "2024-02-30",
    "2024-05-31T25:00", "99999-01-01", "2024-5-1", "1999-12-31T23:59:59-11:30",
)  # fmt: skip


def test_times_as_text_and_zeros_of_both_signs(spark, tmp_path):
    """Spark reads them in SQL, and a row that no reader takes for a time is the earliest of its pair for all."""
    pairs = [(f"u{at}", "x", value, time) for at in range(len(TIMES)) for value, time in ((2.0, TIMES[at]), (5.0, "1"))]
    zeros = [("z", "y", -0.0, "3"), ("z", "y", 0.0, "3")]
    frame = pl.DataFrame([*pairs, *zeros], schema=["user", "item", "rating", "time"], orient="row")
    frame.write_parquet(tmp_path / "r.parquet")
    expected = pricdr.read_ratings(tmp_path / "r.parquet")
    with open_ratings(str(tmp_path / "r.parquet"), session=spark) as reading:
        same(expected, reading.ratings, strategy=JLT(dim=4), bounds=Bounds(rating_bound=5, rating_step=1))


def test_rows_of_a_period_are_those_of_memory(tmp_path, spark):
    """Whatever rows of other days there are, and rows without a time; a time that cannot be read is refused."""
    days = ["2026-03-01", "2027-01-01", "2026-12-31T23:59:59Z", None, "2025-12-31"]
    rows = {"user": list("abcab"), "item": list("xxyyx"), "rating": [1.0, 2.0, 3.0, 4.0, 5.0], "time": days}
    window, table = Window.parse("2026-01-01", "2027-01-01"), tmp_path / "timed.parquet"
    frame = pl.DataFrame(rows)
    frame.write_parquet(table)
    promise = Guarantee(epsilon=6, delta=1e-6, window=window)
    with open_ratings(str(table), session=spark, window=window) as reading:
        release = same(Ratings.of(frame, window=window), reading.ratings, promise=promise, strategy=JLT(dim=4))
    assert release.users == ("a", "c")
    frame.with_columns(time=pl.lit("in May")).write_parquet(table)
    with pytest.raises(InputError, match="is not a time"), open_ratings(str(table), session=spark, window=window):
        pass
    frame.drop("time").write_parquet(table)
    with pytest.raises(InputError, match="no time column"), open_ratings(str(table), session=spark, window=window):
        pass
    with pytest.raises(ParameterError, match="for ratings in memory"), open_ratings(str(table), window=WEEKS):
        pass
