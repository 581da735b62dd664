"""The footer of a Parquet file: what it says it holds, known before anything is decoded."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pricdr.untrusted.thrift import Struct, ThriftError, read_struct

MAGIC: Final = b"PAR1"
TAIL: Final = 8
"""Bytes after a footer: its length and the magic word."""
_LONGEST: Final = 64 << 20
_MOST_ROWS: Final = 1 << 40
_REPEATED, _REQUIRED = 2, 0


class LayoutError(ValueError):
    """A file that is not laid out as Parquet, or not as a release must be."""


class Source(Protocol):
    """Bytes read by position, without a cursor."""

    def size(self) -> int:
        """Return how many bytes there are."""

    def bytes_at(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``start``."""


@dataclass(frozen=True)
class Leaf:
    """A column that holds values: its path, and its highest repetition and definition levels."""

    path: tuple[bytes, ...]
    repetition: int
    definition: int


@dataclass(frozen=True)
class Footer:
    """What the footer of a file states."""

    start: int
    """Where it begins; everything before it is data."""
    rows: int
    leaves: tuple[Leaf, ...]
    groups: tuple[Struct, ...]
    """Row groups, as they stand in the file."""
    metadata: tuple[tuple[bytes, bytes], ...]
    created_by: bytes
    unpacked: int
    """Bytes of all columns without compression."""
    fields: Struct
    """Everything it states, by field number."""


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Turn structs that are not what Parquet puts there into a :class:`LayoutError` about ``what``."""
    try:
        yield
    except ThriftError as error:
        raise LayoutError(f"{what} cannot be read: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise LayoutError(f"{what} cannot be read: a field is missing, or of another type") from error


def read_footer(source: Source) -> Footer:
    """Read the footer of a file and check every number in it against the file's size."""
    size = source.size()
    if size < 2 * len(MAGIC) + TAIL or source.bytes_at(0, len(MAGIC)) != MAGIC:
        raise LayoutError("it does not begin like a Parquet file")
    tail = source.bytes_at(size - TAIL, TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or not 0 < length <= min(_LONGEST, size - TAIL - len(MAGIC)):
        raise LayoutError("it does not end like a Parquet file")
    start = size - TAIL - length
    with understood("its footer"):
        content, end = read_struct(source.bytes_at(start, length))
        if end != length:
            raise LayoutError(f"{length - end:,} bytes lie between its footer and its end")
        return _footer(content, start)


def _footer(content: Struct, start: int) -> Footer:
    if 8 in content or 9 in content:
        raise LayoutError("it is encrypted")
    groups = content.get(4, [])
    rows = whole(content[3], _MOST_ROWS)
    if sum(whole(group[3], _MOST_ROWS) for group in groups) != rows:
        raise LayoutError("its row groups do not add up to its rows")
    leaves = _leaves(content[2])
    if any(len(group[1]) != len(leaves) for group in groups):
        raise LayoutError("a row group lacks columns")
    chunks = [chunk[3] for group in groups for chunk in group[1]]
    metadata = tuple((pair[1], pair.get(2, b"")) for pair in content.get(5, []))
    if not all(isinstance(text, bytes) for pair in metadata for text in pair):
        raise LayoutError("its metadata is not text")
    created_by = content.get(6, b"")
    if not isinstance(created_by, bytes):
        raise LayoutError("its created_by is not text")
    unpacked = sum(whole(chunk[6], 1 << 50) for chunk in chunks)
    return Footer(start, rows, leaves, tuple(groups), metadata, created_by, unpacked, content)


def _leaves(schema: list[Struct]) -> tuple[Leaf, ...]:
    """Return the columns of a schema, which is a tree in depth-first order."""
    leaves: list[Leaf] = []

    def visit(at: int, path: tuple[bytes, ...], repetition: int, definition: int) -> int:
        if len(path) > 16:
            raise LayoutError("its columns are nested too deeply")
        element = schema[at]
        kind = element.get(3, _REQUIRED) if path or at else _REQUIRED
        repetition += kind == _REPEATED
        definition += kind != _REQUIRED
        path = (*path, element[4]) if at else path
        children = whole(element.get(5, 0), len(schema))
        if not children:
            leaves.append(Leaf(path, repetition, definition))
        at += 1
        for _ in range(children):
            at = visit(at, path, repetition, definition)
        return at

    if visit(0, (), 0, 0) != len(schema):
        raise LayoutError("its schema is not a tree")
    return tuple(leaves)


def whole(value: Any, most: int) -> int:  # noqa: ANN401 - whatever the file holds
    """Return ``value`` if it is a whole number from 0 to ``most``; a hostile file may state anything."""
    if type(value) is not int or not 0 <= value <= most:
        raise LayoutError(f"it states {value!r:.30} where a number up to {most:,} is expected")
    return value
