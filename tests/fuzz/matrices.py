"""The table of a release, written anew by somebody else: other ids, numbers, types, columns and encodings."""

import io
from random import Random
from typing import Any

import polars as pl

from tests.fuzz.mutations import TEXTS, mutate_bytes
from tests.fuzz.parquet_files import mutate_parquet

_NUMBERS = (float("nan"), float("inf"), 3e38, 1e-45, 0.0, 0.1, -1.0)
_TYPES = (pl.Float64, pl.Int32, pl.Float16, pl.String, pl.Boolean)
_HOW: tuple[dict[str, Any], ...] = (
    {"compression": "uncompressed", "statistics": False},
    {"compression": "uncompressed", "statistics": True, "row_group_size": 3},
    {"compression": "zstd"},
    {"compression": "snappy"},
    {"compression": "gzip"},
)


def mutate_matrix(rng: Random, content: bytes, other: bytes) -> bytes:
    """Change the bytes, the footer, or the table itself; ``content`` is honest, since it is decoded here."""
    draw = rng.randrange(10)
    if draw < 2:
        return mutate_bytes(rng, content, other)
    if draw < 6:
        return mutate_parquet(rng, content)
    if draw == 6:
        return other
    changed = rng.choice(_CHANGES)(rng, pl.read_parquet(io.BytesIO(content)))
    buffer = io.BytesIO()
    changed.write_parquet(buffer, **(_HOW[0] if rng.random() < 0.7 else rng.choice(_HOW)))
    return buffer.getvalue()


def _ids(rng: Random, frame: pl.DataFrame) -> pl.DataFrame:
    users = frame["user"].to_list()
    for _ in range(rng.choice((1, 1, 3))):
        users[rng.randrange(len(users))] = rng.choice((*TEXTS, *users, None, "x" * 5000))
    return frame.with_columns(pl.Series("user", users, dtype=pl.String))


def _values(rng: Random, frame: pl.DataFrame) -> pl.DataFrame:
    rows = frame["vector"].to_list()
    row = list(rng.choice(rows))
    row[rng.randrange(len(row))] = rng.choice((*_NUMBERS, None))
    rows[rng.randrange(len(rows))] = row if rng.random() < 0.95 else None
    if rng.random() < 0.1:
        rows = [row and [value and value * 0.5 for value in row] for row in rows]
    return frame.with_columns(pl.Series("vector", rows, dtype=frame["vector"].dtype))


def _types(rng: Random, frame: pl.DataFrame) -> pl.DataFrame:
    if rng.random() < 0.3:
        return frame.with_columns(user=pl.int_range(pl.len()))
    width = frame["vector"].dtype.size
    kinds = (pl.List(pl.Float32), pl.Array(pl.Array(pl.Float32, width), 1), *(pl.Array(k, width) for k in _TYPES))
    kind = rng.choice(kinds)
    rows = frame["vector"].to_list()
    nested = isinstance(kind, pl.Array) and isinstance(kind.inner, pl.Array)
    rows = [[row] for row in rows] if nested else rows
    return frame.with_columns(pl.Series("vector", rows, dtype=None if kind.inner in _TYPES[1:] else kind, strict=False))


def _shape(rng: Random, frame: pl.DataFrame) -> pl.DataFrame:
    draw = rng.randrange(6)
    if draw == 0:
        return frame.head(rng.randrange(len(frame)))
    if draw == 1:
        return pl.concat([frame, frame])
    if draw == 2:
        return frame.select(reversed(frame.columns))
    if draw == 3:
        return frame.with_columns(rating=pl.lit(rng.choice((1, None, "x"))))
    if draw == 4:
        return frame.rename({"user": rng.choice(("User", "user ", "", "x"))})
    return frame.sort("user", descending=True)


_CHANGES = (_ids, _ids, _values, _values, _types, _shape)
