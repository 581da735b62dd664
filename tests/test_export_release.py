"""A release as a data frame of whatever library there is, and as Parquet: the same ids and numbers, in their order."""

import importlib.util

import numpy as np
import polars as pl
import pytest

from pricdr import Guarantee, Ratings, publish
from pricdr.data import tables
from pricdr.errors import MissingExtraError, OutputError, ParameterError
from pricdr.release.folder import export_parquet
from pricdr.strategies import JLT

USERS = ["b", "a", "nobody", "🙂", " spaced ", "007", "q\"uote's"]


@pytest.fixture(scope="module")
def release():
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"])
    return publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=11), users=USERS)


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_a_frame_is_of_the_library_that_is_installed(release, monkeypatch, library):
    monkeypatch.setattr(tables, "find_spec", lambda name: name == library)
    frame = release.to_frame()
    assert type(frame).__module__.startswith(library)
    columns = frame.to_pydict() if library == "pyarrow" else {name: list(frame[name]) for name in ("user", "vector")}
    assert columns["user"] == USERS
    assert (np.stack([np.asarray(row, np.float32) for row in columns["vector"]]) == release.matrix).all()


def test_without_any_library_there_is_one_clear_line(release, monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="polars, pandas or pyarrow"):
        release.to_frame()
    assert importlib.util.find_spec("polars")


def test_an_export_holds_the_rows_of_the_release(release, tmp_path):
    frame = pl.read_parquet(export_parquet(release, tmp_path / "it's.parquet"))
    assert frame.schema == {"user": pl.String, "vector": pl.List(pl.Float32)}
    assert frame["user"].to_list() == USERS
    assert np.stack(frame["vector"].to_list()).astype(np.float32).tobytes() == release.matrix.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["it's.parquet"]


def test_an_export_is_a_new_file_beside_releases(release, tmp_path):
    folder = release.save(tmp_path / "r")
    with pytest.raises(OutputError, match="would spoil it"):
        export_parquet(release, folder / "rows.parquet")
    with pytest.raises(ParameterError, match=r"must end in \.parquet, got 'rows\.csv'"):
        export_parquet(release, tmp_path / "rows.csv")
    (tmp_path / "taken.parquet").touch()
    with pytest.raises(OutputError, match="exists already"):
        export_parquet(release, tmp_path / "taken.parquet")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r", "taken.parquet"]
