"""``ReadOptions``: what the caller says about the format of the files, and the format by their names."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from pricdr.data.reading.columns import Columns
from pricdr.data.reading.fields import CSV, INTER, MOVIELENS, TSV, Dialect
from pricdr.data.reading.query import Query
from pricdr.data.reading.report import MOST_BAD_ROWS
from pricdr.data.reading.text_files import STANDARD_INPUT, file_refusal, require_encoding, shorten
from pricdr.errors import ParameterError

_LONGEST_DELIMITER: Final = 8


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


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How files of ratings are read; the arguments of ``read_ratings`` explain the fields."""

    columns: Columns | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    format: Format | None = None
    skip_bad_rows: bool = False
    most_bad_rows: float = MOST_BAD_ROWS
    need_rating: bool = False
    time_asked: bool = False
    """Whether the caller named the time column, so that a time that cannot be read makes a row bad."""

    @classmethod
    def of(
        cls,
        *,
        columns: Columns | str | None = None,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        format: str | None = None,
        skip_bad_rows: bool = False,
        most_bad_rows: float = MOST_BAD_ROWS,
        need_rating: bool = False,
    ) -> "ReadOptions":
        """Check the arguments and return the options that they describe."""
        if format is not None and format not in list(Format):
            raise ParameterError(f"format must be one of {', '.join(Format)}, got {shorten(format)}")
        columns = Columns.parse(columns) if isinstance(columns, str) else columns
        return cls(
            columns=columns,
            delimiter=None if delimiter is None else parse_delimiter(delimiter),
            encoding=require_encoding(encoding),
            format=None if format is None else Format(format),
            skip_bad_rows=skip_bad_rows,
            most_bad_rows=most_bad_rows,
            need_rating=need_rating,
            time_asked=columns is not None and columns.time is not None,
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
        # Without the name of a file, which may be an id: logs show these messages.
        for option, given in (("--delimiter", self.delimiter is not None), ("--encoding", self.encoding != "utf-8")):
            if kind is Format.PARQUET and given:
                raise ParameterError(f"{option} is for text files, and these files are Parquet")
        if kind is Format.JSONL and self.delimiter is not None:
            raise ParameterError("--delimiter is for delimited text, and these files are JSON lines")
        return kind

    def dialect(self, kind: Format) -> Dialect:
        """Return how the fields of delimited text are separated."""
        if self.delimiter is None:
            return _DIALECTS[kind]
        return replace(CSV if kind is Format.DAT else _DIALECTS[kind], separator=self.delimiter)

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


def parse_delimiter(text: str) -> str:
    r"""Return a delimiter as the command line writes it; ``tab`` and ``\t`` stand for a tab.

    >>> parse_delimiter(";"), parse_delimiter("tab")
    (';', '\t')
    """
    delimiter = {"tab": "\t", "\\t": "\t"}.get(text, text)
    plain = delimiter == "\t" or delimiter.isprintable()
    if not plain or not 1 <= len(delimiter) <= _LONGEST_DELIMITER or '"' in delimiter:
        rule = f"1 to {_LONGEST_DELIMITER} printable characters or tab, and hold no quote"
        raise ParameterError(f"delimiter must be {rule}, got {shorten(text)}")
    return delimiter
