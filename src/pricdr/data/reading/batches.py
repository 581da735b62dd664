"""Stream ratings: checked rows of many files, some at a time, in memory that does not grow with their number."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from pricdr.data.reading.bad_rows import MOST_BAD_ROWS, BadRows
from pricdr.data.reading.columns import Columns
from pricdr.data.reading.formats import BATCH_ROWS, Form, OpenFile
from pricdr.data.reading.inputs import AnyPath, Inputs, find_inputs, naming_in_logs, without_rows
from pricdr.data.reading.one_schema import OneFilter, OneSchema, require_one_kind
from pricdr.data.reading.queries import stream_query
from pricdr.data.reading.query import Query
from pricdr.data.reading.raw_ratings import Floats, RawRatings, check
from pricdr.data.reading.text_files import named, refusal
from pricdr.data.reading.times import to_seconds
from pricdr.progress import Progress, silent


class Batch(NamedTuple):
    """Some rows, each checked; a (user, item) pair may repeat, in this batch or in another."""

    users: pl.Series
    items: pl.Series
    values: Floats | None
    """None without a rating column."""
    seconds: Floats | None
    """The time of each row, minus infinity where it cannot be read; None without a time column."""


@dataclass
class RatingsStream:
    """Ratings of one schema that can be read once, batch by batch."""

    name: Path | str
    """How messages name them."""
    parts: Iterator[RawRatings]
    has_values: bool
    """Whether there is a rating column."""
    has_times: bool
    filtered_by: str | None = None
    """The filter on counts that the files disclose."""
    size: int | None = None
    """The size of all files in bytes; None where that is not known, as for standard input."""
    bad_rows: BadRows | None = None
    """The rows that were skipped so far, where that was allowed."""
    rows: int = 0
    """Good rows that were read so far."""
    blank_lines: int = 0
    files: int = 1
    """The number of files that are read together."""
    empty_files: int = 0
    """Parquet files with a schema and no rows."""

    def batches(self, progress: Progress = silent) -> Iterator[Batch]:
        """Yield every row once, in bounded memory.

        Refusals name the file and the row. Too many bad rows, or no usable row, are noticed only at the end.
        """
        for part in self.parts:
            batch = _batch(part)
            self.rows += len(batch.users)
            self.blank_lines += part.blank_lines
            # One name for all files: a terminal shows a bar for each, and a log must not show the names of partitions.
            progress(f"reading {named(self.name)}", part.done, self.size or 0, f"{self.rows:,} rows")
            if len(batch.users):
                yield batch
        if self.bad_rows is not None:
            self.bad_rows.require_few(self.name, self.rows + self.bad_rows.count)
        if not self.rows:
            raise refusal(self.name, "no row of it can be used")


def open_stream(
    path: AnyPath | Query,
    *,
    columns: Columns | str | None = None,
    need_rating: bool = False,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    format: str | None = None,
    skip_bad_rows: bool = False,
    most_bad_rows: float = MOST_BAD_ROWS,
    batch_rows: int = BATCH_ROWS,
) -> RatingsStream:
    """Open ratings to be read in bounded memory.

    The first rows are read at once, to find the columns, and so are the footers of Parquet files.

    Args:
        path: A file, a folder, a pattern, ``-`` or a query.
        columns: See ``read_ratings``.
        need_rating: Whether there must be a rating column.
        delimiter: See ``read_ratings``.
        encoding: See ``read_ratings``.
        format: See ``read_ratings``.
        skip_bad_rows: See ``read_ratings``.
        most_bad_rows: See ``read_ratings``.
        batch_rows: The most rows of one batch.

    Raises:
        InputError: A file cannot be used, or has another schema than the first.
    """
    form = Form.of(columns, delimiter, encoding, format, skip_bad_rows=skip_bad_rows, need_rating=need_rating)
    bad_rows = BadRows(most_bad_rows) if skip_bad_rows else None
    if isinstance(path, Query):
        form.require_no_file_options(path)
        rows = stream_query(path, form.columns, need_rating=need_rating, bad_rows=bad_rows)
        return _stream(str(path), _uncoded(rows), bad_rows=bad_rows)
    inputs = find_inputs(Path(path))
    schema, filtered = OneSchema(), OneFilter()
    with naming_in_logs(inputs.path, several=inputs.several):
        require_one_kind([(file.path, form.kind(file.path)) for file in inputs.files])
        files = tuple(form.opened(file) for file in inputs.files)
        for file in files:
            if file.layout is not None:
                schema.require(file.layout.file, file.layout.schema)
                filtered.add(file.layout.file, file.layout.filtered_by)
    empty = sum(file.layout is not None and not file.layout.rows for file in files)
    if empty == len(files):
        raise without_rows(inputs)
    parts = _parts(inputs, files, schema, bad_rows, batch_rows)
    return _stream(inputs.path, parts, filtered.text, inputs.size, bad_rows, len(files), empty)


def _stream(
    name: Path | str,
    parts: Iterator[RawRatings],
    filtered_by: str | None = None,
    size: int | None = None,
    bad_rows: BadRows | None = None,
    files: int = 1,
    empty_files: int = 0,
) -> RatingsStream:
    """Return a stream; its first rows show which columns it has."""
    first = next(parts)
    return RatingsStream(
        name,
        chain([first], parts),
        has_values="rating" in first.columns,
        has_times="time" in first.columns,
        filtered_by=filtered_by,
        size=size,
        bad_rows=bad_rows,
        files=files,
        empty_files=empty_files,
    )


def _uncoded(parts: Iterator[RawRatings]) -> Iterator[RawRatings]:
    for part in parts:
        part.coded = False
        yield part


def _parts(
    inputs: Inputs, files: tuple[OpenFile, ...], schema: OneSchema, bad_rows: BadRows | None, batch_rows: int
) -> Iterator[RawRatings]:
    """Yield the rows of one file after another; bad rows of all files are counted together."""
    rows = done = 0
    for file in files:
        bad = None if bad_rows is None else BadRows(1.0)
        path, before, size = file.file.path, rows, file.file.size or 0
        in_file = 0 if file.layout is None else file.layout.rows
        with naming_in_logs(inputs.path, several=inputs.several):
            for part in file.parts(bad, rows=batch_rows):
                schema.require(path, part.schema)
                rows += part.rows
                # A text file does not state its number of rows, so its progress is known only at its end.
                part.done = done + (size * (rows - before) // in_file if in_file else 0)
                yield part
        if bad is not None and bad_rows is not None:
            bad_rows.absorb(bad, before=before, file=named(path) if len(files) > 1 else None)
        done += size


def _batch(part: RawRatings) -> Batch:
    rows = check(part)
    seconds = None if rows.times is None else to_seconds(rows.times).fill_null(-np.inf).to_numpy()
    return Batch(rows.users.names, rows.items.names, rows.values, seconds)
