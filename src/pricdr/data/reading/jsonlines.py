"""JSON lines: one object a line, ids text or integers."""

import io
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.raw_ratings import RawRatings, in_memory
from pricdr.data.reading.text_files import refusal, shorten

_CHUNK = 1 << 16
_ABSENT = object()
_ID_TYPES = {str: "text", int: "a number"}
_Objects = Iterator[dict[str, Any]]


def read_json_lines(file: Path, content: bytes, columns: Columns | None, *, need_rating: bool) -> RawRatings:
    r"""Read the user, item and rating of every line; the names are looked up in the first object.

    >>> raw = read_json_lines(Path("r.jsonl"), b'{"user_id": 7, "asin": "x"}\n', None, need_rating=False)
    >>> raw.take_ids("user").names.to_list(), raw.take_ids("item").names.to_list()
    (['7'], ['x'])
    """
    lines: list[int] = []
    objects = _objects(file, content, lines)
    first = next(objects)
    header = list(first)
    positions = find_named(file, header, columns, need_rating=need_rating)
    names = {role: header[at] for role, at in positions._asdict().items() if at is not None}
    parts: dict[str, list[pl.Series]] = {role: [] for role in names}
    raw = RawRatings(file, 0, {}, lambda row: lines[row])
    for chunk in _chunks(chain([first], objects), names):
        for role, values in chunk.items():
            parts[role].append(_column(raw, role, values, type(first[names[role]])))
        raw.rows += len(chunk["user"])
    raw.columns = {role: in_memory(pl.concat(series)) for role, series in parts.items()}
    raw.blank_lines = content.count(b"\n") + (not content.endswith(b"\n")) - len(lines)
    return raw


def _objects(file: Path, content: bytes, lines: list[int]) -> _Objects:
    """Yield every object, after appending its line number to ``lines``."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="\n")
    for number, line in enumerate(text, start=1):
        if not line.strip(" \t\r\n"):
            continue
        lines.append(number)
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _not_json(file, len(lines), number, line) from error
        if not isinstance(value, dict):
            raise _not_json(file, len(lines), number, line)
        yield value


def _not_json(file: Path, row: int, line: int, text: str) -> Exception:
    fault = f"row {row} (line {line}) is not a JSON object: {shorten(text.strip())}"
    return refusal(file, f"{fault}; every line must hold one")


def _chunks(objects: _Objects, names: dict[str, str]) -> Iterator[dict[str, list[Any]]]:
    """Yield the values of some thousand objects at a time: Python values are large."""
    chunk: dict[str, list[Any]] = {role: [] for role in names}
    for one in objects:
        for role, name in names.items():
            chunk[role].append(one.get(name, _ABSENT))
        if len(chunk["user"]) == _CHUNK:
            yield chunk
            chunk = {role: [] for role in names}
    if chunk["user"]:
        yield chunk


def _column(raw: RawRatings, role: str, values: list[Any], kind: type) -> pl.Series:
    """Return one chunk as a column; ``kind`` is the type of the first id in the file."""
    allowed = {int, float} if role == "rating" else {kind} & _ID_TYPES.keys()
    if not set(map(type, values)) <= allowed:  # by type: True is an int to isinstance
        at = next(at for at, value in enumerate(values) if type(value) not in allowed)
        raise _wrong(raw, at, role, values[at], kind)
    try:
        if role == "rating":
            return pl.Series(list(map(float, values)), dtype=pl.Float64)
        return pl.Series(list(map(str, values)), dtype=pl.String)
    except OverflowError as error:  # a whole number beyond every float
        at = next(at for at, value in enumerate(values) if abs(value) > 1e300)
        raise _wrong(raw, at, role, values[at], kind) from error
    except UnicodeEncodeError as error:
        place = raw.place(raw.rows + values.index(error.object))
        rule = "holds half of a surrogate pair, which is not text"
        raise refusal(raw.file, f"{place}: the {role} id {shorten(error.object)} {rule}") from error


def _wrong(raw: RawRatings, at: int, role: str, value: object, kind: type) -> Exception:
    place = raw.place(raw.rows + at)
    if value is _ABSENT:
        return refusal(raw.file, f"{place} has no {role}; every line must have the fields of the first")
    if role == "rating":
        return refusal(raw.file, f"{place}: the rating {shorten(value)} is not a finite number")
    if type(value) in _ID_TYPES:
        mixed = f"{shorten(value)} is {_ID_TYPES[type(value)]}, the first is {_ID_TYPES[kind]}"
        return refusal(raw.file, f"{place}: mixed-type ids: the {role} id {mixed}; use one kind throughout")
    return refusal(raw.file, f"{place}: the {role} id {shorten(value)} must be text or a whole number")
