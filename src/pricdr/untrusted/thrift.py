"""Thrift's compact protocol, as far as Parquet footers and page headers need it: structs as plain dictionaries.

In Python, so that a hostile file cannot corrupt memory; nothing is allocated that the bytes do not hold.
"""

from typing import Any, Final, TypeAlias

Struct: TypeAlias = dict[int, Any]
"""Field number to value: a number, a truth value, bytes, a list or another struct."""

_DEEPEST: Final = 16
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class ThriftError(ValueError):
    """Bytes that are not a struct."""


def read_struct(content: bytes | memoryview, at: int = 0) -> tuple[Struct, int]:
    """Return the struct that starts at ``at``, and where it ends."""
    return _struct(content, at, 0)


def _struct(content: bytes | memoryview, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise ThriftError("nested too deeply")
    found: Struct = {}
    field = 0
    while True:
        head, at = _byte(content, at)
        if head == 0:
            return found, at
        kind, step = head & 15, head >> 4
        if step:
            field += step
        else:
            number, at = _varint(content, at)
            field = _signed(number)
        if field in found:
            raise ThriftError("a field occurs twice")
        if kind in (_TRUE, _FALSE):
            found[field] = kind == _TRUE
        else:
            found[field], at = _value(content, at, kind, depth)


def _value(content: bytes | memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE, _BYTE):  # truth values in a list take a byte each
        return _byte(content, at)
    if kind in (_I16, _I32, _I64):
        number, at = _varint(content, at)
        return _signed(number), at
    if kind in (_DOUBLE, _BINARY):
        size, at = (8, at) if kind == _DOUBLE else _varint(content, at)
        if size > len(content) - at:
            raise ThriftError("it ends too early")
        return bytes(content[at : at + size]), at + size
    if kind in (_LIST, _SET):
        return _list(content, at, depth)
    if kind == _STRUCT:
        return _struct(content, at, depth + 1)
    raise ThriftError("it holds a kind of value that Parquet does not use")


def _list(content: bytes | memoryview, at: int, depth: int) -> tuple[list[Any], int]:
    head, at = _byte(content, at)
    size, kind = head >> 4, head & 15
    if size == 15:
        size, at = _varint(content, at)
    if size > len(content) - at:
        raise ThriftError("it ends too early")
    values = []
    for _ in range(size):
        value, at = _value(content, at, kind, depth + 1)
        values.append(value)
    return values, at


def _byte(content: bytes | memoryview, at: int) -> tuple[int, int]:
    if at >= len(content):
        raise ThriftError("it ends too early")
    return content[at], at + 1


def _varint(content: bytes | memoryview, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        part, at = _byte(content, at)
        number |= (part & 127) << shift
        if part < 128:
            if shift and not part:
                raise ThriftError("a number is written with more bytes than it needs")
            return number, at
    raise ThriftError("a number has more than 64 bits")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
