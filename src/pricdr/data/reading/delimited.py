"""Read CSV, TSV, RecBole ``.inter`` and MovieLens ``::`` files: all at once, or some rows at a time."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import ColumnPositions, Columns, find_named, find_placed
from pricdr.data.reading.delimited_rows import START, Parser, Place
from pricdr.data.reading.dialects import CSV, Dialect  # noqa: F401
from pricdr.data.reading.raw_ratings import NOTHING_BESIDE, Beside, RawRatings, Schema, constant
from pricdr.data.reading.records import reason_of, records_of
from pricdr.data.reading.text_files import file_refusal, refusal
from pricdr.errors import InputError

_UNIT_SEPARATOR: Final = b"\x1f"
_MOVIELENS: Final = Columns(user=1, item=2, rating=3, time=4)


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
    lenient = bad_rows is not None
    layout = DelimitedLayout.of(
        file, content, dialect, columns, need_rating=need_rating, beside=beside, lenient=lenient
    )
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
            lenient = bad_rows is not None
            layout = DelimitedLayout.of(
                file, content, dialect, columns, need_rating=need_rating, beside=beside, lenient=lenient
            )
        end = len(content) if block is None else content.rfind(b"\n") + 1
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
    """The layout of one file, as its header shows it or the caller declares it."""

    file: Path
    dialect: Dialect
    separator: str
    """One character that replaces the dialect's separator where that is longer."""
    positions: ColumnPositions
    header: tuple[str, ...]
    """The names of the columns; empty where there is no header."""
    width: int
    """How many fields a row has; without a header it has at least so many, as far as columns were declared."""
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
        lenient: bool = False,
    ) -> "DelimitedLayout":
        """Find the columns in the header of ``content``, or where they were declared.

        Without a header the first line is a row like any other: it decides nothing, and may at most be refused.
        """
        separator = dialect.separator
        if len(separator.encode()) > 1:
            separator = _UNIT_SEPARATOR.decode()
        start = content.lstrip(b"\r\n")
        skipped = content.count(b"\n", 0, len(content) - len(start))
        time_asked = columns is not None and columns.time is not None
        if columns is None and dialect.headerless:
            columns = _MOVIELENS
        if columns is not None and columns.by_position:
            try:
                first = _first_record(file, start, dialect, separator, skipped)
            except InputError:
                if not lenient:
                    raise
                first = []
            positions = find_placed(file, first, columns, need_rating=need_rating, lenient=lenient)
            width = 1 + max(at for at in positions if at is not None)
            return cls(file, dialect, separator, positions, (), width, 0, time_asked, beside)
        if dialect.headerless:
            raise file_refusal(file, "a .dat file has no header: give --columns as positions (user=1,item=2,rating=3)")
        first = _first_record(file, start, dialect, separator, skipped)
        names = _untyped(first, columns) if dialect.typed_header else first
        positions = find_named(file, [*names, *beside], columns, need_rating=need_rating)
        return cls(file, dialect, separator, positions, tuple(first), len(first), 1, time_asked, beside)

    @property
    def schema(self) -> Schema:
        """Return the schema, which must be the same in files that are read together."""
        return tuple((name, "text") for name in self.header)

    def raw_ratings(self, content: bytes, bad_rows: BadRows | None, before: Place = START) -> RawRatings:
        """Return the rows in ``content``: the whole file, or a part of it with ``before`` it in the file."""
        headers = self.headers if before == START else 0
        content = self._single_byte_separated(content, before.lines)
        start = content.lstrip(b"\r\n") if before == START else content
        skipped = content.count(b"\n", 0, len(content) - len(start))
        dialect = replace(self.dialect, separator=self.separator)
        parser = Parser(
            self.file, start, dialect, Place(before.rows, before.lines + skipped), bool(self.headers), bad_rows
        )
        width = self.width
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
