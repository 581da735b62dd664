"""Files of ratings in every accepted format: what is read has finite values and lawful ids."""

import gzip
import io
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl

from pricdr.data.reading.readers import read_ratings_file as read
from tests.fuzz.cases import Files, Kind, Seed, require, require_ids
from tests.fuzz.mutations import NUMBERS, TEXTS, json_bytes, junk, mutate_bytes, mutate_json
from tests.fuzz.parquet_files import mutate_parquet

_ROWS = [(f"{at % 7:03d}", f"item {at * 3 % 11}", 1 + at * 5 % 9 / 2, 978300000 + at) for at in range(24)]
_NO_RATINGS = "presence.parquet"
_HEADER = ("user", "item", "rating", "timestamp")


def make_seeds(folder: Path) -> list[Seed]:
    """The same two dozen ratings as text, JSON lines and Parquet, in what encodings and types these come in."""
    files = {**_texts(), **_parquets()}
    return [Seed(name, {"ratings" + "".join(Path(name).suffixes): files[name]}) for name in files]


def _table(separator: str, header: tuple[str, ...] | None = _HEADER, newline: str = "\n") -> str:
    lines = [header] if header else []
    return "".join(separator.join(map(str, row)) + newline for row in (*lines, *_ROWS))


def _texts() -> dict[str, bytes]:
    csv = _table(",")
    quoted = "\n".join(",".join(f'"{value}"' for value in row) for row in (_HEADER, *_ROWS))
    rows = [dict(zip(_HEADER, row, strict=True)) for row in _ROWS]
    jsonl = "".join(json.dumps(row) + "\n" for row in rows)
    inter = ("user_id:token", "item_id:token", "rating:float", "timestamp:float")
    amazon = "".join(json.dumps({"reviewerID": u, "asin": i, "overall": r, "unixReviewTime": t}) + "\n"
                     for u, i, r, t in _ROWS)  # fmt: skip
    texts = {
        "plain.csv": csv,
        "crlf.csv": _table(",", newline="\r\n"),
        "bom.csv": "\ufeff" + csv,
        "quoted.csv": quoted,
        "plain.tsv": _table("\t"),
        "plain.inter": _table("\t", inter),
        "plain.dat": _table("::", None),
        "plain.jsonl": jsonl,
        "amazon.json": amazon,
    }
    files = {name: text.encode() for name, text in texts.items()}
    packed = {f"{name}.gz": gzip.compress(files[name], 6, mtime=0) for name in ("plain.csv", "plain.jsonl")}
    return {**files, **packed}


def _parquets() -> dict[str, bytes]:
    frame = pl.DataFrame(_ROWS, schema=list(_HEADER), orient="row")
    whole = frame.with_columns(pl.col("user").cast(pl.Int64), item=pl.int_range(pl.len()) % 5)
    frames: dict[str, tuple[pl.DataFrame, dict[str, Any]]] = {
        "uncompressed": (frame, {"compression": "uncompressed"}),
        "snappy": (frame, {"compression": "snappy"}),
        "zstd": (frame, {"compression": "zstd", "row_group_size": 5}),
        "gzip": (frame, {"compression": "gzip"}),
        "lz4": (frame, {"compression": "lz4", "data_page_size": 64}),
        "brotli": (frame, {"compression": "brotli"}),
        "whole ids": (whole, {"compression": "uncompressed", "statistics": False}),
        "small types": (whole.cast({"user": pl.UInt8, "item": pl.Int16, "rating": pl.Float32}), {}),
        "whole ratings": (frame.with_columns(pl.col("rating").cast(pl.Int8)), {"compression": "uncompressed"}),
        "categories": (frame.cast({"user": pl.Categorical, "item": pl.Enum(sorted(set(frame["item"])))}), {}),
        "filtered": (frame, {"metadata": {"pricdr.filtered": "5-core"}}),
        _NO_RATINGS.removesuffix(".parquet"): (frame.select("user", "item"), {}),
    }
    files = {}
    for name, (table, how) in frames.items():
        buffer = io.BytesIO()
        table.write_parquet(buffer, **how)
        files[f"{name}.parquet"] = buffer.getvalue()
    return files


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change the file as its format allows; now and then give it the name of another format."""
    ((name, content),) = seed.files.items()
    ((another, spare),) = other.files.items()
    if rng.random() < 0.02:
        return {another: content}
    if name.endswith(".gz"):
        return {name: _change_packed(rng, name, content, spare)}
    return {name: _change(rng, name, content, spare)}


def _change(rng: Random, name: str, content: bytes, spare: bytes) -> bytes:
    if name.endswith(".parquet"):
        return rng.choice((mutate_parquet, mutate_parquet, mutate_parquet, _rewrite))(rng, content)
    if rng.random() < 0.4:
        return mutate_bytes(rng, content, spare)
    return _change_json(rng, content) if "json" in name else _change_cells(rng, content)


def _change_packed(rng: Random, name: str, content: bytes, spare: bytes) -> bytes:
    if rng.random() < 0.01:
        return _bomb()
    if rng.random() < 0.4:
        return mutate_bytes(rng, content, spare)
    changed = gzip.compress(_change(rng, name, gzip.decompress(content), b""), 1, mtime=0)
    return changed * rng.choice((1, 1, 1, 2))


@cache
def _bomb() -> bytes:
    """80 MiB of ratings in a third of one."""
    return gzip.compress(b"user,item\n" + b"a,b\n" * (20 << 20), 1, mtime=0)


def _change_cells(rng: Random, content: bytes) -> bytes:
    """Other fields, more of them, fewer, or rows in another order."""
    text = content.decode()
    separator = next(mark for mark in ("::", "\t", ",") if mark in text)
    rows = [line.split(separator) for line in text.split("\n")]
    for _ in range(rng.choice((1, 1, 2, 5))):
        row, draw = rng.choice(rows), rng.randrange(8)
        at = rng.randrange(len(row))
        if draw < 3:
            row[at] = str(rng.choice((rng.choice(TEXTS), rng.choice(NUMBERS), "=cmd()", '"unclosed')))
        elif draw == 3:
            row.insert(at, rng.choice(row))
        elif draw == 4:
            del row[at:]
            row.append("")
        elif draw == 5:
            rows.insert(rng.randrange(len(rows)), list(rng.choice(rows)))
        elif draw == 6:
            rng.shuffle(rows)
        else:
            row[at] = rng.choice(rng.choice(rows))
    return "\n".join(separator.join(row) for row in rows).encode("utf-8", "surrogatepass")


def _change_json(rng: Random, content: bytes) -> bytes:
    rows = [json.loads(line) for line in content.splitlines()]
    at = rng.randrange(len(rows))
    rows[at] = rng.choice((mutate_json(rng, rows[at], rng.choice(rows)), mutate_json(rng, rows[at]), junk(rng)))
    lines = [json_bytes(rng, row) for row in rows]
    if rng.random() < 0.1:
        lines.insert(at, rng.choice((b"", b"[" * 100_000, b'{"user": ' * 5000, b"{}", b"\xff", b"NaN", b"1" * 5000)))
    return rng.choice((b"\n", b"\n", b"\r\n", b"")).join(lines)


def _rewrite(rng: Random, content: bytes) -> bytes:
    """The table as another program might write it; the columns may hold anything."""
    frame = pl.read_parquet(io.BytesIO(content))
    name = rng.choice(frame.columns)
    values: list[Any] = frame[name].to_list()
    draw = rng.randrange(7)
    if draw < 2:
        values = [str(value) for value in values]
        values[rng.randrange(len(values))] = rng.choice((*TEXTS, None))
    elif draw == 2:
        values = [float(at) for at in range(len(values))]
        values[rng.randrange(len(values))] = rng.choice([n for n in NUMBERS if isinstance(n, float)])
    elif draw == 3:
        values = rng.choice(([None] * len(values), [[value] for value in values], [{"a": value} for value in values]))
    elif draw == 4:
        values = rng.choice(([True] * len(values), [b"\xff"] * len(values), list(range(len(values)))))
    changed = frame.with_columns(pl.Series(name, values, strict=False))
    if draw == 5:
        changed = rng.choice((frame.head(0), frame.drop(name), frame.rename({name: rng.choice(TEXTS)[:50]})))
    buffer = io.BytesIO()
    changed.write_parquet(buffer, compression=rng.choice(("uncompressed", "zstd", "snappy")))
    return buffer.getvalue()


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Read the file, half of the time with a threshold, which needs a rating column."""
    ((name, content),) = files.items()
    reading = read(folder / name, threshold=3.0 if len(content) % 2 and seed.name != _NO_RATINGS else None)
    ratings = reading.ratings
    require(len(ratings) > 0 or ratings.threshold is not None, "ratings without any")
    require(ratings.matrix.shape == (len(ratings.users), len(ratings.items)), "a matrix of another shape")
    require(np.isfinite(ratings.matrix.data).all(), "ratings that are not finite")
    require(reading.rating_range is None or np.isfinite(reading.rating_range).all(), "a range that is not finite")
    require(reading.rows >= len(ratings), "more ratings than rows")
    require(reading.summary(), "no summary")
    require_ids("user", ratings.users)
    require_ids("item", ratings.items)


KIND = Kind(make_seeds, mutate, judge)
