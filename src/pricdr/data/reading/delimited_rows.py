"""Parse rows of delimited text: fast where all parsers agree, and otherwise one by one.

The polars parser is fast and lenient: it fills up a row that is too short, and a stray quote shifts rows. So the
fields are counted first, and polars only gets text that all parsers read in the same way. The rest goes, row by row,
through Python's ``csv``, which either reads it or names the faulty row.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from pricdr.data.ratings import IntArray
from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.dialects import Dialect
from pricdr.data.reading.field_counts import FieldCounts, count_fields
from pricdr.data.reading.raw_ratings import RawRatings, in_memory, place
from pricdr.data.reading.records import KeptRows, ReturnableLines, decoded_lines, reason_of, records_of, wrong_width
from pricdr.data.reading.text_files import refusal


class Place(NamedTuple):
    """How many rows and lines of a file come before a part of it."""

    rows: int = 0
    lines: int = 0


START = Place()


@dataclass
class Parser:
    """Parses the rows of a file, or of a part of it that begins and ends with a row."""

    file: Path
    content: bytes
    dialect: Dialect
    before: Place
    """What comes before ``content``."""
    model: str
    """What sets the number of fields, for messages: the header, or line 1."""
    bad_rows: BadRows | None
    """Collects rows with another number of fields, which are skipped; without it they are refused."""

    def raw_ratings(self, positions: Mapping[str, int], width: int, headers: int) -> RawRatings:
        """Return every row after the header, as text: the columns at ``positions``, by role."""
        places = sorted(set(positions.values()))
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
        number: Callable[[int], int] = lambda row: row + self.before.rows  # noqa: E731
        if frame is None and self.bad_rows is None:
            frame, blank_lines = self._parse_slowly(places, width, headers)
        elif frame is None and self.bad_rows is not None:
            kept = self._parse_leniently(places, width, headers, self.bad_rows)
            frame, blank_lines, line, number = kept.frame, kept.blank_lines, kept.line_of, kept.number_of
        assert frame is not None
        columns = {role: in_memory(frame.to_series(places.index(at))) for role, at in positions.items()}
        return RawRatings(self.file, frame.height, columns, line, number, blank_lines, bad_rows=self.bad_rows)

    def _line_of(self, counts: FieldCounts | None, headers: int) -> Callable[[int], int | None]:
        if counts is None or not counts.one_line_each:
            return lambda row: None
        # The number of rows before each blank line: a search in it counts the blank lines before a row.
        rows_before = counts.blanks - headers - np.arange(len(counts.blanks))
        first = self.before.lines + headers + 1
        return lambda row: first + row + int(np.searchsorted(rows_before, row, side="right"))

    def _uneven(self, counts: FieldCounts, width: int, headers: int) -> Exception:
        assert counts.uneven is not None
        record, fields = counts.uneven
        row = record - headers - int(np.searchsorted(counts.blanks, record)) + self.before.rows
        line = record + 1 + self.before.lines if counts.one_line_each else None
        return refusal(self.file, f"{place(row, line)} {wrong_width(fields, width, self.model)}")

    def _without_uneven(
        self, counts: FieldCounts, positions: Mapping[str, int], width: int, headers: int, bad_rows: BadRows
    ) -> RawRatings:
        """Cut out the rows with another number of fields, which are whole lines here, and parse the rest."""
        records, fields, starts, stops = counts.all_uneven.T
        rows = records - headers - np.searchsorted(counts.blanks, records)
        rows += self.before.rows
        lines = records + 1 + self.before.lines
        for row, line, n_fields in zip(rows.tolist(), lines.tolist(), fields.tolist(), strict=True):
            bad_rows.add(row, f"{place(row, line)} {wrong_width(n_fields, width, self.model)}")
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
                # Not by the names in the header: polars would take ^user$ for a pattern.
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
        # Every row has every field (they were counted), so a null is an empty field.
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
                    at = place(row + self.before.rows - 1, None)
                    raise refusal(self.file, f"{at} {wrong_width(len(fields), width, self.model)}")
                if row > 0:
                    kept.add(fields)
        except csv.Error as error:
            at = place(row + self.before.rows, None)
            raise refusal(self.file, f"{at} is not valid: {reason_of(error)}") from error
        return kept.frame, kept.blank_lines

    def _parse_leniently(self, places: list[int], width: int, headers: int, bad_rows: BadRows) -> KeptRows:
        """Parse row by row, and skip rows with another number of fields.

        A quote that is never closed would swallow the rows after it. So only the first line of a bad row that spans
        several lines is skipped, and the next line is read as the start of a row. That takes at most two passes: an
        open quote reaches no further than the next line with an odd number of quotes.
        """
        lines = ReturnableLines(decoded_lines(self.content), self.before.lines)
        records = records_of(lines, self.dialect.separator, quoting=self.dialect.quoting)
        most = self.content.count(b"\n") + 1
        kept, row = KeptRows(places), -headers
        before = self.before.rows
        while True:
            try:
                lines.begin()
                fields = next(records, None)
                fits = fields is None or len(fields) == width
                fault = None if fits else wrong_width(len(fields or ()), width, self.model)
            except csv.Error as error:
                fields, fault = [""], f"is not valid: {reason_of(error)}"
            if fields is None:
                return kept
            if not fields:
                kept.blank_lines += 1
                continue
            if row >= 0 and fault is None:
                kept.add(fields, before + row, lines.first)
            elif row >= 0:
                bad_rows.add(before + row, f"{place(before + row, lines.first)} {fault}")
                bad_rows.require_few(self.file, most, so_far=True)
                lines.give_back()
            row += 1

    def _records(self, content: bytes) -> Iterator[list[str]]:
        return records_of(decoded_lines(content), self.dialect.separator, quoting=self.dialect.quoting)


def _before_cuts(number: int, cut: IntArray) -> int:
    """Return the number of a row or line before those numbered in ``cut`` were removed."""
    return number + int(np.searchsorted(cut - np.arange(len(cut)), number, side="right"))
