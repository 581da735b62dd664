"""Parquet: what ``prepare`` writes and what any other tool wrote."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import polars as pl

from pricdr.data.ratings import Ratings
from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import Columns, find_named
from pricdr.data.reading.raw_ratings import CodedIds, ColumnLoader, RawRatings
from pricdr.data.reading.text_files import explaining_os_errors, refusal, shorten
from pricdr.files import write_new
from pricdr.untrusted.parquet import As, Column, Decoded, Numbers, Parquet, Text

FILTERED = "pricdr.filtered"
"""The metadata key that carries ``Ratings.filtered_by`` from file to file."""
_TIME_KINDS = ("integers", "numbers", "times", "text")


def read_parquet(
    file: Path, columns: Columns | None, *, need_rating: bool, bad_rows: BadRows | None = None
) -> RawRatings:
    """Read the user, item, rating and time columns of a Parquet file; ids that are whole numbers become text."""
    with opened(file) as parquet:
        about = parquet.read()
        positions = find_named(file, [column.name for column in about.columns], columns, need_rating=need_rating)
        places = {role: at for role, at in positions._asdict().items() if at is not None}
        # From the file's own description, before anything is decoded.
        asked = columns is not None and columns.time is not None
        if "time" in places and about.columns[places["time"]].kind not in _TIME_KINDS and not asked:
            del places["time"]
        for role, at in places.items():
            _require_kind(file, role, about.columns[at])
        if about.rows == 0:
            raise refusal(file, "the file has columns and no rows")
        wanted = [(at, _purpose(role, about.columns[at])) for role, at in places.items()]
        read = parquet.read(*wanted)
    loaders = {role: _loader(role, column) for role, column in zip(places, read.decoded, strict=True)}
    filtered_by = about.metadata.get(FILTERED)
    return RawRatings(file, about.rows, loaders, filtered_by=filtered_by, time_asked=asked, bad_rows=bad_rows)


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


@contextmanager
def opened(file: Path) -> Iterator[Parquet]:
    """Open a file that the user named, to be decoded in a child process; refusals name the file."""
    with explaining_os_errors(file), Parquet.opened(file, partial(refusal, file)) as parquet:
        yield parquet


def write_ratings(path: Path, ratings: Ratings, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write ``ratings`` as Parquet: ``user``, ``item`` and, where they mean something, ``rating``.

    The same ratings give the same bytes. Users and items without a rating have no row in it.

    Args:
        path: A file that does not exist yet.
        ratings: What to write, in the order of its users and items.
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
    with path.open("wb") as file:  # not a name: polars wants names in UTF-8
        frame.write_parquet(file)


def _require_kind(file: Path, role: str, column: Column) -> None:
    if role == "rating":
        if column.kind not in ("integers", "numbers"):
            shown = shorten(column.name)
            raise refusal(file, f"the rating column {shown} holds {column.dtype}; ratings must be numbers")
    elif role == "time":
        if column.kind not in _TIME_KINDS:
            rule = "times must be dates, numbers or text"
            raise refusal(file, f"the time column {shorten(column.name)} holds {column.dtype}; {rule}")
    elif column.kind not in ("integers", "text"):
        rule = "ids must be text or whole numbers"
        raise refusal(file, f"the {role} column {shorten(column.name)} holds {column.dtype}; {rule}")


def _purpose(role: str, column: Column) -> As:
    number = role == "rating" or (role == "time" and column.kind != "text")
    return As.NUMBERS if number else As.TEXT


def _loader(role: str, column: Decoded) -> ColumnLoader:
    if role in ("user", "item"):
        assert isinstance(column, Text)
        return lambda: CodedIds(column.codes, pl.Series(column.values, dtype=pl.String))
    return lambda: to_series(column)
