"""The record of an alignment, kept beside its user list: how the list was made and what was revealed. It has no ids.

Both parties derive the same record, byte for byte, from the messages they exchanged.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.alignment.messages import MOST_IDS, Count, SessionId, Sha256, WhoLearns
from pricdr.alignment.normalisation import agreed_normalisation
from pricdr.data.reading.text_files import explaining_os_errors, named
from pricdr.errors import InputError, printable
from pricdr.untrusted import read_bounded

ENDING: Final = ".alignment.json"
_LARGEST: Final = 8192


class AlignmentRecord(BaseModel):
    """How a user list was made, and what was revealed to whom."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal["pricdr alignment record"] = "pricdr alignment record"
    version: Literal[1] = 1
    session: SessionId
    normalisation: Annotated[str, Field(max_length=20)]
    rule: Annotated[str, Field(max_length=400)]
    who_learns: WhoLearns
    starter_ids: Count
    """How many ids the starter showed, dummies included."""
    answerer_ids: Count
    common_users: Annotated[int, Field(ge=0, le=MOST_IDS)]
    users_sha256: Sha256
    """The SHA-256 of the user list's file."""
    first_message: Sha256
    second_message: Sha256

    def content(self) -> bytes:
        """Return the content of the record's file."""
        return (json.dumps(self.model_dump(mode="json"), indent=2) + "\n").encode()


def list_content(users: Sequence[str]) -> bytes:
    """Return the content of ``users.txt`` for these users, who must be in order: one per line."""
    return "".join(f"{user}\n" for user in users).encode()


def list_sha256(users: Sequence[str]) -> str:
    """Return the SHA-256 of ``users.txt``, as ``sha256sum`` gives it for the file."""
    return hashlib.sha256(list_content(users)).hexdigest()


def record_beside(users: Path) -> Path:
    """Return the path of the record of a user list.

    >>> record_beside(Path("shared/users.txt")).name
    'users.txt.alignment.json'
    """
    return Path(f"{users}{ENDING}")


def read_record(path: Path) -> AlignmentRecord:
    """Read and check the record in a file, which may come from the other party."""
    with explaining_os_errors(path):
        content = read_bounded(path, limit=_LARGEST)
    name = named(path)
    try:
        record = AlignmentRecord.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its content"
        raise InputError(f"{name}: {printable(where[:60])}: {printable(first['msg'][:200])}") from error
    try:
        agreed_normalisation(record.normalisation, record.rule)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    if record.common_users > min(record.starter_ids, record.answerer_ids):
        raise InputError(f"{name}: common_users is larger than the number of ids a party showed")
    return record


def read_alignment(users: str | os.PathLike[str]) -> AlignmentRecord | None:
    """Return the record that ``pricdr align`` wrote beside a user list, or None if there is no record.

    Args:
        users: the list, such as ``users.txt``; its record is ``users.txt.alignment.json``.
    """
    path = record_beside(Path(users))
    return read_record(path) if os.path.lexists(path) else None


def require_list(record: AlignmentRecord, users: Sequence[str], *, name: str = "users") -> None:
    """Refuse a list that is not the one a record describes: its users would falsely be certified as aligned.

    Args:
        record: how a list was made.
        users: the list, in its order.
        name: what the error message calls the list.
    """
    if list_sha256(users) != record.users_sha256:
        raise InputError(
            f"{name}: this is not the list that align wrote (its record has another SHA-256): give that list, "
            "unchanged and in its order, or a different one under a name without a record"
        )
