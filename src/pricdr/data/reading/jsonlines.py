"""Read JSON lines: one object per line; ids are text or integers."""

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.raw_ratings import NOTHING_BESIDE, Beside, RawRatings, constant, in_memory, place
from pricdr.data.reading.text_files import file_refusal, refusal, shorten

_CHUNK = 1 << 16
_ABSENT = object()
_ID_TYPES = {str: "text", int: "a number"}
_IDS = ("user", "item")
_Objects = Iterator[dict[str, Any]]


def read_json_lines(
    file: Path,
    text: Iterable[str],
    columns: Columns | None,
    *,
    need_rating: bool,
    bad_rows: BadRows | None = None,
    beside: Beside = NOTHING_BESIDE,
) -> RawRatings:
    r"""Read the user, item, rating and time of every line; the names are looked up in the first object.

    >>> raw = read_json_lines(Path("r.jsonl"), ['{"user_id": 7, "asin": "x"}'], None, need_rating=False)
    >>> raw.take_ids("user").names.to_list(), raw.take_ids("item").names.to_list()
    (['7'], ['x'])
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
    origins = _Origins()
    objects = _objects(file, text, origins, bad_rows)
    first = next(objects, None)
    if first is None:
        if bad_rows is None or not bad_rows.count:
            raise file_refusal(file, "the file is empty")
        raise refusal(file, "no line of it holds a JSON object")
    header = list(first)
    positions = find_named(file, [*header, *beside], columns, need_rating=need_rating)
    at = {role: position for role, position in positions._asdict().items() if position is not None}
    names = {role: header[position] for role, position in at.items() if position < len(header)}
    values = list(beside.values())
    constants = {role: values[position - len(header)] for role, position in at.items() if position >= len(header)}
    objects = chain([first], objects)
    if bad_rows is not None:
        objects = _sound_objects(objects, names, origins, bad_rows)
    kinds: dict[str, type] = {}
    any_rows = False
    for chunk, rows in _chunks(objects, names):
        lines, numbers, blank_lines = origins.take()
        raw = RawRatings(file, rows, {}, lines.__getitem__, numbers.__getitem__, blank_lines, bad_rows=bad_rows)
        raw.time_asked = columns is not None and columns.time is not None
        for role, objects_of in chunk.items():
            column = _column(raw, role, objects_of, kinds.setdefault(role, type(objects_of[0])))
            raw.columns[role] = in_memory(column)
        raw.columns |= {role: constant(value, rows) for role, value in constants.items()}
        raw.schema = tuple((names[role], _ID_TYPES[kinds[role]] if role in _IDS else "") for role in names)
        any_rows = True
        yield raw
    if not any_rows:
        raise refusal(file, "no line of it can be used")


@dataclass
class _Origins:
    """The origins of the objects that are not in a chunk yet."""

    lines: "array[int]" = field(default_factory=lambda: array("q"))
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    blank_lines: int = 0

    def take(self) -> "tuple[array[int], array[int], int]":
        """Return the lines and numbers of the objects and the count of blank lines, and reset them."""
        origins = self.lines, self.numbers, self.blank_lines
        self.lines, self.numbers, self.blank_lines = array("q"), array("q"), 0
        return origins


def _objects(file: Path, text: Iterable[str], origins: _Origins, bad_rows: BadRows | None) -> _Objects:
    """Yield every object, and note its origin in ``origins``."""
    row = -1
    for number, line in enumerate(text, start=1):
        if not line.strip(" \t\r\n"):
            origins.blank_lines += 1
            continue
        row += 1
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            origins.lines.append(number)
            origins.numbers.append(row)
            yield value
            continue
        fault = f"{place(row, number)} is not a JSON object: {shorten(line.strip())}"
        if bad_rows is None:
            raise refusal(file, f"{fault}; every line must hold one")
        bad_rows.add(row, fault)


def _sound_objects(objects: _Objects, names: dict[str, str], origins: _Origins, bad_rows: BadRows) -> _Objects:
    """Yield the objects whose values have the right types, and skip the others; ids have the type of the first."""
    kinds: dict[str, type] = {}
    for record in objects:
        number, line = origins.numbers[-1], origins.lines[-1]  # of this object
        fault = None
        for role in (role for role in names if role != "time"):
            value = record.get(names[role], _ABSENT)
            allowed = {int, float} if role == "rating" else {kinds.get(role, type(value))} & _ID_TYPES.keys()
            if type(value) not in allowed or not _storable(role, value):
                fault = _fault(place(number, line), role, value, kinds.get(role, str))
                break
        if fault is None:
            for role in _IDS:
                if role in names:
                    kinds.setdefault(role, type(record[names[role]]))
            yield record
            continue
        bad_rows.add(number, fault)
        origins.lines.pop()
        origins.numbers.pop()


def _storable(role: str, value: Any) -> bool:  # noqa: ANN401
    """Return whether a value of the right type fits into a column: a rating a float can hold, an id that is UTF-8."""
    try:
        _ = float(value) if role == "rating" else str(value).encode()
    except (OverflowError, UnicodeEncodeError):
        return False
    return True


def _chunks(objects: _Objects, names: dict[str, str]) -> Iterator[tuple[dict[str, list[Any]], int]]:
    """Yield the values of some thousand objects at a time, and their number: Python values are large."""
    while chunk := list(islice(objects, _CHUNK)):
        yield {role: [record.get(name, _ABSENT) for record in chunk] for role, name in names.items()}, len(chunk)


def _column(raw: RawRatings, role: str, values: list[Any], kind: type) -> pl.Series:
    """Return one chunk as a column; ``kind`` is the type of the first id in the file."""
    if role == "time":  # whether it must be readable is checked later
        texts = (str(value) if type(value) in (str, int, float) else None for value in values)
        return pl.Series([text if text and _storable(role, text) else None for text in texts], dtype=pl.String)
    allowed = {int, float} if role == "rating" else {kind} & _ID_TYPES.keys()
    if not set(map(type, values)) <= allowed:  # by type: True is an int to isinstance
        at = next(at for at, value in enumerate(values) if type(value) not in allowed)
        raise refusal(raw.file, _fault(raw.place(at), role, values[at], kind))
    try:
        if role == "rating":
            return pl.Series(list(map(float, values)), dtype=pl.Float64)
        return pl.Series(list(map(str, values)), dtype=pl.String)
    except OverflowError as error:  # a whole number beyond every float
        at = next(at for at, value in enumerate(values) if abs(value) > 1e300)
        raise refusal(raw.file, _fault(raw.place(at), role, values[at], kind)) from error
    except UnicodeEncodeError as error:
        at = values.index(error.object)
        raise refusal(raw.file, _fault(raw.place(at), role, values[at], kind)) from error


def _fault(place: str, role: str, value: object, kind: type) -> str:
    """Return what is wrong with a value that cannot be in its column."""
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
