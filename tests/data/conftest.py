import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pricdr import Ratings

Write = Callable[[str, str | bytes | pl.DataFrame], Path]


def cells(ratings: Ratings) -> dict[tuple[str, str], float]:
    """The value of every rated pair; 1 where there are no values."""
    stored = ratings.matrix.tocoo()
    places = zip(*stored.coords, stored.data, strict=True)
    return {(ratings.users[user], ratings.items[item]): float(value) for user, item, value in places}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a real file; a name that ends in .gz is compressed, a data frame becomes Parquet."""

    def make(name: str, content: str | bytes | pl.DataFrame) -> Path:
        path = tmp_path / name
        if isinstance(content, pl.DataFrame):
            content.write_parquet(path)
            return path
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return make
