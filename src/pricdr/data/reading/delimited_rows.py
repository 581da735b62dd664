"""Parse rows of delimited text: fast where all parsers agree, and otherwise one by one.

The polars parser is fast and lenient: it fills up a row that is too short, and a stray quote shifts rows. So the
fields are counted first, and polars only gets text that all parsers read in the same way. The rest goes, row by row,
through Python's ``csv``, which either reads it or names the faulty row.
"""

import csv
from collections.abc import Callable, Mapping
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
from pricdr.data.reading.records import KeptRows, decoded_lines, reason_of, records_of, wrong_width
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
    exact: bool
    """Whether a row has as many fields as the header, and not at least as many as were declared."""
    bad_rows: BadRows | None
    """Collects rows with another number of fields, which are skipped; without it they are refused."""

    def raw_ratings(self, positions: Mapping[str, int], width: int, headers: int) -> RawRatings:
        """Return every row after the header, as text: the columns at ``positions``, by role.

        A row has ``width`` fields, or at least so many, see ``exact``.
        """
        places = sorted(set(positions.values()))
        separator, quoting = self.dialect.separator, self.dialect.quoting
        likely = width
        if not self.exact:  # columns that were not declared follow: if all lines have as many, polars can read them.
            first = self.content.partition(b"\n")[0].count(separator.encode()) + 1
            likely = max(width, first)
        counts = count_fields(self.content, separator=ord(separator), width=likely, quoting=quoting)
        uneven = counts is not None and counts.uneven is not None
        if counts is not None and uneven and self.exact and self.bad_rows is None:
            raise self._uneven(counts, width, headers)
        if counts is not None and uneven and self.exact and self.bad_rows is not None:
            return self._without_uneven(counts, positions, width, headers, self.bad_rows)
        number: Callable[[int], int] = lambda row: row + self.before.rows  # noqa: E731
        frame = None if counts is None or uneven else self._parse_fast(places, counts, headers)
        if frame is not None and counts is not None:
            blank_lines, line = len(counts.blanks), self._line_of(counts, headers)
        else:
            kept = self._parse_slowly(places, width, headers)
            frame, blank_lines, line, number = kept.frame, kept.blank_lines, kept.line_of, kept.number_of
        columns = {role: in_memory(frame.to_series(places.index(at))) for role, at in positions.items()}
        return RawRatings(self.file, frame.height, columns, line, number, blank_lines, bad_rows=self.bad_rows)

    def _line_of(self, counts: FieldCounts, headers: int) -> Callable[[int], int | None]:
        # The number of rows before each blank line: a search in it counts the blank lines before a row.
        rows_before = counts.blanks - headers - np.arange(len(counts.blanks))
        first = self.before.lines + headers + 1
        return lambda row: first + row + int(np.searchsorted(rows_before, row, side="right"))

    def _uneven(self, counts: FieldCounts, width: int, headers: int) -> Exception:
        assert counts.uneven is not None
        record, fields = counts.uneven
        row = record - headers - int(np.searchsorted(counts.blanks, record)) + self.before.rows
        line = record + 1 + self.before.lines
        return refusal(self.file, f"{place(row, line)} {wrong_width(fields, width, header=True)}")

    def _without_uneven(
        self, counts: FieldCounts, positions: Mapping[str, int], width: int, headers: int, bad_rows: BadRows
    ) -> RawRatings:
        """Cut out the rows with another number of fields, which are whole lines here, and parse the rest."""
        records, fields, starts, stops = counts.all_uneven.T
        rows = records - headers - np.searchsorted(counts.blanks, records)
        rows += self.before.rows
        lines = records + 1 + self.before.lines
        for row, line, n_fields in zip(rows.tolist(), lines.tolist(), fields.tolist(), strict=True):
            bad_rows.add(row, f"{place(row, line)} {wrong_width(n_fields, width, header=True)}")
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

    def _parse_slowly(self, places: list[int], width: int, headers: int) -> KeptRows:
        """Parse line by line: a row is one line, so that nothing in it reaches into another."""
        most = self.content.count(b"\n") + 1
        kept, row = KeptRows(places), -headers - 1
        for line, text in enumerate(decoded_lines(self.content), start=self.before.lines + 1):
            try:
                fields = next(records_of([text], self.dialect.separator, quoting=self.dialect.quoting))
                fault = wrong_width(len(fields), width, header=self.exact)
            except csv.Error as error:
                fields, fault = [""], f"is not valid: {reason_of(error)}"
            if not fields:
                kept.blank_lines += 1
                continue
            row += 1
            if row < 0:  # the header
                continue
            number = row + self.before.rows
            if fault is None:
                kept.add(fields, number, line)
                continue
            fault = f"{place(number, line)} {fault}"
            if self.bad_rows is None:
                raise refusal(self.file, fault)
            self.bad_rows.add(number, fault)
            self.bad_rows.require_few(self.file, most, so_far=True)
        return kept


def _before_cuts(number: int, cut: IntArray) -> int:
    """Return the number of a row or line before those numbered in ``cut`` were removed."""
    return number + int(np.searchsorted(cut - np.arange(len(cut)), number, side="right"))
