r"""The messages that the two parties exchange, as files, and the record of an alignment beside its user list.

A message is::

    pricdr alignment message 1\n     the format and its version
    4 bytes                          the length of the header, most significant byte first
    header                           canonical JSON: each content has exactly one encoding
    points                           32 bytes each; the header says how many
    32 bytes                         the SHA-256 of all preceding bytes

The second message contains the SHA-256 of the whole first one, so that neither can be swapped for another.

A record says how a user list was made and what was revealed. It has no ids, and both parties derive the same one, byte
for byte, from the messages they exchanged.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, TypeAlias, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from pricdr.alignment.curve import SIZE, Points, are_ascending, are_distinct, as_points, require_points
from pricdr.alignment.normalisation import RULES, Normalisation
from pricdr.data.ids import id_lines
from pricdr.data.reading.text_files import explaining_os_errors, named, shorten
from pricdr.errors import InputError, ParameterError, printable
from pricdr.memory import require_memory
from pricdr.untrusted import read_bounded

FIRST_LINE: Final = b"pricdr alignment message 1\n"
MAX_IDS: Final = 1 << 30  # the most ids that one party may show: 32 GiB of points
MAX_HEADER_LENGTH: Final = 4096
_LENGTH: Final = 4
BYTES_PER_POINT: Final = 320  # at most, of memory, while a message is read, checked, blinded, sorted and matched
_MAX_RECORD: Final = 8192

Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
SessionId: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MAX_IDS)]
WhoLearns: TypeAlias = Literal["starter", "both"]  # in every header, so that the answerer knows before it answers


def _same_rule(rule: str, info: ValidationInfo) -> str:
    """Refuse another text under the name of one of our rules: two parties that differ would silently miss users."""
    name: Normalisation | None = info.data.get("normalisation")
    if name is not None and rule != RULES[name][0]:
        raise ValueError(f"the rule {name} reads {shorten(rule, 200)} there and {RULES[name][0]!r} here")
    return rule


Rule: TypeAlias = Annotated[str, Field(max_length=400), AfterValidator(_same_rule)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Header(_Strict):
    """The header of a message."""

    kind: Literal["start", "answer"]
    session: SessionId
    normalisation: Normalisation
    rule: Rule
    who_learns: WhoLearns
    starter_ids: Count
    """How many ids the starter shows, dummies included. The number of its real ids is not sent."""
    answerer_ids: Count | None = None
    previous: Sha256 | None = None

    def content(self) -> bytes:
        """Return the header as it is sent: each has exactly one encoding."""
        return json.dumps(self.model_dump(mode="json"), separators=(",", ":")).encode()

    @property
    def points(self) -> int:
        """How many points follow."""
        return self.starter_ids + (self.answerer_ids or 0)

    @property
    def shown(self) -> int:
        """How many ids the sender shows."""
        return self.starter_ids if self.answerer_ids is None else self.answerer_ids


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
        """The answerer's points, blinded once, in the order of their bytes."""
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
    """Return the message in a file, which must hold nothing else; refuse a sender who shows more than ``at_most``."""
    with explaining_os_errors(path), path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):  # a pipe has no size
            raise InputError(f"{named(path)}: this is not a regular file")
        return read_message(file, named(path), status.st_size, at_most=at_most)


def read_message(file: BinaryIO, name: str, size: int, *, at_most: int | None = None) -> Message:
    """Return a message of ``size`` bytes, fully checked; no memory is allocated on the word of its header."""
    start = file.read(len(FIRST_LINE) + _LENGTH)
    if not start.startswith(FIRST_LINE):
        raise InputError(f"{name}: not a pricdr align message, or one of another version")
    length = int.from_bytes(start[len(FIRST_LINE) :], "big")
    if length > MAX_HEADER_LENGTH:
        raise InputError(f"{name}: the header has {length:,} bytes; at most {MAX_HEADER_LENGTH:,} are allowed")
    content = file.read(length)
    header = _parsed(Header, content, name, "the header's ")
    if header.content() != content:
        raise InputError(f"{name}: the header is not canonical JSON")
    if {header.kind == "answer"} != {header.answerer_ids is not None, header.previous is not None}:
        raise InputError(f"{name}: the header's answerer_ids and previous are for answers, which need both")
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


class AlignmentRecord(_Strict):
    """How a user list was made, and what was revealed to whom."""

    format: Literal["pricdr alignment record"] = "pricdr alignment record"
    version: Literal[1] = 1
    session: SessionId
    normalisation: Normalisation
    rule: Rule
    who_learns: WhoLearns
    starter_ids: Count
    answerer_ids: Count
    common_users: Annotated[int, Field(ge=0, le=MAX_IDS)]
    users_sha256: Sha256
    first_message: Sha256
    second_message: Sha256

    def content(self) -> bytes:
        """Return the content of the record's file."""
        return (json.dumps(self.model_dump(mode="json"), indent=2) + "\n").encode()


def list_sha256(users: Sequence[str]) -> str:
    """Return the SHA-256 of ``users.txt``, as ``sha256sum`` gives it for the file."""
    return hashlib.sha256(id_lines(tuple(users))).hexdigest()


def record_beside(users: Path) -> Path:
    """Return the path of the record of a user list: ``users.txt.alignment.json`` for ``users.txt``."""
    return Path(f"{users}.alignment.json")


def read_record(path: Path) -> AlignmentRecord:
    """Read and check the record in a file, which may come from the other party."""
    with explaining_os_errors(path):
        content = read_bounded(path, limit=_MAX_RECORD)
    name = named(path)
    record = _parsed(AlignmentRecord, content, name)
    if record.common_users > min(record.starter_ids, record.answerer_ids):
        raise InputError(f"{name}: common_users is larger than the number of ids a party showed")
    return record


def read_alignment(users: str | os.PathLike[str]) -> AlignmentRecord | None:
    """Return the record that ``pricdr align`` wrote beside a user list, or None if there is no record."""
    path = record_beside(Path(users))
    return read_record(path) if os.path.lexists(path) else None


def require_list(record: AlignmentRecord, users: Sequence[str], *, name: str = "users") -> None:
    """Refuse a list that its record does not describe: it would falsely be certified as aligned."""
    if list_sha256(users) != record.users_sha256:
        raise InputError(
            f"{name}: this is not the list that align wrote (its record has another SHA-256): give that list, "
            "unchanged and in its order, or a different one under a name without a record"
        )


_Parsed = TypeVar("_Parsed", Header, AlignmentRecord)


def _parsed(kind: type[_Parsed], content: bytes, name: str, of: str = "") -> _Parsed:
    """Return what JSON from the other party says; errors name it, and the field ``of`` it."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where, why = ".".join(map(str, first["loc"])) or "content", first["msg"].removeprefix("Value error, ")
        raise InputError(f"{name}: {of}{printable(where[:60])}: {printable(why[:400])}") from error
