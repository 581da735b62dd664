"""Accounts for every byte of a Parquet file, so that it carries nothing but the columns it shows.

For uncompressed files: a column chunk is a series of pages, a page is a header, levels and values, and the sizes of all
of these follow from what they hold. Encodings differ from writer to writer, so some slack is left; it is bounded for
each of them (``docs/threat-model.md``, *Known limits*).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pricdr.untrusted.footers import MAGIC, Footer, LayoutError, Leaf, whole
from pricdr.untrusted.thrift import Struct, ThriftError, read_struct

_ARROW: Final = b"ARROW:schema"
_LONGEST_METADATA: Final = 2048
_LONGEST_AUTHOR: Final = 200
_LONGEST_HEADER: Final = 64
"""Bytes of a page header; they have about 20."""
_FEWEST_VALUES: Final = 128
"""In a page or row group other than the last: many small ones would hide much in their headers."""
_HEADER_FIELDS: Final = {1, 2, 3, 4, 5, 7, 8}
_PAGE_FIELDS: Final = {5: {1, 2, 3, 4}, 7: {1, 2, 3}, 8: {1, 2, 3, 4, 5, 6, 7}}
"""Fields of each kind of page; statistics are not among them."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
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
    _check_texts(footer)
    weights = [Weight() for _ in footer.leaves]
    taken = [(0, len(MAGIC)), (footer.start, len(content))]
    try:
        for group in footer.groups:
            if group is not footer.groups[-1] and group[3] < _FEWEST_VALUES:
                raise LayoutError(f"a row group has only {group[3]:,} rows; all but the last need {_FEWEST_VALUES}")
            for chunk, leaf, weight in zip(group[1], footer.leaves, weights, strict=True):
                taken += _chunk(memoryview(content), footer.start, chunk, leaf, weight)
    except (ThriftError, KeyError, TypeError, AttributeError) as error:
        raise LayoutError(f"a column cannot be read ({error!s:.60})") from error
    at = 0
    for start, end in sorted(taken):
        if start != at:
            raise LayoutError(f"{abs(start - at):,} bytes at {min(start, at):,} belong to no column, or to two")
        at = end
    return weights


def require_fitting(weight: Weight, most: int) -> None:
    """Refuse a column that takes more bytes than values of ``most`` bytes need."""
    if weight.values > most:
        raise LayoutError(f"a column has {weight.values - most:,} bytes more than its values need")
    positions = -(-weight.numbers * max(1, weight.numbers.bit_length()) // 8)
    if weight.indices > positions + 16 * weight.pages:
        raise LayoutError("a column's dictionary indices take more bytes than they need")
    if weight.levels > weight.numbers * 3 // 8 + 64 * weight.pages:
        raise LayoutError("a column's levels take more bytes than they need")


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
    if chunk.keys() - {2, 3, 4, 5, 6, 7} or about.keys() - {1, 2, 3, 4, 5, 6, 7, 9, 11, 13}:
        raise LayoutError("a column chunk has fields that no release needs")
    if about[4] != 0:
        raise LayoutError("it is compressed; a release is stored uncompressed")
    length = whole(about[7], end_of_data)
    if about[6] != length or about[3] != list(leaf.path):
        raise LayoutError("a column chunk contradicts the schema or itself")
    start = whole(about.get(11, about[9]), end_of_data - length)
    _pages(content[start : start + length], leaf, weight, whole(about[5], 1 << 40))
    yield start, start + length
    repeated = _repeated(content[start + length : end_of_data][:_LONGEST_METADATA], about)
    if repeated:
        yield start + length, start + length + repeated
    for offset, size in ((4, 5), (6, 7)):  # the offset index, the column index
        if offset in chunk:
            at = whole(chunk[offset], end_of_data)
            _, end = read_struct(content, at)
            if end - at != chunk[size]:
                raise LayoutError("a page index does not have the size that the footer states")
            yield at, end


def _repeated(content: memoryview, about: Struct) -> int:
    """Return how many bytes after a chunk repeat what the footer says of it, as some writers do."""
    try:
        again, end = read_struct(content)
    except ThriftError:
        return 0
    return end if again == about else 0


def _pages(content: memoryview, leaf: Leaf, weight: Weight, values: int) -> None:
    at = seen = 0
    while at < len(content):
        header, begin = read_struct(content, at)
        more = any(header[kind].keys() - fields for kind, fields in _PAGE_FIELDS.items() if kind in header)
        if begin - at > _LONGEST_HEADER or header.keys() - _HEADER_FIELDS or more:
            raise LayoutError("a page header has fields that no release needs")
        size = whole(header[3], len(content) - begin)
        if header[2] != size:
            raise LayoutError("a page is compressed; a release is stored uncompressed")
        seen += _page(header, content[begin : begin + size], leaf, weight, left=values - seen)
        at = begin + size
        weight.pages += 1
    if seen != values:
        raise LayoutError(f"a column chunk holds {seen:,} values, its footer states {values:,}")
    weight.numbers += values


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
    else:
        weight.values += len(body) - levels
    return count


def _level_bytes(body: memoryview, leaf: Leaf) -> int:
    """Return the bytes of the repetition and definition levels, each of which begins with its length."""
    at = 0
    for depth in (leaf.repetition, leaf.definition):
        if depth:
            at += 4 + whole(int.from_bytes(body[at : at + 4], "little"), max(0, len(body) - at - 4))
    return at
