"""Parquet files changed where a decoder trusts them: footers and page headers, taken apart and put together again.

Both are structs in Thrift's compact protocol. They are read without their schema: a value is its type and content, so
any number, text, list or field can be changed and the rest stays as it was.
"""

import struct
from dataclasses import dataclass
from random import Random
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_MAGIC = b"PAR1"


@dataclass
class Value:
    """One value: for a list its items, for a struct pairs of field number and value."""

    type: int
    content: Any


class _Reader:
    def __init__(self, raw: bytes, at: int = 0) -> None:
        self.raw, self.at = raw, at

    def byte(self) -> int:
        self.at += 1
        return self.raw[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            shift += 7
            if part < 0x80:
                return value

    def value(self, kind: int) -> Value:
        if kind in (I16, I32, I64):
            raw = self.varint()
            return Value(kind, (raw >> 1) ^ -(raw & 1))
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.varint()
            return Value(kind, [self.item(head & 15) for _ in range(count)])
        length = {BYTE: 1, DOUBLE: 8}.get(kind)
        length = self.varint() if length is None else length
        self.at += length
        return Value(kind, self.raw[self.at - length : self.at])

    def item(self, kind: int) -> Value:
        return Value(self.byte(), None) if kind in (TRUE, FALSE) else self.value(kind)

    def struct(self) -> Value:
        fields, number = [], 0
        while head := self.byte():
            if head >> 4:
                number += head >> 4
            else:
                raw = self.varint()
                number = (raw >> 1) ^ -(raw & 1)
            kind = head & 15
            fields.append((number, Value(kind, None) if kind in (TRUE, FALSE) else self.value(kind)))
        return Value(STRUCT, fields)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _zigzag(value: int) -> bytes:
    return _varint((value << 1 if value >= 0 else (-value << 1) - 1) & (2**64 - 1))


def _encode(value: Value) -> bytes:
    if value.type in (TRUE, FALSE):
        return b""
    if value.type in (I16, I32, I64):
        return _zigzag(value.content)
    if value.type in (LIST, SET):
        items = value.content
        kind = items[0].type if items else I32
        head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
        return head + b"".join(bytes([i.type]) if i.type in (TRUE, FALSE) else _encode(i) for i in items)
    if value.type == STRUCT:
        # Every field number in full: decoders take it as well as the difference to the one before.
        return b"".join(bytes([v.type]) + _zigzag(n) + _encode(v) for n, v in value.content) + b"\0"
    content = value.content or b""  # nothing where a truth value was made something else
    return (_varint(len(content)) if value.type == BINARY else b"") + content


def _inside(value: Value) -> list[Value]:
    """The value and all values in it."""
    inner = (
        [v for _, v in value.content] if value.type == STRUCT else value.content if value.type in (LIST, SET) else []
    )
    return [value, *(deeper for part in inner for deeper in _inside(part))]


def mutate_parquet(rng: Random, content: bytes) -> bytes:
    """Change one to three values of the footer, or of the header of a page, and keep the file whole around them."""
    try:
        length = struct.unpack("<I", content[-8:-4])[0]
        start = len(content) - 8 - length
        footer = _Reader(content, start).struct()
        if rng.random() < 0.35:
            return _mutate_page(rng, content, footer)
    except (IndexError, struct.error, ValueError):
        return content  # it was no whole Parquet file any more
    _change(rng, footer)
    encoded = _encode(footer)
    stated = len(encoded) if rng.random() < 0.95 else rng.choice((0, 1, length - 1, length + 1, 2**31, 2**32 - 1))
    return content[:start] + encoded + struct.pack("<I", stated) + _MAGIC


def _mutate_page(rng: Random, content: bytes, footer: Value) -> bytes:
    pages = [
        value.content
        for value in _inside(footer)
        if value.type == I64 and 4 <= value.content < len(content) - 8 and content[value.content] in (0x15, 0x05)
    ]
    if not pages:
        return content
    reader = _Reader(content, start := rng.choice(pages))
    header = reader.struct()
    _change(rng, header)
    return content[:start] + _encode(header) + content[reader.at :]


def _change(rng: Random, tree: Value) -> None:
    for _ in range(rng.choice((1, 1, 2, 3))):
        values = _inside(tree)
        # Numbers twice: they are what sizes, offsets, counts and encodings are.
        _change_value(rng, rng.choice([*values, *(v for v in values if v.type in (I32, I64))]), values)


def _change_value(rng: Random, value: Value, values: list[Value]) -> None:
    if value.type in (I16, I32, I64):
        old = value.content
        numbers = (0, 1, -1, old + 1, old - 1, old * 2, old // 2, 2**31 - 1, 2**31, 2**40, 2**63 - 1, -(2**63))
        value.content = rng.choice((*numbers, rng.randrange(12), rng.randrange(12), rng.choice(values).content))
        if not isinstance(value.content, int):
            value.content = rng.randrange(1000)
    elif value.type in (TRUE, FALSE):
        value.type = TRUE + FALSE - value.type
    elif value.type == BINARY:
        texts = [v.content for v in values if v.type == BINARY]
        value.content = rng.choice((*texts, b"", b"\xff", b"user\0", b"x" * 5000, value.content[:-1]))
    elif value.type in (LIST, SET, STRUCT) and value.content:
        _change_parts(rng, value.content)


def _change_parts(rng: Random, parts: list[Any]) -> None:
    at, draw = rng.randrange(len(parts)), rng.randrange(5)
    if draw == 0:
        del parts[at]
    elif draw == 1:
        parts.insert(at, parts[at])
    elif draw == 2:
        another = rng.randrange(len(parts))
        parts[at], parts[another] = parts[another], parts[at]
    elif draw == 3:
        del parts[at:]
    elif isinstance(parts[at], tuple):
        parts[at] = (rng.randrange(16), parts[at][1])
    else:
        parts *= rng.choice((2, 20))
