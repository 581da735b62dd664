"""Ratings on disk give the same release as ratings in memory, byte for byte."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricdr import Bounds, Guarantee, Ratings, Unit, publish
from pricdr.data.features import ItemFeatures
from pricdr.data.reading.formats import ReadOptions
from pricdr.data.workspace import Workspace
from pricdr.engines.outofcore import read_on_disk
from pricdr.strategies import JLT, SJLT, Features, Guided, Spectral


def table(rng, rows=300, users=40, items=25, *, values=True, times=True) -> pl.DataFrame:
    """Return unordered rows with many repeated pairs, and names that sort differently as numbers or in UTF-16."""
    names = [f"{kind}{n}" for n in range(max(users, items)) for kind in ("u", "Z", "é", "𐍈", "\uff5e")]
    columns = {
        "user": rng.choice(names[:users], rows),
        "item": rng.choice(names[:items], rows),
    }
    if values:
        columns["rating"] = rng.integers(-2, 13, rows) / 2
    if times:
        columns["time"] = pl.Series(rng.integers(0, 3, rows), dtype=pl.Float64).set(
            pl.Series(rng.random(rows) < 0.1), None
        )
    return pl.DataFrame(columns)


def in_memory(frame: pl.DataFrame, threshold: float | None) -> Ratings:
    ratings = Ratings.of(frame)
    return ratings if threshold is None else ratings.at_least(threshold)


def bytes_of(release) -> bytes:
    return release.matrix.tobytes() + "\n".join(release.users).encode()


def named(names, rng, share=0.7, strangers=3):
    """Return an unordered list: some of the names, and some that occur in no row."""
    chosen = [name for name in names if rng.random() < share] + [f"stranger{n}" for n in range(strangers)]
    return tuple(rng.permutation(chosen).tolist())


def strategy_named(name, users, items):
    if name == "guided":
        other = Ratings.from_triples(users, ["x"] * len(users))
        guide = publish(other, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=3), users=users, insecure_seed=5)
        return Guided(guide=guide, dim=2)
    table = ItemFeatures(tuple(items), np.random.default_rng(0).standard_normal((len(items), 5)))
    return {
        "jlt": JLT(dim=5),
        "sjlt": SJLT(dim=6),
        "features": Features(features=table, dim=3),
        "spectral": Spectral(dim=2),
        "spectral all": Spectral(dim=2, learn_from="all", buckets=64),
    }[name]


STRATEGIES = ("jlt", "sjlt", "features", "spectral", "spectral all", "guided")


@contextmanager
def on_disk(frame, **options):
    """Yield the ratings in a frame, read from a file and kept on disk."""
    with tempfile.TemporaryDirectory() as folder, Workspace.opened(Path(folder)) as workspace:
        frame.write_parquet(workspace.folder / "r.parquet")
        yield read_on_disk(workspace.folder / "r.parquet", ReadOptions(), workspace, **options)


def both(frame, strategy, guarantee, bounds, *, threshold, users, items):
    """Return the bytes of the rows and of the certificate, from memory and from disk."""
    arguments = {
        "strategy": strategy,
        "bounds": bounds,
        "users": users,
        "items": items,
        "insecure_seed": 3,
        "allow_not_private_guide": True,
    }
    expected = publish(in_memory(frame, threshold), guarantee, **arguments)
    with on_disk(frame, keep_values=bounds.rating_bound is not None, threshold=threshold) as reading:
        actual = publish(reading.ratings, guarantee, **arguments)
        return (bytes_of(expected), expected.certificate.to_bytes()), (bytes_of(actual), actual.certificate.to_bytes())


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(
    ("unit", "kind", "lists"),
    [
        (Unit.RATING, "presence", False),
        (Unit.USER, "threshold", True),
        (Unit.RATING, "values", True),
        (Unit.USER, "values", False),
    ],
    ids=["rating", "user, threshold, lists", "values, lists", "user, values"],
)
def test_every_strategy_gives_the_same_bytes(name, unit, kind, lists, rng):
    frame = table(rng)
    guarantee = Guarantee(epsilon=4, delta=1e-6, unit=unit)
    clip = 3.0 if unit is Unit.USER else None
    bounds = Bounds(rating_bound=5, rating_step=0.5, clip=clip) if kind == "values" else Bounds(clip=clip)
    users = items = None
    if lists or name == "spectral all":
        users = named(frame["user"].unique().sort(), rng)
    if lists:
        items = named(frame["item"].unique().sort(), rng)
    known = items or tuple(frame["item"].unique().sort())
    strategy = strategy_named(name, users or tuple(frame["user"].unique().sort()), known)
    threshold = 2.5 if kind == "threshold" else None
    expected, actual = both(frame, strategy, guarantee, bounds, threshold=threshold, users=users, items=items)
    assert expected == actual


def test_rows_that_a_file_backs_are_the_same_too(rng, monkeypatch):
    backed = []
    monkeypatch.setattr("pricdr.engines.outofcore.LARGE", 0)
    monkeypatch.setattr(
        Workspace, "array", lambda *arguments, make=Workspace.array: backed.append(1) or make(*arguments)
    )
    strategy, promise = JLT(dim=5), Guarantee(epsilon=4, delta=1e-6)
    expected, actual = both(table(rng), strategy, promise, Bounds(), threshold=None, users=None, items=None)
    assert expected == actual
    assert backed


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_same_ratings_however_sorted_rows_are_cut(data):
    """Parts of one row, one user with most of the rows, missing columns."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    frame = table(
        rng,
        rows=data.draw(st.integers(1, 60)),
        users=data.draw(st.integers(1, 12)),
        items=data.draw(st.integers(1, 12)),
        values=data.draw(st.booleans()),
        times=data.draw(st.booleans()),
    )
    if data.draw(st.booleans()):  # skew: nearly everything is of one user
        frame = frame.with_columns(
            pl.when(pl.Series(rng.random(len(frame)) < 0.9)).then(pl.lit("u0")).otherwise("user").alias("user")
        )
    threshold = data.draw(st.none() | st.integers(-3, 13).map(lambda t: t / 2)) if "rating" in frame.columns else None
    expected = in_memory(frame, threshold)
    users = data.draw(st.none() | st.just(named(expected.users, rng)))
    items = data.draw(st.none() | st.just(named(expected.items, rng)))
    chunk = data.draw(st.integers(1, 70))
    with pytest.MonkeyPatch.context() as patch, on_disk(frame, threshold=threshold) as reading:
        patch.setattr("pricdr.engines.outofcore._ROWS_AT_A_TIME", chunk)
        assert_same(reading.ratings.select(users, items), expected.select(users, items))
        assert (reading.rows, reading.raters) == (len(frame), expected.users)
        if users is not None:
            assert_same(reading.ratings.outside(users, expected.items), expected.outside(users, expected.items))


def assert_same(actual, expected):
    assert (actual.users, actual.items, actual.has_values) == (expected.users, expected.items, expected.has_values)
    rebuilt = np.zeros(expected.matrix.shape)
    there = np.zeros(expected.matrix.shape, dtype=bool)

    def fill(block, start):
        rebuilt[start : start + block.shape[0]] = block.toarray()
        there[start : start + block.shape[0]][block.tocoo().coords] = True
        return np.zeros((block.shape[0], 1))

    actual.units(lambda block: block).rows(fill, np.empty((len(actual.users), 1)), block_rows=3)
    np.testing.assert_array_equal(rebuilt, expected.matrix.toarray())
    stored = np.zeros(expected.matrix.shape, dtype=bool)
    stored[expected.matrix.tocoo().coords] = True
    np.testing.assert_array_equal(there, stored)
    assert len(actual) == len(expected)
