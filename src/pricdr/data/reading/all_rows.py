"""Read all rows of one or many files into memory, each checked."""

from dataclasses import dataclass

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.formats import Form, Format
from pricdr.data.reading.inputs import Inputs, naming_in_logs, without_rows
from pricdr.data.reading.one_schema import OneFilter, OneSchema, require_one_kind
from pricdr.data.reading.queries import stream_query
from pricdr.data.reading.query import Query
from pricdr.data.reading.raw_ratings import CheckedRows, check, joined
from pricdr.data.reading.text_files import named


@dataclass
class AllRows:
    """The rows of files that were read together; repeated pairs are not yet merged."""

    checked: CheckedRows
    rows: int
    """All rows, bad ones included."""
    blank_lines: int
    filtered_by: str | None
    files: int = 1
    empty_files: int = 0
    """Parquet files with a schema and no rows: Spark writes those."""


def read_query(query: Query, form: Form, bad_rows: BadRows | None) -> AllRows:
    """Read all rows of a query."""
    form.require_no_file_options(query)
    # Whether too many rows are bad is known only when all of them have been read.
    bad = None if bad_rows is None else BadRows(1.0)
    parts, rows, counted = [], 0, 0
    for part in stream_query(query, form.columns, need_rating=form.need_rating, bad_rows=bad):
        # Rows that were skipped already are not in the part; those that its check skips are.
        rows += part.rows + (0 if bad is None else bad.count - counted)
        parts.append(check(part))
        counted = 0 if bad is None else bad.count
    if bad is not None and bad_rows is not None:
        bad_rows.absorb(bad, before=0)
        bad_rows.require_few(str(query), rows)
    return AllRows(joined(parts), rows, 0, None)


def read_all(inputs: Inputs, form: Form, bad_rows: BadRows | None) -> AllRows:
    """Read files of one schema; bad rows of all of them are counted together."""
    several = len(inputs.files) > 1
    schema, filtered, parts = OneSchema(), OneFilter(), []
    rows = blank_lines = empty_files = 0
    with naming_in_logs(inputs.path, several=inputs.several):
        require_one_kind([(file.path, form.kind(file.path)) for file in inputs.files])
    for file in inputs.files:
        # Whether too many rows are bad is known only when all files have been read.
        bad = bad_rows if bad_rows is None or not several else BadRows(1.0)
        with naming_in_logs(inputs.path, several=inputs.several):
            raw = form.read(file, bad)
            schema.require(file.path, raw.schema)
            filtered.add(file.path, raw.filtered_by)
        blank_lines += raw.blank_lines
        before = rows
        rows += raw.rows + (0 if bad is None else bad.count)
        if raw.rows:
            parts.append(check(raw))
        elif form.kind(file.path) is Format.PARQUET:
            empty_files += 1
        if bad is not None and bad_rows is not None and several:
            bad_rows.absorb(bad, before=before, file=named(file.path))
    if bad_rows is not None and several:
        bad_rows.require_few(inputs.path, rows)
    if not parts:
        raise without_rows(inputs)
    return AllRows(joined(parts), rows, blank_lines, filtered.text, len(inputs.files), empty_files)
