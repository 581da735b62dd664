"""Read rows of delimited text one by one, for files that the fast parser does not accept."""

import csv
import io
from array import array
from collections import deque
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

    def add(self, fields: list[str], number: int | None = None, line: int = 0) -> None:
        """Keep a row, and its number from 0 and its line from 1 where they are given."""
        self._rows.append([fields[place] for place in self._places])
        if number is not None:
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


class ReturnableLines:
    """The lines of a file for a row parser, which can give back lines that it should not have read."""

    def __init__(self, lines: Iterator[str], before: int) -> None:
        self._lines = lines
        self._given_back: deque[str] = deque()
        self._read: list[str] = []
        self._number = before
        """How many lines have been read and not given back."""
        self.first = 0
        """The line where the current row begins, from 1."""

    def begin(self) -> None:
        """Start a new row: lines that are read from now on belong to it."""
        self._read, self.first = [], self._number + 1

    def give_back(self) -> None:
        """Give back all lines of the current row except its first, to be read again."""
        self._given_back.extendleft(reversed(self._read[1:]))
        self._number -= len(self._read) - 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._given_back.popleft() if self._given_back else next(self._lines)
        self._read.append(line)
        self._number += 1
        return line


def decoded_lines(content: bytes) -> Iterator[str]:
    """Return an iterator over the lines of a UTF-8 text, with their line ends."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="\n")


def records_of(lines: Iterable[str], separator: str, *, quoting: bool) -> Iterator[list[str]]:
    """Return an iterator over the rows of a text, by the rules of Python's csv module."""
    if quoting:
        return csv.reader(lines, delimiter=separator, strict=True)
    return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE, strict=True)


def wrong_width(fields: int, width: int, model: str) -> str:
    """Return the fault of a row with ``fields`` fields where ``model`` has ``width``, to follow the row's place."""
    fault = "too short" if fields < width else "too long"
    return f"is {fault}: {fields} fields, {model} has {width}"


def at_end(error: csv.Error) -> bool:
    """Return whether the text ended inside a quoted field, so that more of it may complete the row."""
    return "unexpected end of data" in str(error)


def reason_of(error: csv.Error) -> str:
    """Return the reason of a csv error in plain words."""
    known = {
        "unexpected end of data": "a quote is opened and never closed",
        "expected after": "text follows a closing quote (a quote inside a quoted field must be doubled)",
        "new-line character": "a bare carriage return (lines must end with \\n or \\r\\n)",
        "field larger": "a field is longer than 131,072 characters",
    }
    return next((plain for mark, plain in known.items() if mark in str(error)), shorten(str(error), 80))
