"""JSON lines: one object a line, ids text or integers."""

import json
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.raw_ratings import RawRatings, in_memory, place
from pricdr.data.reading.text_files import refusal, shorten

_CHUNK = 1 << 16
_ABSENT = object()
_ID_TYPES = {str: "text", int: "a number"}
_Objects = Iterator[dict[str, Any]]


def read_json_lines(
    file: Path, text: Iterable[str], columns: Columns | None, *, need_rating: bool, bad_rows: BadRows | None = None
) -> RawRatings:
    r"""Read the user, item, rating and time of every line; the names are looked up in the first object.

    >>> raw = read_json_lines(Path("r.jsonl"), ['{"user_id": 7, "asin": "x"}'], None, need_rating=False)
    >>> raw.take_ids("user").names.to_list(), raw.take_ids("item").names.to_list()
    (['7'], ['x'])
    """
    lines, numbers, blanks = array("q"), array("q"), array("q")
    objects = _objects(file, text, lines, numbers, blanks, bad_rows)
    first = next(objects, None)
    if first is None:
        nothing = bad_rows is None or not bad_rows.count
        raise refusal(file, "the file is empty" if nothing else "no line of it holds a JSON object")
    header = list(first)
    positions = find_named(file, header, columns, need_rating=need_rating)
    names = {role: header[at] for role, at in positions._asdict().items() if at is not None}
    parts: dict[str, list[pl.Series]] = {role: [] for role in names}
    raw = RawRatings(file, 0, {}, lambda row: lines[row], lambda row: numbers[row], bad_rows=bad_rows)
    raw.time_asked = columns is not None and columns.time is not None
    objects = chain([first], objects)
    if bad_rows is not None:
        objects = _sound_objects(raw, objects, names, lines, numbers)
    kinds: dict[str, type] = {}
    for chunk in _chunks(objects, names):
        for role, values in chunk.items():
            parts[role].append(_column(raw, role, values, kinds.setdefault(role, type(values[0]))))
        raw.rows += len(chunk["user"])
    if not raw.rows:
        raise refusal(file, "no line of it can be used")
    raw.columns = {role: in_memory(pl.concat(series)) for role, series in parts.items()}
    raw.blank_lines = len(blanks)
    return raw


def _objects(
    file: Path,
    text: Iterable[str],
    lines: "array[int]",
    numbers: "array[int]",
    blanks: "array[int]",
    bad_rows: BadRows | None,
) -> _Objects:
    """Yield every object; lines and rows of objects, and lines that are blank, are appended to the arrays."""
    row = -1
    for number, line in enumerate(text, start=1):
        if not line.strip(" \t\r\n"):
            blanks.append(number)
            continue
        row += 1
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            lines.append(number)
            numbers.append(row)
            yield value
            continue
        fault = f"{place(row, number)} is not a JSON object: {shorten(line.strip())}"
        if bad_rows is None:
            raise refusal(file, f"{fault}; every line must hold one")
        bad_rows.add(row, fault)


def _sound_objects(
    raw: RawRatings, objects: _Objects, names: dict[str, str], lines: "array[int]", numbers: "array[int]"
) -> _Objects:
    """Yield the objects whose values have the right types, and skip the others; ids have the type of the first."""
    kinds: dict[str, type] = {}
    assert raw.bad_rows is not None
    for one in objects:
        at = len(lines) - 1  # of this object: those before it that were skipped are gone from the list
        fault = None
        for role in (role for role in names if role != "time"):
            value = one.get(names[role], _ABSENT)
            allowed = {int, float} if role == "rating" else {kinds.get(role, type(value))} & _ID_TYPES.keys()
            if type(value) not in allowed or not _storable(role, value):
                fault = _fault(raw.place(at), role, value, kinds.get(role, str))
                break
        if fault is None:
            for role in ("user", "item"):
                kinds.setdefault(role, type(one[names[role]]))
            yield one
            continue
        raw.bad_rows.add(numbers[at], fault)
        lines.pop()
        numbers.pop()


def _storable(role: str, value: Any) -> bool:  # noqa: ANN401
    """Return whether a value of the right type fits into a column: no rating beyond floats, no half of a character."""
    try:
        _ = float(value) if role == "rating" else str(value).encode()
    except (OverflowError, UnicodeEncodeError):
        return False
    return True


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
    if role == "time":  # whether it has to be one is checked later
        texts = (str(value) if type(value) in (str, int, float) else None for value in values)
        return pl.Series([text if text and _storable(role, text) else None for text in texts], dtype=pl.String)
    allowed = {int, float} if role == "rating" else {kind} & _ID_TYPES.keys()
    if not set(map(type, values)) <= allowed:  # by type: True is an int to isinstance
        at = next(at for at, value in enumerate(values) if type(value) not in allowed)
        raise refusal(raw.file, _fault(raw.place(raw.rows + at), role, values[at], kind))
    try:
        if role == "rating":
            return pl.Series(list(map(float, values)), dtype=pl.Float64)
        return pl.Series(list(map(str, values)), dtype=pl.String)
    except OverflowError as error:  # a whole number beyond every float
        at = next(at for at, value in enumerate(values) if abs(value) > 1e300)
        raise refusal(raw.file, _fault(raw.place(raw.rows + at), role, values[at], kind)) from error
    except UnicodeEncodeError as error:
        at = values.index(error.object)
        raise refusal(raw.file, _fault(raw.place(raw.rows + at), role, values[at], kind)) from error


def _fault(place: str, role: str, value: object, kind: type) -> str:
    """Return what is wrong with a value that does not fit into its column."""
    if value is _ABSENT:
        return f"{place} has no {role}; every line must have the fields of the first"
    if role == "rating":
        return f"{place}: the rating {shorten(value)} is not a finite number"
    if type(value) is kind is str:
        return f"{place}: the {role} id {shorten(value)} holds half of a surrogate pair, which is not text"
    if type(value) in _ID_TYPES:
        mixed = f"{shorten(value)} is {_ID_TYPES[type(value)]}, the first is {_ID_TYPES[kind]}"
        return f"{place}: mixed-type ids: the {role} id {mixed}; use one kind throughout"
    return f"{place}: the {role} id {shorten(value)} must be text or a whole number"
