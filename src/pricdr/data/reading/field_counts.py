"""Count the fields of every record in a delimited file, before a parser reads it."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import IntArray

_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_BLOCK = 1 << 24
LONGEST_FIELD: Final = 1 << 17
"""The most characters of a field that Python's csv module reads."""
Bytes = npt.NDArray[np.uint8]


@dataclass
class FieldCounts:
    """The number of records, and which are irregular. Records are counted from 0, with header and blank lines."""

    records: int
    blanks: IntArray
    """The records that are blank lines."""
    uneven: tuple[int, int] | None
    """The first record with another number of fields, and that number."""
    all_uneven: IntArray
    """Every record with another number of fields: its number, its fields, its start and its end in the file."""


def count_fields(content: bytes, *, separator: int, width: int, quoting: bool) -> FieldCounts | None:
    r"""Count the fields of every record, each of them one line; ``None`` where each line must be looked at.

    That is where quotes or carriage returns do not follow RFC 4180, a quoted field does not end on its line, or a line
    is so long that one of its fields may be.

    Args:
        content: The whole file.
        separator: The byte between fields.
        width: How many fields a record should have.
        quoting: Whether ``"`` may enclose fields.

    >>> counts = count_fields(b'u,i\na,"x,y"\n\nb\n', separator=ord(","), width=2, quoting=True)
    >>> counts.records, counts.blanks.tolist(), counts.uneven
    (4, [2], (3, 1))
    >>> count_fields(b'u,i\na,"x\ny"\n', separator=ord(","), width=2, quoting=True)
    """
    data = np.frombuffer(content, dtype=np.uint8)
    counts = FieldCounts(0, np.zeros(0, dtype=np.int64), None, np.zeros((0, 4), dtype=np.int64))
    reader = _MarkReader(data, separator, quoting, returns=b"\r" in content)
    pending, begin, blanks, uneven = 0, 0, [counts.blanks], [counts.all_uneven]
    for start in range(0, len(data), _BLOCK):
        marks = reader.marks(start, start + _BLOCK)
        if marks is None:
            return None
        ends = np.flatnonzero(data[marks] == _NEWLINE)
        if len(ends) and int(np.diff(marks[ends], prepend=begin).max()) > LONGEST_FIELD:
            return None
        # A record may have begun in an earlier block: its marks so far are pending.
        fields = np.diff(ends, prepend=-1 - pending)
        pending = pending + len(marks) if len(ends) == 0 else len(marks) - 1 - int(ends[-1])
        # A blank line counts as one field, so it is among the records with another number of fields.
        odd = np.flatnonzero(fields != width)
        blank = _blank(data, marks[ends[odd]])
        blanks.append(odd[blank] + counts.records)
        if not blank.all():
            wrong = odd[~blank]
            stops = marks[ends] + 1
            starts = np.append(begin, stops[:-1])
            uneven.append(np.stack([wrong + counts.records, fields[wrong], starts[wrong], stops[wrong]], axis=1))
        begin = int(marks[ends[-1]]) + 1 if len(ends) else begin
        counts.records += len(ends)
    if reader.inside or len(data) - begin > LONGEST_FIELD:
        return None
    if content and not content.endswith(b"\n"):
        if pending + 1 != width:
            uneven.append(np.array([[counts.records, pending + 1, begin, len(data)]]))
        counts.records += 1
    counts.blanks, counts.all_uneven = np.concatenate(blanks), np.concatenate(uneven)
    if len(counts.all_uneven):
        counts.uneven = (int(counts.all_uneven[0, 0]), int(counts.all_uneven[0, 1]))
    return counts


@dataclass
class _MarkReader:
    """Finds the separators and line ends that are not inside quotes, block by block."""

    data: Bytes
    separator: int
    quoting: bool
    returns: bool
    """Whether the data contain a carriage return."""
    inside: int = 0
    """1 if the next block starts inside quotes."""

    def marks(self, start: int, stop: int) -> IntArray | None:
        block = self.data[start:stop]
        is_mark = (block == self.separator) | (block == _NEWLINE)
        if self.returns:
            is_mark |= block == _RETURN
        marks = np.flatnonzero(is_mark) + start
        if self.quoting:
            quotes = np.flatnonzero(block == _QUOTE) + start
            if not _well_placed(self.data, quotes, self.inside, self.separator):
                return None
            # An odd number of quotes before a mark puts it inside a field.
            quoted = (np.searchsorted(quotes, marks) + self.inside) % 2 == 1
            if quoted.any():
                if (self.data[marks[quoted]] == _NEWLINE).any():
                    return None
                marks = marks[~quoted]
            self.inside = (self.inside + len(quotes)) % 2
        return self._without_returns(marks) if self.returns else marks

    def _without_returns(self, marks: IntArray) -> IntArray | None:
        """Leave out carriage returns before line feeds; None if there is any other, which parsers read differently."""
        returns = self.data[marks] == _RETURN
        after = marks[returns] + 1
        if (after == len(self.data)).any() or (self.data[after] != _NEWLINE).any():
            return None
        return np.asarray(marks[~returns])


def _blank(data: Bytes, newlines: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which of these line feeds end a blank line, with or without a carriage return."""
    before, twice = np.maximum(newlines - 1, 0), np.maximum(newlines - 2, 0)
    starts = (newlines == 0) | (data[before] == _NEWLINE)
    returns = (data[before] == _RETURN) & ((newlines == 1) | (data[twice] == _NEWLINE))
    return np.asarray(starts | (returns & (newlines > 0)))


def _well_placed(data: Bytes, quotes: npt.NDArray[Any], inside: int, separator: int) -> bool:
    """Return whether quotes only enclose whole fields, or are doubled inside such a field.

    Then counting quotes is enough to know what is inside a field: a doubled quote counts twice.
    """
    if len(quotes) == 0:
        return True
    size = len(data)
    opening, closing = quotes[inside::2], quotes[1 - inside :: 2]
    before = data[opening - 1]
    opens = (opening == 0) | (before == separator) | (before == _NEWLINE) | (before == _QUOTE)
    after = data[np.minimum(closing + 1, size - 1)]
    returns = (after == _RETURN) & (data[np.minimum(closing + 2, size - 1)] == _NEWLINE)
    closes = (closing == size - 1) | (after == separator) | (after == _NEWLINE) | (after == _QUOTE) | returns
    return bool(opens.all() and closes.all())
