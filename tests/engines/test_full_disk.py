"""A disk that fills up while DuckDB sorts: one line, nothing spent, nothing left behind."""

import duckdb
import numpy as np
import polars as pl
import pytest

from pricdr import Guarantee, Ledger, publish
from pricdr.data.reading import read
from pricdr.data.workspace import Workspace
from pricdr.engines import outofcore
from pricdr.errors import DiskSpaceError


def test_a_disk_that_fills_up_during_the_sort_spends_nothing_and_leaves_nothing(tmp_path, monkeypatch):
    """The sort has less memory than its rows take, so it writes to its folder, which DuckDB keeps below 1 MB."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 500, 600_000) for name in ("user", "item", "rating", "time")}
    pl.DataFrame(columns).write_parquet(tmp_path / "r.parquet")
    ledger = Ledger.create(tmp_path / "budget.jsonl", Guarantee(epsilon=8, delta=1e-6))
    before, connect = ledger.path.read_bytes(), duckdb.connect

    def on_a_small_disk(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.execute("SET max_temp_directory_size = '1MB'")
        return connection

    parent = tmp_path / "disk"
    parent.mkdir()
    with Workspace.opened(parent) as workspace:
        reading = outofcore.read_on_disk(tmp_path / "r.parquet", workspace)
        monkeypatch.setattr(read, "_MIN_MEMORY", 24 * 10**6)
        monkeypatch.setattr(outofcore, "sort_memory", lambda: 24 * 10**6)
        monkeypatch.setattr(duckdb, "connect", on_a_small_disk)
        with pytest.raises(DiskSpaceError) as refused:
            publish(reading.ratings, Guarantee(epsilon=4, delta=1e-6), ledger=ledger)
    assert str(refused.value) == (
        f"cannot sort in {parent}: No space left on device: choose another disk with temp-dir in --config"
    )
    assert ledger.path.read_bytes() == before
    assert not list(parent.iterdir())
