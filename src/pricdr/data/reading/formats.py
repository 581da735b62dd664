"""The format of a file of ratings, by its name or as the caller says."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from pricdr.data.reading.bad_rows import BadRows
from pricdr.data.reading.columns import Columns
from pricdr.data.reading.delimited import read_delimited, stream_delimited
from pricdr.data.reading.dialects import CSV, INTER, MOVIELENS, TSV, Dialect, parse_delimiter
from pricdr.data.reading.inputs import InputFile
from pricdr.data.reading.jsonlines import read_json_lines, stream_json_lines
from pricdr.data.reading.parquet import ParquetLayout, read_parquet, stream_parquet
from pricdr.data.reading.query import Query
from pricdr.data.reading.raw_ratings import Beside, RawRatings
from pricdr.data.reading.text_files import (
    STANDARD_INPUT,
    file_refusal,
    read_blocks,
    read_lines,
    read_text,
    require_encoding,
    shorten,
)
from pricdr.errors import ParameterError

BATCH_ROWS: Final = 1 << 20
"""The most rows in a batch."""
_TEXT_BLOCK: Final = 1 << 24
"""Bytes of delimited text that are parsed at a time."""


class Format(StrEnum):
    """How a file of ratings is written."""

    CSV = "csv"
    TSV = "tsv"
    INTER = "inter"
    DAT = "dat"
    JSONL = "jsonl"
    PARQUET = "parquet"


_DIALECTS: Final = {Format.CSV: CSV, Format.TSV: TSV, Format.INTER: INTER, Format.DAT: MOVIELENS}
_NAMES: Final = {
    **{f".{kind}": kind for kind in (Format.CSV, Format.TSV, Format.INTER, Format.DAT)},
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), Format.JSONL),
    ".parquet": Format.PARQUET,
}


@dataclass(frozen=True)
class Form:
    """What the caller says about the format of the files."""

    columns: Columns | None
    delimiter: str | None
    encoding: str
    skip_bad_rows: bool
    format: Format | None
    need_rating: bool

    @classmethod
    def of(
        cls,
        columns: Columns | str | None,
        delimiter: str | None,
        encoding: str,
        format: str | None,
        *,
        skip_bad_rows: bool,
        need_rating: bool,
    ) -> "Form":
        """Check the arguments and return the form that they describe."""
        return cls(
            Columns.parse(columns) if isinstance(columns, str) else columns,
            None if delimiter is None else parse_delimiter(delimiter),
            require_encoding(encoding),
            skip_bad_rows,
            None if format is None else _parse_format(format),
            need_rating,
        )

    def kind(self, file: Path) -> Format:
        """Return the format of a file, from the caller or its name; standard input is CSV by default."""
        suffixes = [suffix.lower() for suffix in file.suffixes[-2:]]
        packed = suffixes[-1:] == [".gz"]
        by_name = _NAMES.get("".join(suffixes[-2:-1] if packed else suffixes[-1:]))
        if packed and by_name is Format.PARQUET:
            by_name = None
        kind = self.format or by_name or (Format.CSV if file == STANDARD_INPUT or self.delimiter is not None else None)
        if kind is None:
            accepted = ", ".join(name for name in _NAMES if name != ".parquet")
            rule = f"accepted are {accepted} (each also with .gz) and .parquet, or set --format or --delimiter"
            raise file_refusal(file, f"unknown kind of file; {rule}")
        if kind is Format.PARQUET:
            self._require_no_text_options()
        if kind is Format.JSONL and self.delimiter is not None:
            raise ParameterError("--delimiter is for delimited text, and these files are JSON lines")
        return kind

    def beside(self, file: InputFile) -> Beside:
        """Return the partitions of a file that the caller names as columns; the others are ignored."""
        columns = self.columns
        names = () if columns is None else (columns.user, columns.item, columns.rating, columns.time)
        return {name: value for name, value in file.partitions.items() if name in names}

    def read(self, file: InputFile, bad_rows: BadRows | None) -> RawRatings:
        """Return all rows of a file; only a Parquet file may have none, any other is then refused."""
        kind, path, beside = self.kind(file.path), file.path, self.beside(file)
        need, skip = self.need_rating, self.skip_bad_rows
        with file.unchanged():
            if kind is Format.PARQUET:
                return read_parquet(path, self.columns, need_rating=need, bad_rows=bad_rows, beside=beside)
            if kind is Format.JSONL:
                lines = read_lines(path, encoding=self.encoding, substitute=skip)
                return read_json_lines(path, lines, self.columns, need_rating=need, bad_rows=bad_rows, beside=beside)
            text = read_text(path, encoding=self.encoding, substitute=skip)
            dialect = self._dialect(kind)
            return read_delimited(path, text, dialect, self.columns, need_rating=need, bad_rows=bad_rows, beside=beside)

    def opened(self, file: InputFile) -> "OpenFile":
        """Return a file that can be read some rows at a time; the footer of a Parquet file is read now."""
        kind = self.kind(file.path)
        if kind is not Format.PARQUET:
            return OpenFile(file, self, kind, None)
        with file.unchanged():
            layout = ParquetLayout.of(file.path, self.columns, need_rating=self.need_rating, beside=self.beside(file))
        return OpenFile(file, self, kind, layout)

    def require_no_file_options(self, query: Query) -> None:
        """Refuse options about files where the ratings come from a query."""
        given = {
            "--delimiter": self.delimiter is not None,
            "--encoding": self.encoding != "utf-8",
            "--format": self.format is not None,
        }
        for option, is_given in given.items():
            if is_given:
                raise ParameterError(f"{option} is for files of ratings, not for {query}")

    def _dialect(self, kind: Format) -> Dialect:
        if self.delimiter is None:
            return _DIALECTS[kind]
        return replace(CSV if kind is Format.DAT else _DIALECTS[kind], separator=self.delimiter)

    def _require_no_text_options(self) -> None:
        # Without the name of a file, which may be an id: logs show these messages.
        for option, given in (("--delimiter", self.delimiter is not None), ("--encoding", self.encoding != "utf-8")):
            if given:
                raise ParameterError(f"{option} is for text files, and these files are Parquet")


@dataclass(frozen=True)
class OpenFile:
    """One file of a stream."""

    file: InputFile
    form: Form
    kind: Format
    layout: ParquetLayout | None
    """From the footer of a Parquet file; None for text, whose layout is known only when it is read."""

    def parts(self, bad_rows: BadRows | None, *, rows: int = BATCH_ROWS) -> Iterator[RawRatings]:
        """Yield the rows of the file in order, some at a time, with ids as text.

        Args:
            bad_rows: Collects the bad rows of this file; without it they are refused.
            rows: The most rows of a part of a Parquet file; text is cut by bytes.
        """
        with self.file.unchanged():
            for part in self._parts(bad_rows, rows):
                part.coded = False
                yield part

    def _parts(self, bad_rows: BadRows | None, rows: int) -> Iterator[RawRatings]:
        form, path = self.form, self.file.path
        if self.layout is not None:
            return stream_parquet(self.layout, rows, bad_rows)
        need, skip, beside = form.need_rating, form.skip_bad_rows, form.beside(self.file)
        if self.kind is Format.JSONL:
            lines = read_lines(path, encoding=form.encoding, substitute=skip)
            return stream_json_lines(path, lines, form.columns, need_rating=need, bad_rows=bad_rows, beside=beside)
        blocks = read_blocks(path, _TEXT_BLOCK, encoding=form.encoding, substitute=skip)
        dialect = form._dialect(self.kind)
        return stream_delimited(path, blocks, dialect, form.columns, need_rating=need, bad_rows=bad_rows, beside=beside)


def _parse_format(name: str) -> Format:
    try:
        return Format(name)
    except ValueError as error:
        raise ParameterError(f"format must be one of {', '.join(Format)}, got {shorten(name)}") from error
