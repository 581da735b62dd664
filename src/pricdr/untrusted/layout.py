"""Accounts for every byte of a Parquet file, so that it carries nothing but the columns it shows.

For uncompressed files: a column chunk is a series of pages, a page is a header, levels and values, and the sizes of all
of these follow from what they hold. Writers differ in pages, row groups and dictionaries, so some slack is left; it is
bounded (``docs/threat-model.md``, *Known limits*).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pricdr.untrusted.footers import MAGIC, TAIL, Footer, LayoutError, Leaf, understood, whole
from pricdr.untrusted.thrift import Struct, ThriftError, read_struct

_ARROW: Final = b"ARROW:schema"
_LONGEST_METADATA: Final = 2048
_LONGEST_AUTHOR: Final = 200
_LONGEST_HEADER: Final = 64
"""Bytes of a page header; they have about 20."""
_FEWEST_VALUES: Final = 128
"""In a page or row group other than the last: many small ones would hide much in their headers."""
_FOOTER_SLACK: Final = 512
"""Bytes of a footer beside its texts and row groups; the schema of a release takes about 100."""
_GROUP_SLACK: Final = 512
"""Bytes of a row group in a footer: two columns take about 130."""
_FOOTER_FIELDS: Final = frozenset(range(1, 8))
_SCHEMA_FIELDS: Final = frozenset(range(1, 11))
_GROUP_FIELDS: Final = frozenset({1, 2, 3, 5, 6, 7})
_PAIR_FIELDS: Final = frozenset({1, 2})
_CHUNK_FIELDS: Final = frozenset({2, 3, 4, 5})
"""Of a column chunk, with its offset index; a column index (6, 7) would be statistics."""
_HEADER_FIELDS: Final = {1, 2, 3, 4, 5, 7, 8}
_PAGE_FIELDS: Final = {5: {1, 2, 3, 4}, 7: {1, 2, 3}, 8: {1, 2, 3, 4, 5, 6, 7}}
"""Fields of each kind of page; statistics are not among them."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLAIN: Final = 0
_DICTIONARY_INDICES: Final = (2, 8)
"""Encodings whose values are positions in a dictionary."""


@dataclass
class Weight:
    """How many bytes a column's pages take, by what they hold."""

    values: int = 0
    """The values themselves, or the entries of a dictionary."""
    indices: int = 0
    """Positions in a dictionary."""
    levels: int = 0
    numbers: int = 0
    """How many values; the entries of a dictionary are not counted."""
    pages: int = 0


def account(content: bytes, footer: Footer) -> list[Weight]:
    """Return what each column weighs; :class:`LayoutError` where a byte of the file belongs to nothing."""
    _check_footer(footer, len(content) - footer.start - TAIL)
    weights = [Weight() for _ in footer.leaves]
    taken = [(0, len(MAGIC)), (footer.start, len(content))]
    with understood("a column"):
        for group in footer.groups:
            if group is not footer.groups[-1] and group[3] < _FEWEST_VALUES:
                raise LayoutError(f"a row group has only {group[3]:,} rows; all but the last need {_FEWEST_VALUES}")
            for chunk, leaf, weight in zip(group[1], footer.leaves, weights, strict=True):
                taken += _chunk(memoryview(content), footer.start, chunk, leaf, weight)
    at = 0
    for start, end in sorted(taken):
        if start != at:
            raise LayoutError(f"{abs(start - at):,} bytes at {min(start, at):,} belong to no column, or to two")
        at = end
    return weights


def require_fitting(weight: Weight, needed: int, *, dictionary: bool) -> None:
    """Refuse a column that takes more bytes than its values need, or has a dictionary where none is due.

    A dictionary saves room where values repeat, and entries that no row uses could fill it: ids do not repeat.
    """
    if weight.values > needed:
        raise LayoutError(f"a column has {weight.values - needed:,} bytes more than its values need")
    if weight.indices and not dictionary:
        raise LayoutError("a column of vectors has a dictionary")
    positions = -(-weight.numbers * max(1, weight.numbers.bit_length()) // 8)
    if weight.indices > positions + 16 * weight.pages:
        raise LayoutError("a column's dictionary indices take more bytes than they need")
    if weight.levels > weight.numbers * 3 // 8 + 64 * weight.pages:
        raise LayoutError("a column's levels take more bytes than they need")


def _check_footer(footer: Footer, length: int) -> None:
    """Refuse a footer that states more than a release needs: readers skip what they do not know."""
    _check_texts(footer)
    fields = footer.fields
    with understood("its footer"):
        parts = [
            (_FOOTER_FIELDS, [fields]),
            (_SCHEMA_FIELDS, fields[2]),
            (_GROUP_FIELDS, footer.groups),
            (_PAIR_FIELDS, fields.get(5, [])),
        ]
        if any(part.keys() - known for known, some in parts for part in some):
            raise LayoutError("its footer has fields that no release needs")
    texts = len(footer.created_by) + sum(len(key) + len(value) for key, value in footer.metadata)
    most = texts + _FOOTER_SLACK + _GROUP_SLACK * len(footer.groups)
    if length > most:
        raise LayoutError(f"its footer has {length:,} bytes; at most {most:,} are allowed")


def _check_texts(footer: Footer) -> None:
    keys = [key for key, _ in footer.metadata]
    if keys not in ([], [_ARROW]):
        raise LayoutError("it carries metadata other than ARROW:schema")
    if any(len(value) > _LONGEST_METADATA for _, value in footer.metadata):
        raise LayoutError(f"its metadata has over {_LONGEST_METADATA:,} bytes")
    if len(footer.created_by) > _LONGEST_AUTHOR:
        raise LayoutError(f"its created_by has over {_LONGEST_AUTHOR} bytes")


def _chunk(
    content: memoryview, end_of_data: int, chunk: Struct, leaf: Leaf, weight: Weight
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the file that a column chunk occupies."""
    about = chunk[3]
    if chunk.keys() - _CHUNK_FIELDS or about.keys() - {1, 2, 3, 4, 5, 6, 7, 9, 11, 13}:
        raise LayoutError("a column chunk has fields that no release needs")
    if about[4] != 0:
        raise LayoutError("it is compressed; a release is stored uncompressed")
    length = whole(about[7], end_of_data)
    if about[6] != length or about[3] != list(leaf.path):
        raise LayoutError("a column chunk contradicts the schema or itself")
    start = whole(about.get(11, about[9]), end_of_data - length)
    pages = _pages(content[start : start + length], leaf, weight, whole(about[5], 1 << 40))
    yield start, start + length
    repeated = _repeated(content[start + length : end_of_data][:_LONGEST_METADATA], about)
    if repeated:
        yield start + length, start + length + repeated
    if 4 in chunk:
        at = whole(chunk[4], end_of_data)
        index, end = read_struct(content[:end_of_data], at)
        if end - at != chunk[5]:
            raise LayoutError("an offset index does not have the size that the footer states")
        _check_offset_index(index, [(start + begin, size) for begin, size in pages], end - at)
        yield at, end


def _check_offset_index(index: Struct, pages: list[tuple[int, int]], length: int) -> None:
    """Refuse an offset index that says anything but where the ``pages`` lie and which row each begins with."""
    found = [(place[1], place[2]) for place in index[1] if place.keys() == {1, 2, 3}]
    if index.keys() != {1} or len(found) != len(index[1]) or found != pages:
        raise LayoutError("an offset index does not list the pages of its column")
    if length > 8 + 24 * len(pages):  # a place takes about ten bytes, and at most 24
        raise LayoutError("an offset index takes more bytes than it needs")
    for place in index[1]:
        whole(place[3], 1 << 40)


def _repeated(content: memoryview, about: Struct) -> int:
    """Return how many bytes after a chunk repeat what the footer says of it, as some writers do."""
    try:
        again, end = read_struct(content)
    except ThriftError:
        return 0
    return end if again == about else 0


def _pages(content: memoryview, leaf: Leaf, weight: Weight, values: int) -> list[tuple[int, int]]:
    """Add up the pages of a column chunk; return where those of data begin in it, and their sizes with headers."""
    at = seen = 0
    places = []
    while at < len(content):
        header, begin = read_struct(content, at)
        more = any(header[kind].keys() - fields for kind, fields in _PAGE_FIELDS.items() if kind in header)
        if begin - at > _LONGEST_HEADER or header.keys() - _HEADER_FIELDS or more:
            raise LayoutError("a page header has fields that no release needs")
        size = whole(header[3], len(content) - begin)
        if header[2] != size:
            raise LayoutError("a page is compressed; a release is stored uncompressed")
        seen += _page(header, content[begin : begin + size], leaf, weight, left=values - seen)
        if header[1] != _DICTIONARY:
            places.append((at, begin + size - at))
        at = begin + size
        weight.pages += 1
    if seen != values:
        raise LayoutError(f"a column chunk holds {seen:,} values, its footer states {values:,}")
    weight.numbers += values
    return places


def _page(header: Struct, body: memoryview, leaf: Leaf, weight: Weight, *, left: int) -> int:
    """Return how many values a page has, and add its bytes to ``weight``."""
    if header[1] == _DICTIONARY:
        weight.values += len(body)
        return 0
    about = header[5] if header[1] == _DATA else header[8] if header[1] == _DATA_V2 else None
    if about is None:
        raise LayoutError("a page is neither of data nor a dictionary")
    count = whole(about[1], left)
    if count < min(left, _FEWEST_VALUES):
        raise LayoutError(f"a page has only {count:,} values; all but the last need {_FEWEST_VALUES}")
    if header[1] == _DATA:
        levels, encoding = _level_bytes(body, leaf), about[2]
    else:
        levels, encoding = whole(about[5], len(body)) + whole(about[6], len(body)), about[4]
    weight.levels += levels
    if encoding in _DICTIONARY_INDICES:
        weight.indices += len(body) - levels
    elif encoding == _PLAIN:
        weight.values += len(body) - levels
    else:  # one that saves room, which could be filled
        raise LayoutError("a page is neither plain nor of dictionary indices")
    return count


def _level_bytes(body: memoryview, leaf: Leaf) -> int:
    """Return the bytes of the repetition and definition levels, each of which begins with its length."""
    at = 0
    for depth in (leaf.repetition, leaf.definition):
        if depth:
            at += 4 + whole(int.from_bytes(body[at : at + 4], "little"), max(0, len(body) - at - 4))
    return at
