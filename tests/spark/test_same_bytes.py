"""A release made by Spark is the release made in memory, bit for bit."""

import numpy as np
import pytest

import pricdr.engines.spark.matrix as spark_matrix
from pricdr import Bounds, Features, Guarantee, Guided, ItemFeatures, Ratings, Spectral, Unit, publish
from pricdr.engines.spark import open_ratings

pytestmark = pytest.mark.spark
PROMISE = Guarantee(epsilon=6, delta=1e-6)


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


def test_learnt_directions(in_memory, everything):
    same(in_memory, everything, strategy="spectral")


def test_sums_in_many_pieces(in_memory, everything, monkeypatch):
    """A sum over items travels in chunks, and a large result partition by partition."""
    monkeypatch.setattr(spark_matrix, "ADDED_UP_BY_DRIVER", 0)
    monkeypatch.setattr(spark_matrix, "CHUNK", 1 << 9)
    monkeypatch.setattr(spark_matrix, "COLLECTED_AT_ONCE", 1)
    same(in_memory, everything, strategy=Spectral(dim=3))


def test_lists_and_users_outside_of_them(in_memory, listed, users, items):
    lists = {"users": users, "items": items}
    same(in_memory, listed, strategy=Spectral(learn_from="all", dim=4), **lists)


def test_users_outside_a_list_over_hashed_items(in_memory, everything, users):
    same(in_memory, everything, strategy=Spectral(learn_from="all", dim=2, buckets=64), users=users)


def test_along_a_guide(in_memory, listed, users, items):
    guide = publish(in_memory, PROMISE, users=users[:50], strategy="spectral")
    same(in_memory, listed, strategy=Guided(dim=3, guide=guide, allow_missing=True), users=users, items=items)


@pytest.mark.parametrize("strategy", ["jlt", "sjlt"])
def test_random_projections(in_memory, listed, users, items, strategy):
    same(in_memory, listed, strategy=strategy, users=users, items=items)


def test_features_of_items(in_memory, listed, users, items):
    vectors = np.random.default_rng(3).standard_normal((len(items), 6))
    same(in_memory, listed, strategy=Features(features=ItemFeatures(items, vectors), dim=4), users=users, items=items)


@pytest.mark.parametrize("strategy", ["spectral", "jlt"])
def test_values_and_whole_users(in_memory, listed, users, items, strategy):
    promise = Guarantee(epsilon=6, delta=1e-6, unit=Unit.USER)
    bounds = Bounds(rating_bound=4, rating_step=0.5, clip=6)
    same(in_memory, listed, promise=promise, bounds=bounds, strategy=strategy, users=users, items=items)


def test_a_threshold(in_memory, table, spark, users, items):
    with open_ratings(str(table), session=spark, threshold=3.5, users=users, items=items) as reading:
        same(in_memory.at_least(3.5), reading.ratings, users=users, items=items)
        assert len(reading.ratings) == len(in_memory.at_least(3.5).select(users, items))


def test_a_table_of_the_catalogue_without_times(rows, table, spark, tmp_path):
    """Without times the largest value of a repeated pair counts; numbers as ids become text."""
    plain = rows.drop("timestamp").with_columns(user=rows["item"].str.slice(1).cast(int))
    plain.write_parquet(tmp_path / "plain.parquet")
    spark.read.parquet(str(tmp_path / "plain.parquet")).write.saveAsTable("plain_ratings")
    try:
        with open_ratings("table:plain_ratings", session=spark) as reading:
            same(Ratings.of(plain), reading.ratings, bounds=Bounds(rating_bound=5, rating_step=0.5))
    finally:
        spark.sql("drop table plain_ratings")


@pytest.mark.parametrize("lists", ["users", "users and items"])
def test_nobody_is_outside_of_the_list(in_memory, everything, lists):
    """A refusal would tell the recipient of the release that nobody else rated anything."""
    given = {"users": in_memory.users, **({} if lists == "users" else {"items": in_memory.items})}
    same(in_memory, everything, strategy=Spectral(learn_from="all", dim=2, buckets=64), **given)


def test_which_zero_comes_first_does_not_change_a_block():
    """Spark gives rows of a pair in any order; a block that is computed again must have the same digest."""
    import pyarrow as pa

    from pricdr.engines.spark.source import checked_batch

    batch = pa.record_batch({"user": ["a", "a"], "item": ["x", "x"], "rating": [-0.0, 0.0]})
    values = checked_batch(batch, time_asked=False).column(2).to_numpy()
    assert not np.signbit(values).any()
