"""Read rows of delimited text one by one, for files that the fast parser does not accept."""

import csv
import io
from array import array
from collections.abc import Iterable, Iterator
from typing import Final

import polars as pl

from pricdr.data.reading.text_files import shorten

_CHUNK: Final = 1 << 16


class KeptRows:
    """Collects the wanted fields of kept rows, some thousand rows at a time: Python values are large."""

    def __init__(self, places: list[int]) -> None:
        self._places = places
        self._rows: list[list[str]] = []
        self._frames: list[pl.DataFrame] = []
        self._numbers, self._lines = array("q"), array("q")
        self.blank_lines = 0

    def add(self, fields: list[str], number: int, line: int) -> None:
        """Keep a row, its number from 0, and its line from 1."""
        self._rows.append([fields[place] for place in self._places])
        self._numbers.append(number)
        self._lines.append(line)
        if len(self._rows) == _CHUNK:
            self._frames, self._rows = [*self._frames, self._frame()], []

    @property
    def frame(self) -> pl.DataFrame:
        """Return the kept rows, all text."""
        return pl.concat([*self._frames, self._frame()])

    def line_of(self, row: int) -> int | None:
        """Return the line, from 1, of a kept row."""
        return self._lines[row]

    def number_of(self, row: int) -> int:
        """Return the number in the file, from 0, of a kept row."""
        return self._numbers[row]

    def _frame(self) -> pl.DataFrame:
        schema = {str(at): pl.String for at in range(len(self._places))}
        return pl.DataFrame(self._rows, schema=schema, orient="row")


def decoded_lines(content: bytes) -> Iterator[str]:
    """Return an iterator over the lines of a UTF-8 text, with their line ends."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="\n")


def records_of(lines: Iterable[str], separator: str, *, quoting: bool) -> Iterator[list[str]]:
    """Return an iterator over the rows in these lines, by the rules of Python's csv module."""
    if quoting:
        return csv.reader(lines, delimiter=separator, strict=True)
    return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE, strict=True)


def wrong_width(fields: int, width: int, *, header: bool) -> str | None:
    """Return the fault of a row that does not have the fields of its header, or all declared ones, after its place."""
    if fields == width or (fields > width and not header):
        return None
    fault = "too short" if fields < width else "too long"
    return f"is {fault}: {fields} fields, {'the header has' if header else 'columns were declared up to'} {width}"


def reason_of(error: csv.Error) -> str:
    """Return the reason of a csv error in plain words."""
    known = {
        "unexpected end of data": "a quoted field does not end on its line (convert files with such fields to Parquet)",
        "expected after": "text follows a closing quote (a quote inside a quoted field must be doubled)",
        "new-line character": "a bare carriage return (lines must end with \\n or \\r\\n)",
        "field larger": "a field is longer than 131,072 characters",
    }
    return next((plain for mark, plain in known.items() if mark in str(error)), shorten(str(error), 80))
