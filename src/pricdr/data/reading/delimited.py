"""Read CSV, TSV, RecBole ``.inter`` and MovieLens ``::`` files: all at once, or some rows at a time."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import ColumnPositions, Columns, find_named, find_placed
from pricdr.data.reading.delimited_rows import START, Parser, Place
from pricdr.data.reading.dialects import CSV, Dialect  # noqa: F401
from pricdr.data.reading.field_counts import last_record_end
from pricdr.data.reading.raw_ratings import NOTHING_BESIDE, Beside, RawRatings, Schema, constant
from pricdr.data.reading.records import ReturnableLines, at_end, decoded_lines, reason_of, records_of
from pricdr.data.reading.text_files import file_refusal, refusal
from pricdr.errors import InputError

_UNIT_SEPARATOR: Final = b"\x1f"
_LONGEST_RECORD: Final = 32 << 20
"""The most bytes of one row in a stream; a row without review text has about a hundred."""


def read_delimited(
    file: Path,
    content: bytes,
    dialect: Dialect,
    columns: Columns | None,
    *,
    need_rating: bool,
    bad_rows: BadRows | None = None,
    beside: Beside = NOTHING_BESIDE,
) -> RawRatings:
    r"""Read the user, item, rating and time columns of a delimited text file, all as text, byte for byte.

    ``beside`` holds the columns that partition folders name, each with one value for all rows.

    >>> raw = read_delimited(Path("r.csv"), b'user,item\n007,"a,b"\n', CSV, None, need_rating=False)
    >>> raw.take_ids("user").names.to_list(), raw.take_ids("item").names.to_list()
    (['007'], ['a,b'])
    """
    layout = DelimitedLayout.of(file, content, dialect, columns, need_rating=need_rating, beside=beside)
    raw = layout.raw_ratings(content, bad_rows)
    if not raw.rows:
        raise layout.without_rows()
    return raw


def stream_delimited(
    file: Path,
    blocks: Iterator[bytes],
    dialect: Dialect,
    columns: Columns | None,
    *,
    need_rating: bool,
    bad_rows: BadRows | None = None,
    beside: Beside = NOTHING_BESIDE,
) -> Iterator[RawRatings]:
    """Yield what :func:`read_delimited` returns, some rows at a time; ``blocks`` are the text of the file."""
    unfinished, layout, place, rows = b"", None, START, 0
    for block in chain(blocks, [None]):  # the last record may lack its line feed
        content = unfinished + (block or b"")
        if layout is None:
            if block is not None and not _has_first_line(content):
                unfinished = content
                continue
            layout = DelimitedLayout.of(file, content, dialect, columns, need_rating=need_rating, beside=beside)
        end = len(content) if block is None else layout.whole_records(content, lenient=bad_rows is not None)
        if end:
            bad_before = 0 if bad_rows is None else bad_rows.count
            raw = layout.raw_ratings(content[:end], bad_rows, place)
            bad = 0 if bad_rows is None else bad_rows.count - bad_before
            place = Place(place.rows + raw.rows + bad, place.lines + content.count(b"\n", 0, end))
            rows += raw.rows + bad
            yield raw
        unfinished = content[end:]
    assert layout is not None
    if not rows:
        raise layout.without_rows()


def _has_first_line(content: bytes) -> bool:
    return b"\n" in content.lstrip(b"\r\n")


@dataclass(frozen=True)
class DelimitedLayout:
    """The layout of one file, as its first line shows it."""

    file: Path
    dialect: Dialect
    separator: str
    """One character that replaces the dialect's separator where that is longer."""
    positions: ColumnPositions
    header: tuple[str, ...]
    """The fields of the first line, header or not."""
    headers: int
    """The number of header lines: one or none."""
    time_asked: bool
    beside: Beside

    @classmethod
    def of(
        cls,
        file: Path,
        content: bytes,
        dialect: Dialect,
        columns: Columns | None,
        *,
        need_rating: bool,
        beside: Beside = NOTHING_BESIDE,
    ) -> "DelimitedLayout":
        """Find the columns in the first line of ``content``."""
        separator = dialect.separator
        if len(separator.encode()) > 1:
            separator = _UNIT_SEPARATOR.decode()
        start = content.lstrip(b"\r\n")
        first = _first_record(file, start, dialect, separator, content.count(b"\n", 0, len(content) - len(start)))
        time_asked = columns is not None and columns.time is not None
        if columns is None and dialect.headerless:
            columns = Columns(1, 2, 3 if len(first) > 2 else None, 4 if len(first) > 3 else None)
        if columns is not None and columns.by_position:
            positions, headers = find_placed(file, first, columns, need_rating=need_rating), 0
        elif dialect.headerless:
            raise file_refusal(file, "a .dat file has no header: give --columns as positions (user=1,item=2,rating=3)")
        else:
            names = _untyped(first, columns) if dialect.typed_header else first
            positions, headers = find_named(file, [*names, *beside], columns, need_rating=need_rating), 1
        return cls(file, dialect, separator, positions, tuple(first), headers, time_asked, beside)

    @property
    def schema(self) -> Schema:
        """Return the schema, which must be the same in files that are read together."""
        names = self.header if self.headers else tuple(f"{at}" for at in range(1, len(self.header) + 1))
        return tuple((name, "text") for name in names)

    def raw_ratings(self, content: bytes, bad_rows: BadRows | None, before: Place = START) -> RawRatings:
        """Return the rows in ``content``: the whole file, or a part of it with ``before`` it in the file."""
        headers = self.headers if before == START else 0
        content = self._single_byte_separated(content, before.lines)
        start = content.lstrip(b"\r\n") if before == START else content
        skipped = content.count(b"\n", 0, len(content) - len(start))
        dialect = replace(self.dialect, separator=self.separator)
        model = "the header" if self.headers else "line 1"
        parser = Parser(self.file, start, dialect, Place(before.rows, before.lines + skipped), model, bad_rows)
        width = len(self.header)
        own = {role: at for role, at in self.positions._asdict().items() if at is not None and at < width}
        raw = parser.raw_ratings(own, width, headers)
        raw.blank_lines += skipped
        raw.time_asked = self.time_asked
        raw.schema = self.schema
        values = list(self.beside.values())
        for role, at in self.positions._asdict().items():
            if at is not None and at >= width:
                raw.columns[role] = constant(values[at - width], raw.rows)
        return raw

    def whole_records(self, content: bytes, *, lenient: bool) -> int:
        """Return how many bytes of ``content``, which begins with a record, hold whole records.

        All of it if a single record is longer than the limit, so that the parser refuses it.
        """
        end = content.rfind(b"\n") + 1
        if not self.dialect.quoting or b'"' not in content[:end]:
            return end
        plain = self._single_byte_separated(content[:end], 0)
        last = last_record_end(plain, ord(self.separator))
        if last is None:
            last = self._last_end(plain, lenient=lenient)
        if last == 0 and end > _LONGEST_RECORD:
            return end
        # Count bytes as they were before single bytes replaced longer separators.
        wider = len(self.dialect.separator.encode()) - 1
        return last + wider * plain.count(_UNIT_SEPARATOR, 0, last) if wider else last

    def _last_end(self, content: bytes, *, lenient: bool) -> int:
        """Return where the last whole record ends by the rules of the slow parser."""
        lines = ReturnableLines(decoded_lines(content), 0)
        records = records_of(lines, self.separator, quoting=True)
        while True:
            lines.begin()
            try:
                fields = next(records, None)
            except csv.Error as error:
                if at_end(error):
                    break
                fields = []
                if not lenient:
                    return len(content)  # to be refused by the parser, at this row
                lines.give_back()
                continue
            if fields is None:
                return len(content)
            if lenient and fields and len(fields) != len(self.header):
                lines.give_back()
        ends = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord("\n"))
        return int(ends[lines.first - 2]) + 1 if lines.first > 1 else 0

    def without_rows(self) -> InputError:
        """Return the refusal of a file without rows."""
        return file_refusal(self.file, f"the file {'has a header and no rows' if self.headers else 'has no rows'}")

    def _single_byte_separated(self, content: bytes, lines_before: int) -> bytes:
        """Replace a longer separator by one byte that text does not use, since parsers only know single bytes."""
        if self.separator == self.dialect.separator:
            return content
        if _UNIT_SEPARATOR in content:
            line = content.count(b"\n", 0, content.index(_UNIT_SEPARATOR)) + 1 + lines_before
            raise refusal(self.file, f"line {line} is not text: it holds the control character 0x1f")
        return content.replace(self.dialect.separator.encode(), _UNIT_SEPARATOR)


def _first_record(file: Path, content: bytes, dialect: Dialect, separator: str, skipped: int) -> list[str]:
    """Return the fields of the first line, header or not."""
    end = content.find(b"\n")
    line = (content if end < 0 else content[:end]).removesuffix(b"\r").decode().replace(dialect.separator, separator)
    try:
        return next(records_of([line], separator, quoting=dialect.quoting))
    except csv.Error as error:
        raise refusal(file, f"line {1 + skipped} is not a valid row: {reason_of(error)}") from error


def _untyped(header: list[str], columns: Columns | None) -> list[str]:
    """Return the names in ``name:type``, except where the caller gave a column with its type."""
    names = () if columns is None else (columns.user, columns.item, columns.rating, columns.time)
    return [name if name in names else name.rpartition(":")[0] or name for name in header]
