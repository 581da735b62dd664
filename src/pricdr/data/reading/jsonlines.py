"""Read JSON lines: one object per line, and each of them is read by itself; ids are text or whole numbers."""

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import Columns, find_fields, roles_of_objects
from pricdr.data.reading.raw_ratings import NOTHING_BESIDE, Beside, RawRatings, constant, in_memory, place
from pricdr.data.reading.text_files import file_refusal, refusal, shorten
from pricdr.data.reading.values import judged

_CHUNK = 1 << 16


def read_json_lines(
    file: Path,
    text: Iterable[str],
    columns: Columns | None,
    *,
    need_rating: bool,
    bad_rows: BadRows | None = None,
    beside: Beside = NOTHING_BESIDE,
) -> RawRatings:
    r"""Read the user, item, rating and time of every line; their names are looked up in every object.

    >>> lines = ['{"user_id": 7, "asin": "x", "stars": 4}', '{"uid": "7", "sku": "y", "rating": 5, "date": "2024"}']
    >>> raw = read_json_lines(Path("r.jsonl"), lines, None, need_rating=False)
    >>> raw.take_ids("user").names.to_list(), raw.take_ids("item").names.to_list()
    (['7'], ['x', 'y'])
    """
    parts = list(stream_json_lines(file, text, columns, need_rating=need_rating, bad_rows=bad_rows, beside=beside))
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(part.rows for part in parts)])
    loaded = {role: pl.concat([_series(part, role) for part in parts]) for role in list(parts[0].columns)}

    def within(row: int) -> tuple[RawRatings, int]:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[at], row - int(starts[at])

    def line(row: int) -> int | None:
        part, own = within(row)
        return part.line(own)

    def number(row: int) -> int:
        part, own = within(row)
        return part.number(own)

    return replace(
        parts[0],
        rows=int(starts[-1]),
        columns={role: in_memory(column) for role, column in loaded.items()},
        line=line,
        number=number,
        blank_lines=sum(part.blank_lines for part in parts),
    )


def _series(part: RawRatings, role: str) -> pl.Series:
    column = part.columns.pop(role)()
    assert isinstance(column, pl.Series)
    return column


def stream_json_lines(
    file: Path,
    text: Iterable[str],
    columns: Columns | None,
    *,
    need_rating: bool,
    bad_rows: BadRows | None = None,
    beside: Beside = NOTHING_BESIDE,
) -> Iterator[RawRatings]:
    """Yield what :func:`read_json_lines` returns, some thousand rows at a time."""
    required, optional = roles_of_objects(file, columns, need_rating=need_rating)
    constants = {role: beside[name] for role, name in {**required, **optional}.items() if name and name in beside}
    kept = {role: name for role, name in required.items() if role not in constants}
    reader = _Objects(file, kept, {r: n for r, n in optional.items() if r not in constants}, frozenset(beside))
    chunk = reader.new_chunk()
    any_rows = any_lines = False

    def raw(chunk: "_Chunk") -> RawRatings:
        rows = len(chunk.lines)
        kinds = {role: pl.Float64 if role == "rating" else pl.String for role in chunk.values}
        loaders = {role: in_memory(pl.Series(values, dtype=kinds[role])) for role, values in chunk.values.items()} | {
            role: constant(value, rows) for role, value in constants.items()
        }
        part = RawRatings(file, rows, loaders, chunk.lines.__getitem__, chunk.numbers.__getitem__, chunk.blank_lines)
        part.bad_rows, part.time_asked = bad_rows, columns is not None and columns.time is not None
        return part

    row = -1
    for number, line in enumerate(text, start=1):
        if not line.strip(" \t\r\n"):
            chunk.blank_lines += 1
            continue
        row += 1
        any_lines = True
        try:
            values = reader.values(line)
        except ValueError as error:
            fault = f"{place(row, number)}{error}"
            if bad_rows is None:
                raise refusal(file, fault) from error
            bad_rows.add(row, fault)
            continue
        chunk.add(values, number, row)
        if len(chunk.lines) == _CHUNK:
            any_rows = True
            yield raw(chunk)
            chunk = reader.new_chunk()
    if chunk.lines or (any_rows and chunk.blank_lines):
        yield raw(chunk)
    elif not any_lines:
        raise file_refusal(file, "the file is empty")
    elif not any_rows:
        raise refusal(file, "no line of it can be used")


@dataclass
class _Chunk:
    """Some thousand rows: Python values are large."""

    values: dict[str, list[Any]]
    lines: "array[int]" = field(default_factory=lambda: array("q"))
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    blank_lines: int = 0

    def add(self, values: dict[str, Any], line: int, number: int) -> None:
        for role, column in self.values.items():
            column.append(values[role])
        self.lines.append(line)
        self.numbers.append(number)


class _Objects:
    """Reads one object at a time, by the names that were declared or by those that this object has."""

    def __init__(
        self, file: Path, required: dict[str, str | None], optional: dict[str, str | None], taken: frozenset[str]
    ) -> None:
        self._file, self._roles = file, (*required, *optional)
        # Most files have few sets of names: each is looked up once.
        self._fields = lru_cache(256)(lambda names: find_fields(names, required, optional, taken))

    def new_chunk(self) -> _Chunk:
        """Return a chunk without rows."""
        return _Chunk({role: [] for role in self._roles})

    def values(self, line: str) -> dict[str, Any]:
        """Return the values of a line by their roles; a ValueError says what is wrong with it."""
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise ValueError(f" is not a JSON object: {shorten(line.strip())}; every line must hold one")
        fields = self._fields(tuple(record))
        if isinstance(fields, str):
            raise ValueError(f" {fields}")
        try:
            return {role: judged(role, record[fields[role]] if role in fields else None) for role in self._roles}
        except ValueError as error:
            raise ValueError(f": {error}") from error
