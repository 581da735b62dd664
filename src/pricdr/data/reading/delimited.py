"""CSV, TSV, RecBole ``.inter`` and MovieLens ``::`` files.

The polars parser is fast and lenient: a row that is too short is filled up, a stray quote shifts rows. So the
fields are counted first, and polars only sees files that every parser reads alike. The rest goes, row by row,
through Python's ``csv``, which either reads it or knows the row to blame.
"""

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from pricdr.data.reading.columns import ColumnPositions, Columns, find_named, find_placed
from pricdr.data.reading.field_counts import FieldCounts, count_fields
from pricdr.data.reading.raw_ratings import RawRatings, in_memory
from pricdr.data.reading.text_files import refusal, shorten

_UNIT_SEPARATOR = b"\x1f"
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Dialect:
    """How one kind of file separates its fields."""

    separator: str
    quoting: bool = True
    typed_header: bool = False
    """RecBole writes ``name:type``."""
    headerless: bool = False


CSV = Dialect(",")
TSV = Dialect("\t")
INTER = Dialect("\t", quoting=False, typed_header=True)
MOVIELENS = Dialect("::", quoting=False, headerless=True)


def read_delimited(
    file: Path, content: bytes, dialect: Dialect, columns: Columns | None, *, need_rating: bool
) -> RawRatings:
    r"""Read the user, item and rating columns of a delimited text file, all as text, byte for byte.

    >>> raw = read_delimited(Path("r.csv"), b'user,item\n007,"a,b"\n', CSV, None, need_rating=False)
    >>> raw.take_ids("user").names.to_list(), raw.take_ids("item").names.to_list()
    (['007'], ['a,b'])
    """
    if len(dialect.separator) > 1:
        content = _single_byte_separated(file, content)
        dialect = replace(dialect, separator=_UNIT_SEPARATOR.decode())
    start = content.lstrip(b"\r\n")
    skipped = content.count(b"\n", 0, len(content) - len(start))
    parser = _Parser(file, start, dialect, skipped)
    first = parser.first()
    if columns is None and dialect.headerless:
        columns = Columns(1, 2, 3 if len(first) > 2 else None)
    if columns is not None and columns.by_position:
        positions, headers = find_placed(file, first, columns, need_rating=need_rating), 0
    elif dialect.headerless:
        raise refusal(file, "a .dat file has no header: give --columns as positions (user=1,item=2,rating=3)")
    else:
        names = _untyped(first, columns) if dialect.typed_header else first
        positions, headers = find_named(file, names, columns, need_rating=need_rating), 1
    return parser.raw_ratings(positions, len(first), headers)


def _single_byte_separated(file: Path, content: bytes) -> bytes:
    """Replace ``::`` by one byte that text does not use, since parsers know single bytes only."""
    if _UNIT_SEPARATOR in content:
        line = content.count(b"\n", 0, content.index(_UNIT_SEPARATOR)) + 1
        raise refusal(file, f"line {line} is not text: it holds the control character 0x1f")
    return content.replace(b"::", _UNIT_SEPARATOR)


def _untyped(header: list[str], columns: Columns | None) -> list[str]:
    """Return the names of ``name:type``, but leave alone those that the caller wrote with their type."""
    asked = () if columns is None else (columns.user, columns.item, columns.rating)
    return [name if name in asked else name.rpartition(":")[0] or name for name in header]


@dataclass
class _Parser:
    file: Path
    content: bytes
    dialect: Dialect
    skipped: int
    """Blank lines before the first line of ``content``."""

    def first(self) -> list[str]:
        """Return the fields of the first line, header or not."""
        end = self.content.find(b"\n")
        line = self.content if end < 0 else self.content[:end]
        try:
            return next(self._records(line.removesuffix(b"\r")))
        except csv.Error as error:
            raise refusal(self.file, f"line {1 + self.skipped} is not a valid row: {_reason(error)}") from error

    def raw_ratings(self, positions: ColumnPositions, width: int, headers: int) -> RawRatings:
        """Return every row after the header as text."""
        places = sorted({place for place in positions if place is not None})
        counts = count_fields(
            self.content,
            separator=ord(self.dialect.separator),
            width=width,
            quoting=self.dialect.quoting,
        )
        if counts is not None and counts.uneven is not None:
            raise self._uneven(counts, width, headers)
        frame = None if counts is None else self._parse_fast(places, counts, headers)
        blank_lines, line = 0 if counts is None else len(counts.blanks), self._line_of(counts, headers)
        if frame is None:
            frame, blank_lines = self._parse_slowly(places, width, headers)
        if frame.is_empty():
            what = "has a header and no rows" if headers else "has no rows"
            raise refusal(self.file, f"the file {what}")
        at = {role: places.index(place) for role, place in positions._asdict().items() if place is not None}
        columns = {role: in_memory(frame.to_series(place)) for role, place in at.items()}
        return RawRatings(self.file, frame.height, columns, line, blank_lines + self.skipped)

    def _line_of(self, counts: FieldCounts | None, headers: int) -> Callable[[int], int | None]:
        if counts is None or not counts.one_line_each:
            return lambda row: None
        # Rows before each blank line, so that a search tells how many blank lines come before a row.
        rows_before = counts.blanks - headers - np.arange(len(counts.blanks))
        first = self.skipped + headers + 1
        return lambda row: first + row + int(np.searchsorted(rows_before, row, side="right"))

    def _uneven(self, counts: FieldCounts, width: int, headers: int) -> Exception:
        assert counts.uneven is not None
        record, fields = counts.uneven
        row = record - headers - int(np.searchsorted(counts.blanks, record)) + 1
        line = f" (line {record + 1 + self.skipped})" if counts.one_line_each else ""
        return _wrong_width(self.file, f"row {row}{line}", fields, width, headers)

    def _parse_fast(self, places: list[int], counts: FieldCounts, headers: int) -> pl.DataFrame | None:
        try:
            frame = pl.read_csv(
                self.content,
                # Not even the header's names: polars would take ^user$ for a pattern.
                has_header=False,
                skip_rows=headers,
                columns=places,
                separator=self.dialect.separator,
                quote_char='"' if self.dialect.quoting else None,
                infer_schema=False,
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return None
        if frame.height != counts.records - headers:
            return None
        # Every row has every field (they were counted), hence a null is an empty field.
        frame = frame.fill_null("")
        if len(counts.blanks):
            keep = np.ones(frame.height, dtype=bool)
            keep[counts.blanks - headers] = False
            frame = frame.filter(pl.Series(keep))
        return frame

    def _parse_slowly(self, places: list[int], width: int, headers: int) -> tuple[pl.DataFrame, int]:
        chunks: list[pl.DataFrame] = []
        kept: list[list[str]] = []
        row, blank_lines, records = -headers, 0, self._records(self.content)
        try:
            for fields in records:
                if not fields:
                    blank_lines += 1
                    continue
                row += 1
                if len(fields) != width:
                    raise _wrong_width(self.file, f"row {row}", len(fields), width, headers)
                if row > 0:
                    kept.append([fields[place] for place in places])
                if len(kept) == _CHUNK:
                    chunks.append(_frame(kept, len(places)))
                    kept = []
        except csv.Error as error:
            raise refusal(self.file, f"row {row + 1} is not valid: {_reason(error)}") from error
        return pl.concat([*chunks, _frame(kept, len(places))]), blank_lines

    def _records(self, content: bytes) -> Iterator[list[str]]:
        lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="\n")
        separator = self.dialect.separator
        if self.dialect.quoting:
            return csv.reader(lines, delimiter=separator, strict=True)
        return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE, strict=True)


def _frame(rows: list[list[str]], width: int) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={str(at): pl.String for at in range(width)}, orient="row")


def _wrong_width(file: Path, place: str, fields: int, width: int, headers: int) -> Exception:
    fault = "too short" if fields < width else "too long"
    model = "the header" if headers else "line 1"
    return refusal(file, f"{place} is {fault}: {fields} fields, {model} has {width}")


def _reason(error: csv.Error) -> str:
    known = {
        "unexpected end of data": "a quote is opened and never closed",
        "expected after": "text follows a closing quote (a quote inside a quoted field must be doubled)",
        "new-line character": "a bare carriage return (lines must end with \\n or \\r\\n)",
        "field larger": "a field is longer than 131,072 characters",
    }
    return next((plain for mark, plain in known.items() if mark in str(error)), shorten(str(error), 80))
