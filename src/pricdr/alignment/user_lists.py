"""Checking a user list that ``align`` wrote against the record beside it, which a release's certificate cites."""

import os
from collections.abc import Sequence
from pathlib import Path

from pricdr.alignment.record import AlignmentRecord, list_sha256, read_record, record_beside
from pricdr.errors import InputError


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
