"""Ratings on disk are those in memory, entry by entry; ``tests/golden`` compares releases of every strategy."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from pricdr import Bounds, Guarantee, Ratings, publish
from pricdr.data.workspace import Workspace
from pricdr.engines.outofcore import read_on_disk
from pricdr.strategies import JLT


def table(rng, rows=300, users=40, items=25, *, values=True, times=True) -> pl.DataFrame:
    """Return unordered rows with many repeated pairs, and names that sort differently as numbers or in UTF-16."""
    names = [f"{kind}{n}" for n in range(max(users, items)) for kind in ("u", "Z", "é", "𐍈", "\uff5e")]
    columns = {"user": rng.choice(names[:users], rows), "item": rng.choice(names[:items], rows)}
    if values:
        columns["rating"] = rng.integers(-2, 13, rows) / 2
    if times:
        columns["time"] = [None if rng.random() < 0.1 else float(time) for time in rng.integers(0, 3, rows)]
    return pl.DataFrame(columns, schema_overrides={"time": pl.Float64} if times else None)


def in_memory(frame: pl.DataFrame, threshold: float | None) -> Ratings:
    ratings = Ratings.of(frame)
    return ratings if threshold is None else ratings.at_least(threshold)


def named(names, rng):
    """Return an unordered list: most of the names, and some that occur in no row."""
    chosen = [name for name in names if rng.random() < 0.7] + [f"stranger{n}" for n in range(3)]
    return tuple(rng.permutation(chosen).tolist())


@contextmanager
def on_disk(frame, **options):
    """Yield the ratings in a frame, read from a file and kept on disk."""
    with tempfile.TemporaryDirectory() as folder, Workspace.opened(Path(folder)) as workspace:
        frame.write_parquet(workspace.folder / "r.parquet")
        yield read_on_disk(workspace.folder / "r.parquet", workspace, **options)


def test_rows_that_a_file_backs_are_the_same_too(rng, monkeypatch):
    backed = []
    monkeypatch.setattr("pricdr.engines.outofcore.LARGE", 0)
    monkeypatch.setattr(
        Workspace, "array", lambda *arguments, make=Workspace.array: backed.append(1) or make(*arguments)
    )
    frame, promise = table(rng), Guarantee(epsilon=4, delta=1e-6)
    arguments = {"strategy": JLT(dim=5), "bounds": Bounds(rating_bound=5, rating_step=0.5), "insecure_seed": 3}
    expected = publish(in_memory(frame, None), promise, **arguments)
    with on_disk(frame) as reading:
        actual = publish(reading.ratings, promise, **arguments)
        assert actual.matrix.tobytes() == expected.matrix.tobytes()
    assert (actual.users, actual.certificate) == (expected.users, expected.certificate)
    assert backed


@given(st.data())
@settings(max_examples=20)
@pytest.mark.slow
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


def assert_same(actual, expected):
    assert (actual.users, actual.items, actual.has_values) == (expected.users, expected.items, expected.has_values)
    rebuilt = np.full(expected.matrix.shape, np.nan)

    def fill(block, start):
        stored = block.tocoo()
        rebuilt[start : start + block.shape[0]][stored.coords] = stored.data
        return np.zeros((block.shape[0], 1))

    actual.units(lambda block: block).rows(fill, np.empty((len(actual.users), 1)), block_rows=3)
    stored, there = expected.matrix.tocoo(), np.full(expected.matrix.shape, np.nan)
    there[stored.coords] = stored.data
    np.testing.assert_array_equal(rebuilt, there)
    assert len(actual) == len(expected)
