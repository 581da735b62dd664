"""Dialects of delimited text: how fields are separated."""

from dataclasses import dataclass
from typing import Final

from pricdr.data.reading.text_files import shorten
from pricdr.errors import ParameterError

_LONGEST_DELIMITER: Final = 8


@dataclass(frozen=True)
class Dialect:
    """How one kind of file separates its fields."""

    separator: str
    quoting: bool = True
    typed_header: bool = False
    """RecBole writes ``name:type``."""
    headerless: bool = False
    """MovieLens writes ``user::item::rating::time`` in every line."""


CSV = Dialect(",")
TSV = Dialect("\t")
INTER = Dialect("\t", quoting=False, typed_header=True)
MOVIELENS = Dialect("::", quoting=False, headerless=True)


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
