"""Thrift's compact protocol, as far as Parquet footers and page headers need it: structs as plain dictionaries.

In Python, so that a hostile file cannot corrupt memory; nothing is allocated that the bytes do not hold, and no more
values than a footer can need.
"""

from typing import Any, Final, TypeAlias

Struct: TypeAlias = dict[int, Any]
"""Field number to value: a number, a truth value, bytes, a list or another struct."""

_DEEPEST: Final = 16
_MOST_VALUES: Final = 1 << 21
"""The most values in one struct and all inside it. An empty struct is one byte in a file and a hundred in memory."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class ThriftError(ValueError):
    """Bytes that are no struct."""


def read_struct(content: bytes | memoryview, at: int = 0) -> tuple[Struct, int]:
    """Return the struct that starts at ``at``, and where it ends."""
    reader = _Reader(content, at)
    return reader.struct(0), reader.at


class _Reader:
    def __init__(self, content: bytes | memoryview, at: int) -> None:
        self._content = content
        self.at = at
        self._left = _MOST_VALUES

    def struct(self, depth: int) -> Struct:
        if depth > _DEEPEST:
            raise ThriftError("nested too deeply")
        fields: Struct = {}
        field = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            field = field + step if step else _signed(self._varint())
            if field in fields:
                raise ThriftError("a field occurs twice")
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:  # noqa: ANN401 - whatever the file holds
        self._left -= 1
        if self._left < 0:
            raise ThriftError(f"it holds more than {_MOST_VALUES:,} values")
        if kind in (_TRUE, _FALSE, _BYTE):  # truth values in a list take a byte each
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return _signed(self._varint())
        if kind in (_DOUBLE, _BINARY):
            return self._bytes(8 if kind == _DOUBLE else self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ThriftError("it holds a kind of value that Parquet does not use")

    def _list(self, depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise ThriftError("nested too deeply")
        head = self._byte()
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self._varint()
        if size > len(self._content) - self.at:
            raise ThriftError("it ends too early")
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _bytes(self, size: int) -> bytes:
        if size > len(self._content) - self.at:
            raise ThriftError("it ends too early")
        self.at += size
        return bytes(self._content[self.at - size : self.at])

    def _byte(self) -> int:
        if self.at >= len(self._content):
            raise ThriftError("it ends too early")
        self.at += 1
        return self._content[self.at - 1]

    def _varint(self) -> int:
        number, self.at = read_varint(self._content, self.at)
        return number


def read_varint(content: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number that starts at ``at``, seven bits a byte, and where it ends."""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(content):
            raise ThriftError("it ends too early")
        part, at = content[at], at + 1
        number |= (part & 127) << shift
        if part < 128:
            if shift and not part:
                raise ThriftError("a number is written with more bytes than it has")
            return number, at
    raise ThriftError("a number has more than 64 bits")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
