r"""What the two parties send each other, as bytes: for a file that is mailed, or a connection.

A message is::

    pricdr alignment message 1\n     which format this is
    4 bytes                          the length of the header, most significant byte first
    header                           canonical JSON: one spelling for one content
    points                           32 bytes each; how many, the header says
    32 bytes                         the SHA-256 of every byte before

The second message names the SHA-256 of the first, whole, so that neither can be exchanged for another.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, BinaryIO, Final, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.alignment.curve import SIZE, Points, are_ascending, are_distinct, as_points, require_points
from pricdr.alignment.normalisation import Normalisation, agreed_normalisation
from pricdr.data.reading.text_files import explaining_os_errors, named
from pricdr.errors import InputError, ParameterError, printable
from pricdr.memory import require_memory

FIRST_LINE: Final = b"pricdr alignment message 1\n"
MOST_IDS: Final = 1 << 30
"""Ids that one party may show: 32 GiB of points."""
LONGEST_HEADER: Final = 4096
_LENGTH: Final = 4
_BLOCK: Final = 1 << 20
BYTES_PER_POINT: Final = 320
"""Memory that a point takes at most while a message is worked on: read, checked, blinded, sorted and looked up."""

Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
SessionId: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST_IDS)]


class WhoLearns(Enum):
    """Who is to learn the common users. It is in every header: nobody answers without having been told."""

    STARTER = "starter"
    BOTH = "both"


class Kind(Enum):
    """Which message of a session this is."""

    START = "start"
    ANSWER = "answer"


class Header(BaseModel):
    """What a message says about itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Kind
    session: SessionId
    normalisation: Annotated[str, Field(max_length=20)]
    rule: Annotated[str, Field(max_length=400)]
    who_learns: WhoLearns
    starter_ids: Count
    """How many ids the starter shows, dummies included: the number of all its ids is nowhere."""
    answerer_ids: Count | None = None
    previous: Sha256 | None = None
    """The SHA-256 of the message that this one answers."""

    def content(self) -> bytes:
        """Return the header as it travels."""
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":")).encode()

    @property
    def points(self) -> int:
        """How many points follow."""
        return self.starter_ids + (self.answerer_ids or 0)

    @property
    def shown(self) -> int:
        """How many ids the side that sends this shows."""
        return self.starter_ids if self.answerer_ids is None else self.answerer_ids

    @property
    def rule_agreed(self) -> Normalisation:
        """The rule by which the ids were written, which has the same words here."""
        return agreed_normalisation(self.normalisation, self.rule)


@dataclass(frozen=True, eq=False, repr=False)
class Message:
    """A header and the points that it announces."""

    header: Header
    points: Points

    @property
    def starter_points(self) -> Points:
        """The starter's points, in the order that it drew: blinded once by the first message, twice by the second."""
        return self.points[: self.header.starter_ids]

    @property
    def answerer_points(self) -> Points:
        """The answerer's points, blinded once, in the order of their bytes, which says nothing about its ids."""
        return self.points[self.header.starter_ids :]

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the whole message, as ``sha256sum`` gives it for the file."""
        digest = hashlib.sha256()
        for block in self.blocks():
            digest.update(block)
        return digest.hexdigest()

    @property
    def size(self) -> int:
        """How many bytes the message has."""
        return _size(self.header, len(self.header.content()))

    def blocks(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the message."""
        header, digest = self.header.content(), hashlib.sha256()
        for block in (FIRST_LINE, len(header).to_bytes(_LENGTH, "big"), header, np.ascontiguousarray(self.points).data):
            digest.update(block)
            yield block
        yield digest.digest()


def write_message(file: BinaryIO, message: Message) -> None:
    """Write a message to a file or a connection."""
    for block in message.blocks():
        file.write(block)


def load_message(path: Path, *, at_most: int | None = None) -> Message:
    """Return the message in a file that the user named; it must end where the message does.

    Args:
        path: the file.
        at_most: refuse a message whose sender shows more ids.
    """
    with explaining_os_errors(path), path.open("rb") as file:
        status = os.fstat(file.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        message = read_message(file, named(path), size=size, at_most=at_most)
        if file.read(1):
            raise InputError(f"{named(path)}: something follows the end of the message")
    return message


def read_message(file: BinaryIO, name: str, *, size: int | None = None, at_most: int | None = None) -> Message:
    """Return the message at the beginning of a stream, with all that can be checked of it checked.

    Nothing is allocated because a header says so: a file has to have the size that its header announces, and of a
    connection the points are kept as they come.

    Args:
        file: a file or a connection.
        name: what errors call it.
        size: how many bytes there are, where that is known.
        at_most: refuse a message whose sender shows more ids, as soon as its header says so.
    """
    digest = hashlib.sha256()
    if _read(file, len(FIRST_LINE), digest) != FIRST_LINE:
        raise InputError(f"{name}: this is no message of pricdr align, or one of another version")
    length = int.from_bytes(_exactly(file, _LENGTH, digest, name), "big")
    if length > LONGEST_HEADER:
        raise InputError(f"{name}: the header has {length:,} bytes, at most {LONGEST_HEADER:,} are allowed")
    header = _header(bytes(_exactly(file, length, digest, name)), name)
    if at_most is not None and header.shown > at_most:
        raise ParameterError(f"{name}: the other side shows {header.shown:,} ids, and --at-most allows {at_most:,}")
    expected = _size(header, length)
    if size is not None and size != expected:
        raise InputError(f"{name}: it has {size:,} bytes, and its header announces {expected:,}: cut off or changed")
    require_memory(BYTES_PER_POINT * header.points, f"{name}: an alignment of {header.points:,} points")
    points = as_points(_exactly(file, header.points * SIZE, digest, name))
    if _exactly(file, SIZE, hashlib.sha256(), name) != digest.digest():
        raise InputError(f"{name}: its bytes do not have the SHA-256 at its end: damaged or changed on the way")
    require_points(points, name)
    message = Message(header, points)
    if not are_distinct(message.starter_points):
        raise InputError(f"{name}: a point of the starter repeats: distinct ids never share one")
    if not are_ascending(message.answerer_points):  # any other order might say something about the ids
        raise InputError(f"{name}: the answerer's points are not in ascending order of their bytes")
    return message


def _size(header: Header, length: int) -> int:
    return len(FIRST_LINE) + _LENGTH + length + header.points * SIZE + SIZE


def _header(content: bytes, name: str) -> Header:
    try:
        header = Header.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "content"
        raise InputError(f"{name}: the header's {printable(where[:60])}: {printable(first['msg'][:200])}") from error
    if header.content() != content:
        raise InputError(f"{name}: the header is not written as this software writes it")
    answers = header.kind is Kind.ANSWER
    if (header.answerer_ids is not None) != answers or (header.previous is not None) != answers:
        rule = "answerer_ids and previous belong to an answer, and to nothing else"
        raise InputError(f"{name}: the header's {rule}")
    try:
        _ = header.rule_agreed
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return header


def _read(file: BinaryIO, count: int, digest: "hashlib._Hash") -> bytearray:
    """Return as many bytes as there are, up to ``count``."""
    content = bytearray()
    while len(content) < count and (block := file.read(min(_BLOCK, count - len(content)))):
        digest.update(block)
        content += block
    return content


def _exactly(file: BinaryIO, count: int, digest: "hashlib._Hash", name: str) -> bytearray:
    content = _read(file, count, digest)
    if len(content) != count:
        raise InputError(f"{name}: the message is cut off")
    return content
