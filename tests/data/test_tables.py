"""Tables as files: what goes in comes back, the same bytes each time, and one line where the disk is full."""

import csv
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from hypothesis import given, settings, strategies as st

from pricdr.data.tables import read_positions, texts, to_frame, write_table

IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
SCORES = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(max_examples=12)
@given(rows=st.lists(st.tuples(IDS, SCORES, st.integers(1, 99)), max_size=20))
def test_a_table_is_read_back_from_either_format_by_other_readers(rows):
    names, scores, ranks = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {
        "user": texts(names),
        "score": np.array(scores, dtype=np.float64),
        "rank": np.array(ranks, dtype=np.int64),
    }
    with TemporaryDirectory() as folder:
        parquet, text = Path(folder, "t.parquet"), Path(folder, "t.csv")
        assert write_table(parquet, columns) == write_table(text, columns) == len(rows)
        assert pl.read_parquet(parquet).rows() == rows
        assert pl.read_parquet(parquet).equals(to_frame(columns))
        distinct = sorted(set(names))
        assert tuple(distinct[at] for at in read_positions(parquet, {"user": distinct})[0]) == names
        with text.open(newline="", encoding="utf-8") as file:
            header, *read = csv.reader(file)
    assert header == ["user", "score", "rank"]
    assert [(name, float(score), int(rank)) for name, score, rank in read] == rows


def test_neither_cores_nor_memory_change_a_byte(tmp_path, monkeypatch):
    """Of a table of several row groups, written at once or merged from parts."""
    names = texts([f"user {at}" for at in range(9_000)], np.arange(300_000) % 9_000)
    columns = {"user": names, "score": np.random.default_rng(1).standard_normal(300_000)}
    halves = [
        {name: values[half] for name, values in columns.items()} for half in (slice(140_000), slice(140_000, None))
    ]
    parts = [tmp_path / "a[1].parquet", tmp_path / "b.parquet"]
    for part, half in zip(parts, halves, strict=True):
        write_table(part, half)
    written, merged = set(), set()
    for cores, memory in ((1, "100MB"), (2, "2GB"), (5, "400MB")):
        monkeypatch.setattr("pricdr.data.reading.read.cores", lambda cores=cores: cores)
        monkeypatch.setenv("PRICDR_MEMORY", memory)
        whole, joined = tmp_path / f"whole{cores}.parquet", tmp_path / f"joined{cores}.csv"
        write_table(whole, columns)
        assert write_table(joined, parts, folder=tmp_path) == 300_000
        written.add(whole.read_bytes())
        merged.add(joined.read_bytes())
    assert len(written) == len(merged) == 1
    write_table(tmp_path / "at once.csv", columns)
    assert {(tmp_path / "at once.csv").read_bytes()} == merged


def test_a_name_that_is_not_utf_8_can_be_written_and_read(tmp_path):
    write_table(tmp_path / "r\udcff.parquet", {"user": texts(["a", "b", "a"])})
    assert read_positions(tmp_path / "r\udcff.parquet", {"user": ["b", "a"]})[0].tolist() == [1, 0, 1]


TOO_LARGE = """
import resource, numpy as np
from pathlib import Path
from pricdr.data.tables import write_table
from pricdr.errors import OutputError
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for name in ("r.parquet", "r.csv"):
    try:
        write_table(Path(name), {"x": np.random.default_rng(1).random(90_000)})
    except OutputError as error:
        print(error)
"""


def test_a_file_that_may_not_grow_is_one_line_and_leaves_nothing(tmp_path):
    done = subprocess.run([sys.executable, "-c", TOO_LARGE], cwd=tmp_path, capture_output=True, text=True, check=False)
    says = [f"cannot write {name}: File too large" for name in ("r.parquet", "r.csv")]
    assert (done.returncode, done.stdout.splitlines()) == (0, says), done.stderr
    assert not list(tmp_path.iterdir())
