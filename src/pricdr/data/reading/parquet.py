"""Read Parquet, written by ``prepare`` or any other tool; write ratings as Parquet."""

import io
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import add
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from pricdr.data.ratings import Ratings
from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.raw_ratings import (
    NOTHING_BESIDE,
    Beside,
    CodedIds,
    ColumnLoader,
    RawRatings,
    Schema,
    constant,
    in_memory,
)
from pricdr.data.reading.text_files import STANDARD_INPUT, explaining_os_errors, file_refusal, refusal, shorten
from pricdr.errors import InputError
from pricdr.files import write_new
from pricdr.untrusted.parquet import As, Column, Decoded, Numbers, Parquet, Read, Text, TextRows

FILTERED = "pricdr.filtered"
"""The metadata key that carries ``Ratings.filtered_by`` from file to file."""
_TIME_KINDS = ("integers", "numbers", "times", "text")
_UNREADABLE = "cannot be read as Parquet"
"""How the decoder's refusals begin."""


@dataclass(frozen=True)
class ParquetLayout:
    """What a file's footer says, and which of its columns are read as what."""

    file: Path
    rows: int
    schema: Schema
    filtered_by: str | None
    wanted: Mapping[str, tuple[int, As]]
    """The position and purpose of each column to read, by its role."""
    constants: Mapping[str, str | None]
    """The values of roles that partition folders fill."""
    time_asked: bool
    spooled: BinaryIO | None
    """Standard input, copied to an unnamed file: reading Parquet starts at its end."""

    @classmethod
    def of(cls, file: Path, columns: Columns | None, *, need_rating: bool, beside: Beside) -> "ParquetLayout":
        """Find the columns in the footer of the file, before any row is decoded."""
        spooled = _spool() if file == STANDARD_INPUT else None
        try:
            footer = _read_footer(file, spooled)
        except InputError:
            if spooled is not None:
                spooled.close()
            raise
        header = [column.name for column in footer.columns]
        positions = find_named(file, [*header, *beside], columns, need_rating=need_rating)
        by_role = {role: at for role, at in positions._asdict().items() if at is not None}
        in_file = {role: at for role, at in by_role.items() if at < len(header)}
        values = list(beside.values())
        constants = {role: values[at - len(header)] for role, at in by_role.items() if at >= len(header)}
        time_asked = columns is not None and columns.time is not None
        if "time" in in_file and footer.columns[in_file["time"]].kind not in _TIME_KINDS and not time_asked:
            del in_file["time"]
        for role, at in in_file.items():
            _require_kind(file, role, footer.columns[at])
        wanted = {role: (at, _purpose(role, footer.columns[at])) for role, at in in_file.items()}
        schema = tuple((column.name, column.dtype) for column in footer.columns)
        return cls(file, footer.rows, schema, footer.metadata.get(FILTERED), wanted, constants, time_asked, spooled)

    def raw_ratings(self, rows: int, loaders: dict[str, ColumnLoader], bad_rows: BadRows | None) -> RawRatings:
        """Return ``rows`` rows of the file, whose columns ``loaders`` load."""
        loaders |= {role: constant(value, rows) for role, value in self.constants.items()}
        return RawRatings(
            self.file,
            rows,
            loaders,
            schema=self.schema,
            filtered_by=self.filtered_by,
            time_asked=self.time_asked,
            bad_rows=bad_rows,
        )


def read_parquet(
    file: Path,
    columns: Columns | None,
    *,
    need_rating: bool,
    bad_rows: BadRows | None = None,
    beside: Beside = NOTHING_BESIDE,
) -> RawRatings:
    """Read the user, item, rating and time columns of a Parquet file; ids that are whole numbers become text.

    A file may have no rows: the caller has to refuse it.
    """
    layout = ParquetLayout.of(file, columns, need_rating=need_rating, beside=beside)
    decoded: tuple[Decoded, ...] = ()
    with layout.spooled or nullcontext(), opened(file, layout.spooled) as parquet:
        if layout.rows:
            decoded = parquet.read(*layout.wanted.values(), rows=layout.rows).decoded
    loaders = {role: _loader(role, column) for role, column in zip(layout.wanted, decoded, strict=bool(layout.rows))}
    return layout.raw_ratings(layout.rows, loaders, bad_rows)


def stream_parquet(layout: ParquetLayout, rows: int, bad_rows: BadRows | None = None) -> Iterator[RawRatings]:
    """Yield what :func:`read_parquet` returns, at most ``rows`` rows at a time."""
    before = 0
    with layout.spooled or nullcontext(), opened(layout.file, layout.spooled) as parquet:
        for part in parquet.slices(*layout.wanted.values(), rows=rows):
            loaders = {
                role: in_memory(_rows_as_series(layout.file, column))
                for role, column in zip(layout.wanted, part.decoded, strict=True)
            }
            raw = layout.raw_ratings(part.rows, loaders, bad_rows)
            raw.number = partial(add, before)
            before += part.rows
            yield raw
    if before != layout.rows:
        raise refusal(layout.file, f"it has {before:,} rows, and had {layout.rows:,} when it was opened")


def _rows_as_series(file: Path, column: TextRows | Numbers) -> pl.Series:
    """Return some rows of a column; the process that decoded them is not trusted, so they are checked."""
    if isinstance(column, Numbers):
        return to_series(column)
    try:
        text = column.joined.decode()
    except UnicodeDecodeError as error:
        raise refusal(file, "cannot be read as Parquet: its text is not UTF-8") from error
    values = pl.Series([text]).str.split("\n").explode()
    if len(values) != len(column.lengths):  # some value contains a line feed: cut by their lengths
        ends = (np.cumsum(column.lengths) + np.arange(len(column.lengths))).tolist()
        pieces = (column.joined[end - size : end] for end, size in zip(ends, column.lengths.tolist(), strict=True))
        values = pl.Series([piece.decode("utf-8", "replace") for piece in pieces], dtype=pl.String)
    return values.set(pl.Series(column.missing), None) if column.missing.any() else values


def read_text_columns(file: Path, columns: Sequence[str]) -> list[Text]:
    """Read text columns of a file that this software wrote, as distinct values and positions in them."""
    with opened(file) as parquet:
        decoded = parquet.read(*((name, As.TEXT) for name in columns)).decoded
    return [column for column in decoded if isinstance(column, Text)]


def to_series(column: Decoded) -> pl.Series:
    """Return a decoded column of text or numbers as a polars series, null where a value is missing."""
    if isinstance(column, Text):
        return pl.Series(column.rows(), dtype=pl.String)
    assert isinstance(column, Numbers)
    return pl.Series(column.values).set(pl.Series(column.missing), None)


def _read_footer(file: Path, spooled: BinaryIO | None) -> Read:
    """Return the number of rows, the columns and the metadata of a file."""
    with opened(file, spooled) as parquet:
        if not parquet.size:
            raise file_refusal(file, "the file is empty")
        return parquet.read()


def _spool() -> BinaryIO:
    """Return a copy of standard input in an unnamed file, which is gone when it is closed."""
    spooled = tempfile.TemporaryFile()  # noqa: SIM115 - read later, part by part
    with explaining_os_errors(STANDARD_INPUT):
        shutil.copyfileobj(io.FileIO(0, closefd=False), spooled)
        spooled.flush()
    return spooled


@contextmanager
def opened(file: Path, spooled: BinaryIO | None = None) -> Iterator[Parquet]:
    """Open a file that the user named, to be decoded in a child process; refusals name the file."""
    if spooled is not None:
        yield Parquet(spooled.fileno(), partial(_parquet_refusal, file))
        return
    with explaining_os_errors(file), Parquet.opened(file, partial(_parquet_refusal, file)) as parquet:
        yield parquet


def _parquet_refusal(file: Path, fault: str) -> InputError:
    """Return an error about a file that cannot be decoded; a log gets no details, which may count rows."""
    if fault.startswith(_UNREADABLE):
        return file_refusal(file, fault, logged=f"{_UNREADABLE}: truncated, damaged, too large, or of another format")
    return file_refusal(file, fault)


def write_ratings(path: Path, ratings: Ratings, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write ``ratings`` as Parquet: ``user``, ``item`` and, where there are values, ``rating``.

    The same ratings give the same bytes. Users and items without a rating have no row in it.

    Args:
        path: A file that does not exist yet.
        ratings: The ratings to write, in the order of their users and items.
        metadata: Further key-value metadata; ``filtered_by`` is added under ``pricdr.filtered``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ratings(Path(folder) / "r.parquet", Ratings.from_triples(["007"], ["x"]))
    ...     pl.read_parquet(Path(folder) / "r.parquet").rows(named=True)
    [{'user': '007', 'item': 'x'}]
    """
    filtered = {} if ratings.filtered_by is None else {FILTERED: ratings.filtered_by}
    buffer = io.BytesIO()
    ratings.to_polars().write_parquet(buffer, metadata={**(metadata or {}), **filtered})
    write_new(path, buffer.getvalue())


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a table into a folder that is being staged."""
    with path.open("wb") as file:  # not by its name: polars requires names in UTF-8
        frame.write_parquet(file)


def _require_kind(file: Path, role: str, column: Column) -> None:
    if role == "rating":
        if column.kind not in ("integers", "numbers"):
            shown = shorten(column.name)
            raise file_refusal(file, f"the rating column {shown} holds {column.dtype}; ratings must be numbers")
    elif role == "time":
        if column.kind not in _TIME_KINDS:
            rule = "times must be dates, numbers or text"
            raise file_refusal(file, f"the time column {shorten(column.name)} holds {column.dtype}; {rule}")
    elif column.kind not in ("integers", "text"):
        rule = "ids must be text or whole numbers"
        raise file_refusal(file, f"the {role} column {shorten(column.name)} holds {column.dtype}; {rule}")


def _purpose(role: str, column: Column) -> As:
    number = role == "rating" or (role == "time" and column.kind != "text")
    return As.NUMBERS if number else As.TEXT


def _loader(role: str, column: Decoded) -> ColumnLoader:
    if role in ("user", "item"):
        assert isinstance(column, Text)
        return lambda: CodedIds(column.codes, pl.Series(column.values, dtype=pl.String))
    return lambda: to_series(column)
