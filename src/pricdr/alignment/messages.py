r"""The messages that the two parties exchange, as files.

A message is::

    pricdr alignment message 1\n     the format and its version
    4 bytes                          the length of the header, most significant byte first
    header                           canonical JSON: each content has exactly one encoding
    points                           32 bytes each; the header says how many
    32 bytes                         the SHA-256 of all preceding bytes

The second message contains the SHA-256 of the whole first one, so that neither can be swapped for another.
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
"""The most ids that one party may show: 32 GiB of points."""
LONGEST_HEADER: Final = 4096
_LENGTH: Final = 4
BYTES_PER_POINT: Final = 320
"""Upper bound on the memory per point while a message is read, checked, blinded, sorted and matched."""

Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
SessionId: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST_IDS)]


class WhoLearns(Enum):
    """Who learns the common users. Every header says so, so that the answerer knows before it answers."""

    STARTER = "starter"
    BOTH = "both"


class Kind(Enum):
    """Which message of a session this is."""

    START = "start"
    ANSWER = "answer"


class Header(BaseModel):
    """The header of a message."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Kind
    session: SessionId
    normalisation: Annotated[str, Field(max_length=20)]
    rule: Annotated[str, Field(max_length=400)]
    who_learns: WhoLearns
    starter_ids: Count
    """How many ids the starter shows, dummies included. The number of its real ids is not sent."""
    answerer_ids: Count | None = None
    previous: Sha256 | None = None
    """The SHA-256 of the message that this one answers."""

    def content(self) -> bytes:
        """Return the header as it is sent."""
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":")).encode()

    @property
    def points(self) -> int:
        """How many points follow."""
        return self.starter_ids + (self.answerer_ids or 0)

    @property
    def shown(self) -> int:
        """How many ids the sender shows."""
        return self.starter_ids if self.answerer_ids is None else self.answerer_ids

    @property
    def agreed_rule(self) -> Normalisation:
        """The rule by which the ids were normalised, if its text is the same as ours."""
        return agreed_normalisation(self.normalisation, self.rule)


@dataclass(frozen=True, eq=False, repr=False)
class Message:
    """A header and its points."""

    header: Header
    points: Points

    @property
    def starter_points(self) -> Points:
        """The starter's points, in the order it drew: blinded once in the first message, twice in the second."""
        return self.points[: self.header.starter_ids]

    @property
    def answerer_points(self) -> Points:
        """The answerer's points, blinded once, in the order of their bytes, which reveals nothing about its ids."""
        return self.points[self.header.starter_ids :]

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the whole message, as ``sha256sum`` gives it for the file."""
        digest = hashlib.sha256()
        for block in self.blocks():
            digest.update(block)
        return digest.hexdigest()

    def blocks(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the message."""
        header, digest = self.header.content(), hashlib.sha256()
        for block in (FIRST_LINE, len(header).to_bytes(_LENGTH, "big"), header, np.ascontiguousarray(self.points).data):
            digest.update(block)
            yield block
        yield digest.digest()


def load_message(path: Path, *, at_most: int | None = None) -> Message:
    """Return the message in a file, which must hold nothing else.

    Args:
        path: the file.
        at_most: refuse a message whose sender shows more ids than this.
    """
    with explaining_os_errors(path), path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):  # a pipe has no size
            raise InputError(f"{named(path)}: this is not a regular file")
        return read_message(file, named(path), status.st_size, at_most=at_most)


def read_message(file: BinaryIO, name: str, size: int, *, at_most: int | None = None) -> Message:
    """Read a message of ``size`` bytes, which errors call ``name``, and return it, fully checked.

    No memory is allocated on the word of a header: the size must be what the header announces.
    """
    start = file.read(len(FIRST_LINE) + _LENGTH)
    if not start.startswith(FIRST_LINE):
        raise InputError(f"{name}: not a pricdr align message, or one of another version")
    length = int.from_bytes(start[len(FIRST_LINE) :], "big")
    if length > LONGEST_HEADER:
        raise InputError(f"{name}: the header has {length:,} bytes; at most {LONGEST_HEADER:,} are allowed")
    content = file.read(length)
    header = _parse_header(content, name)
    if at_most is not None and header.shown > at_most:
        raise ParameterError(f"{name}: the other side shows {header.shown:,} ids, but --at-most allows {at_most:,}")
    if size != len(start) + length + header.points * SIZE + SIZE:
        raise InputError(f"{name}: it has {size:,} bytes, not those that its header announces: cut off or changed")
    require_memory(BYTES_PER_POINT * header.points, f"{name}: an alignment of {header.points:,} points")
    body = file.read(header.points * SIZE)
    digest = hashlib.sha256(start + content)
    digest.update(body)
    if file.read(SIZE) != digest.digest():
        raise InputError(f"{name}: its content does not match the SHA-256 at its end: damaged or changed in transit")
    points = as_points(body)
    require_points(points, name)
    message = Message(header, points)
    if not are_distinct(message.starter_points):
        raise InputError(f"{name}: a point of the starter repeats: distinct ids never have the same point")
    if not are_ascending(message.answerer_points):  # any other order could reveal something about the ids
        raise InputError(f"{name}: the answerer's points are not in ascending order of their bytes")
    return message


def _parse_header(content: bytes, name: str) -> Header:
    try:
        header = Header.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "content"
        raise InputError(f"{name}: the header's {printable(where[:60])}: {printable(first['msg'][:200])}") from error
    if header.content() != content:
        raise InputError(f"{name}: the header is not canonical JSON")
    answers = header.kind is Kind.ANSWER
    if (header.answerer_ids is not None) != answers or (header.previous is not None) != answers:
        raise InputError(f"{name}: the header's answerer_ids and previous are for answers, which need both")
    try:
        _ = header.agreed_rule
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return header
