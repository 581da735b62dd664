"""Accounts for every byte of a Parquet file, so that it carries nothing but the columns it shows.

For uncompressed files: a column chunk is a series of pages, a page is a header, levels and values, and the sizes of all
of these follow from what they hold. Writers may choose among the encodings for which that is so; what little they are
still free to choose is in ``docs/threat-model.md``, *Known limits*.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pricdr.untrusted.footers import MAGIC, Footer, LayoutError, Leaf, understood, whole
from pricdr.untrusted.shapes import FOOTER, OFFSET_INDEX, require_shape
from pricdr.untrusted.thrift import Struct, ThriftError, read_struct, read_varint

_ARROW: Final = b"ARROW:schema"
_LONGEST_REPEAT: Final = 2048
"""Bytes after a chunk that may say again what the footer says of it."""
_LONGEST_HEADER: Final = 64
"""Bytes of a page header; they have about 20."""
_FEWEST_VALUES: Final = 128
"""The fewest values of a page or row group but the last: many small ones would hide much in their headers."""
_HEADER_FIELDS: Final = {1, 2, 3, 4, 5, 7, 8}
_PAGE_FIELDS: Final = {5: {1, 2, 3, 4}, 7: {1, 2, 3}, 8: {1, 2, 3, 4, 5, 6, 7}}
"""Fields of each kind of page; statistics are not among them."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DICTIONARY_INDICES: Final = (2, 8)
"""Encodings whose values are positions in a dictionary."""
_PLAIN: Final = (0, 9)
"""Encodings that take as many bytes as their values: as they are, or the first bytes of all, then the second."""


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
    """Refuse a column that takes other than the ``needed`` bytes for its values, or has a dictionary where none is due.

    A dictionary is for distinct values: repeated ones need less, and entries that no row uses would fill the rest.
    """
    if weight.values != needed:
        raise LayoutError(f"a column has {weight.values:,} bytes of values, and they take {needed:,}")
    if weight.indices and not dictionary:
        raise LayoutError("a column of vectors has a dictionary")
    positions = -(-weight.numbers * max(1, weight.numbers.bit_length()) // 8)
    if weight.indices > positions + 16 * weight.pages:
        raise LayoutError("a column's dictionary indices take more bytes than they need")
    if weight.levels > weight.numbers * 3 // 8 + 64 * weight.pages:
        raise LayoutError("a column's levels take more bytes than they need")


def _check_texts(footer: Footer) -> None:
    if [key for key, _ in footer.metadata] not in ([], [_ARROW]):
        raise LayoutError("it carries metadata other than ARROW:schema")
    require_shape(footer.fields, FOOTER, "its footer")


def _chunk(
    content: memoryview, end_of_data: int, chunk: Struct, leaf: Leaf, weight: Weight
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the file that a column chunk occupies."""
    about = chunk[3]
    if about[4] != 0:
        raise LayoutError("it is compressed; a release is stored uncompressed")
    length = whole(about[7], end_of_data)
    if about[6] != length or about[3] != list(leaf.path):
        raise LayoutError("a column chunk contradicts the schema or itself")
    start = whole(about.get(11, about[9]), end_of_data - length)
    pages = _pages(content[start : start + length], leaf, weight, whole(about[5], 1 << 40))
    yield start, start + length
    repeated = _repeated(content[start + length : end_of_data][:_LONGEST_REPEAT], about)
    if repeated:
        yield start + length, start + length + repeated
    if 4 in chunk:
        at = whole(chunk[4], end_of_data)
        index, end = read_struct(content, at)
        require_shape(index, OFFSET_INDEX, "an offset index")
        if end - at != chunk[5] or [(page[1], page[2]) for page in index[1]] != [(start + p, n) for p, n in pages]:
            raise LayoutError("an offset index does not list the pages of its column")
        yield at, end


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
    data_pages = []
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
            data_pages.append((at, begin + size - at))
        at = begin + size
        weight.pages += 1
    if seen != values:
        raise LayoutError(f"a column chunk holds {seen:,} values, its footer states {values:,}")
    weight.numbers += values
    return data_pages


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
        levels, encoding = _levels(body, leaf, count), about[2]
    else:
        levels, encoding = _levels(body, leaf, count, sizes=(about[6], about[5])), about[4]
    weight.levels += levels
    if encoding in _DICTIONARY_INDICES:
        weight.indices += len(body) - levels
        require_runs(body[levels + 1 :], body[levels] if len(body) > levels else 0, count)
    elif encoding in _PLAIN:
        weight.values += len(body) - levels
    else:
        raise LayoutError("a page has an encoding whose size does not follow from its values")
    return count


def _levels(body: memoryview, leaf: Leaf, count: int, *, sizes: tuple[int, int] | None = None) -> int:
    """Return how many bytes the repetition and definition levels take; without ``sizes`` each begins with its own."""
    at = 0
    for number, depth in enumerate((leaf.repetition, leaf.definition)):
        if sizes is not None:
            size = whole(sizes[number], len(body) - at)
        elif depth:
            size = whole(int.from_bytes(body[at : at + 4], "little"), max(0, len(body) - at - 4))
            at += 4
        else:
            continue
        require_runs(body[at : at + size], depth.bit_length(), count if depth else 0)
        at += size
    return at


def require_runs(content: memoryview, width: int, count: int) -> None:
    """Refuse runs of ``count`` numbers of ``width`` bits that leave bytes over, or have more numbers than there are."""
    at = seen = 0
    while at < len(content):
        head, at = read_varint(content, at)
        packed, many = head & 1, head >> 1
        if packed:  # in groups of eight, the last of them filled up
            at, seen = at + many * width, seen + many * 8
        else:
            size = -(-width // 8)
            if int.from_bytes(content[at : at + size], "little") >> width:
                raise LayoutError("a run repeats a number that is too large for it")
            at, seen = at + size, seen + many
        if not many or seen >= count + (8 if packed else 1):
            raise LayoutError("a page has runs of nothing")
    if at != len(content) or seen < count:
        raise LayoutError("a page has runs of other numbers than its values")
