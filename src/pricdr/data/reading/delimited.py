"""CSV, TSV, RecBole ``.inter`` and MovieLens ``::`` files.

The polars parser is fast and lenient: a row that is too short is filled up, a stray quote shifts rows. So the
fields are counted first, and polars only sees files that every parser reads alike. The rest goes, row by row,
through Python's ``csv``, which either reads it or knows the row to blame.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from pricdr.data.ratings import IntArray
from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import ColumnPositions, Columns, find_named, find_placed
from pricdr.data.reading.field_counts import FieldCounts, count_fields
from pricdr.data.reading.raw_ratings import RawRatings, in_memory, place
from pricdr.data.reading.records import KeptRows, ReturnableLines, decoded_lines, reason_of, wrong_width
from pricdr.data.reading.text_files import refusal, shorten
from pricdr.errors import ParameterError

_UNIT_SEPARATOR = b"\x1f"
_LONGEST_DELIMITER = 8


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


def parse_delimiter(text: str) -> str:
    r"""Return a delimiter as the command line writes it; ``tab`` and ``\t`` stand for a tab.

    >>> parse_delimiter(";"), parse_delimiter("tab")
    (';', '\t')
    """
    delimiter = {"tab": "\t", "\\t": "\t"}.get(text, text)
    plain = delimiter == "\t" or delimiter.isprintable()
    if not plain or not 1 <= len(delimiter) <= _LONGEST_DELIMITER or '"' in delimiter:
        rule = f"1 to {_LONGEST_DELIMITER} printable characters or tab, and hold no quote"
        raise ParameterError(f"delimiter must be {rule}, got {shorten(text)}")
    return delimiter


def read_delimited(
    file: Path,
    content: bytes,
    dialect: Dialect,
    columns: Columns | None,
    *,
    need_rating: bool,
    bad_rows: BadRows | None = None,
) -> RawRatings:
    r"""Read the user, item, rating and time columns of a delimited text file, all as text, byte for byte.

    >>> raw = read_delimited(Path("r.csv"), b'user,item\n007,"a,b"\n', CSV, None, need_rating=False)
    >>> raw.take_ids("user").names.to_list(), raw.take_ids("item").names.to_list()
    (['007'], ['a,b'])
    """
    if len(dialect.separator.encode()) > 1:
        content = _single_byte_separated(file, content, dialect.separator)
        dialect = replace(dialect, separator=_UNIT_SEPARATOR.decode())
    start = content.lstrip(b"\r\n")
    skipped = content.count(b"\n", 0, len(content) - len(start))
    parser = _Parser(file, start, dialect, skipped, bad_rows)
    first = parser.first()
    time_asked = columns is not None and columns.time is not None
    if columns is None and dialect.headerless:
        columns = Columns(1, 2, 3 if len(first) > 2 else None, 4 if len(first) > 3 else None)
    if columns is not None and columns.by_position:
        positions, headers = find_placed(file, first, columns, need_rating=need_rating), 0
    elif dialect.headerless:
        raise refusal(file, "a .dat file has no header: give --columns as positions (user=1,item=2,rating=3)")
    else:
        names = _untyped(first, columns) if dialect.typed_header else first
        positions, headers = find_named(file, names, columns, need_rating=need_rating), 1
    raw = parser.raw_ratings(positions, len(first), headers)
    raw.time_asked = time_asked
    return raw


def _before_cuts(number: int, cut: IntArray) -> int:
    """Return the number that a row or line had before those with the numbers in ``cut`` were taken out."""
    return number + int(np.searchsorted(cut - np.arange(len(cut)), number, side="right"))


def _single_byte_separated(file: Path, content: bytes, separator: str) -> bytes:
    """Replace a longer separator by one byte that text does not use, since parsers know single bytes only."""
    if _UNIT_SEPARATOR in content:
        line = content.count(b"\n", 0, content.index(_UNIT_SEPARATOR)) + 1
        raise refusal(file, f"line {line} is not text: it holds the control character 0x1f")
    return content.replace(separator.encode(), _UNIT_SEPARATOR)


def _untyped(header: list[str], columns: Columns | None) -> list[str]:
    """Return the names of ``name:type``, but leave alone those that the caller wrote with their type."""
    asked = () if columns is None else (columns.user, columns.item, columns.rating, columns.time)
    return [name if name in asked else name.rpartition(":")[0] or name for name in header]


@dataclass
class _Parser:
    file: Path
    content: bytes
    dialect: Dialect
    skipped: int
    """Blank lines before the first line of ``content``."""
    bad_rows: BadRows | None
    """Where rows of another width are skipped to; without it they are refused."""

    def first(self) -> list[str]:
        """Return the fields of the first line, header or not."""
        end = self.content.find(b"\n")
        line = self.content if end < 0 else self.content[:end]
        try:
            return next(self._records(line.removesuffix(b"\r")))
        except csv.Error as error:
            raise refusal(self.file, f"line {1 + self.skipped} is not a valid row: {reason_of(error)}") from error

    def raw_ratings(self, positions: ColumnPositions, width: int, headers: int) -> RawRatings:
        """Return every row after the header as text."""
        places = sorted({place for place in positions if place is not None})
        counts = count_fields(
            self.content,
            separator=ord(self.dialect.separator),
            width=width,
            quoting=self.dialect.quoting,
        )
        uneven = counts is not None and counts.uneven is not None
        if counts is not None and uneven and self.bad_rows is None:
            raise self._uneven(counts, width, headers)
        if counts is not None and uneven and self.bad_rows is not None and counts.one_line_each:
            return self._without_uneven(counts, positions, width, headers, self.bad_rows)
        frame = None if counts is None or uneven else self._parse_fast(places, counts, headers)
        blank_lines, line = 0 if counts is None else len(counts.blanks), self._line_of(counts, headers)
        number: Callable[[int], int] = int
        if frame is None and self.bad_rows is None:
            frame, blank_lines = self._parse_slowly(places, width, headers)
        elif frame is None and self.bad_rows is not None:
            kept = self._parse_leniently(places, width, headers, self.bad_rows)
            frame, blank_lines, line, number = kept.frame, kept.blank_lines, kept.line_of, kept.number_of
        assert frame is not None
        if frame.is_empty():
            what = "has a header and no rows" if headers else "has no rows"
            raise refusal(self.file, f"the file {what}")
        at = {role: places.index(place) for role, place in positions._asdict().items() if place is not None}
        columns = {role: in_memory(frame.to_series(place)) for role, place in at.items()}
        blanks = blank_lines + self.skipped
        return RawRatings(self.file, frame.height, columns, line, number, blanks, bad_rows=self.bad_rows)

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
        return refusal(self.file, f"row {row}{line} {wrong_width(fields, width, headers)}")

    def _without_uneven(
        self, counts: FieldCounts, positions: ColumnPositions, width: int, headers: int, bad_rows: BadRows
    ) -> RawRatings:
        """Cut out the rows of another width, which are whole lines here, and parse the rest as if they never were."""
        records, fields, starts, stops = counts.all_uneven.T
        rows = records - headers - np.searchsorted(counts.blanks, records)
        lines = records + 1 + self.skipped
        for row, line, found in zip(rows.tolist(), lines.tolist(), fields.tolist(), strict=True):
            bad_rows.add(row, f"{place(row, line)} {wrong_width(found, width, headers)}")
            bad_rows.require_few(self.file, counts.records, so_far=True)
        pieces = zip([0, *stops.tolist()], [*starts.tolist(), len(self.content)], strict=True)
        content = b"".join(self.content[start:stop] for start, stop in pieces)
        raw = replace(self, content=content).raw_ratings(positions, width, headers)
        number_of, line_of = raw.number, raw.line
        raw.number = lambda row: _before_cuts(number_of(row), rows)
        raw.line = lambda row: None if (line := line_of(row)) is None else _before_cuts(line, lines)
        return raw

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
        kept = KeptRows(places)
        row = -headers
        try:
            for fields in self._records(self.content):
                if not fields:
                    kept.blank_lines += 1
                    continue
                row += 1
                if len(fields) != width:
                    raise refusal(self.file, f"row {row} {wrong_width(len(fields), width, headers)}")
                if row > 0:
                    kept.add(fields)
        except csv.Error as error:
            raise refusal(self.file, f"row {row + 1} is not valid: {reason_of(error)}") from error
        return kept.frame, kept.blank_lines

    def _parse_leniently(self, places: list[int], width: int, headers: int, bad_rows: BadRows) -> KeptRows:
        """Parse row by row, and skip what is no row of this width.

        A quote that is never closed would swallow the rows after it. So of a bad row that runs over several lines only
        the first line is given up, and the next one is read as the start of a row. That takes two passes at most: an
        open quote reaches no further than the next line with an odd number of quotes.
        """
        lines = ReturnableLines(decoded_lines(self.content), self.skipped)
        records = self._reader(lines)
        most = self.content.count(b"\n") + 1
        kept, row = KeptRows(places), -headers
        while True:
            try:
                lines.begin()
                fields = next(records, None)
                fits = fields is None or len(fields) == width
                fault = None if fits else wrong_width(len(fields or ()), width, headers)
            except csv.Error as error:
                fields, fault = [""], f"is not valid: {reason_of(error)}"
            if fields is None:
                return kept
            if not fields:
                kept.blank_lines += 1
                continue
            if row >= 0 and fault is None:
                kept.add(fields, row, lines.first)
            elif row >= 0:
                bad_rows.add(row, f"{place(row, lines.first)} {fault}")
                bad_rows.require_few(self.file, most, so_far=True)
                lines.give_back()
            row += 1

    def _records(self, content: bytes) -> Iterator[list[str]]:
        return self._reader(decoded_lines(content))

    def _reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        separator = self.dialect.separator
        if self.dialect.quoting:
            return csv.reader(lines, delimiter=separator, strict=True)
        return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE, strict=True)
