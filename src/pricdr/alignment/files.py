"""The files of a session that stay with one party: what it keeps between two steps, and what it learns.

A state has mode 0600, is replaced atomically, and is never overwritten by another session. Its first line is JSON. The
party's ids follow, one per line, each with the party's own spelling after a tab where the rule changed it; no id
contains a tab or a line break. The last line is the SHA-256 of everything before, in hex.
"""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from pricdr.alignment.messages import list_content, read_record, record_beside
from pricdr.alignment.protocol import Alignment, ProtocolState
from pricdr.data.ids import read_ids, require_ids
from pricdr.data.reading.text_files import explaining_os_errors, named
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.files import PRIVATE, new_file, replace_file, require_writable, write_new
from pricdr.memory import require_memory

_MEMORY_FACTOR: Final = 12
"""Memory per byte of a state file: short ids take far more memory as Python strings than bytes in the file."""
_DIGEST_LINE: Final = 65


def create_state(path: Path, state: ProtocolState) -> None:
    """Write a new state file; refuse a path that exists."""
    write_new(path, _content(state), mode=PRIVATE)


def update_state(path: Path, state: ProtocolState) -> None:
    """Atomically replace the state of a session by its next state."""
    replace_file(path, _content(state), mode=PRIVATE)


def read_state(path: Path) -> ProtocolState:
    """Return the state in a file."""
    if path.is_symlink():  # the next state would replace the link, and leave the key in the file it points to
        raise InputError(f"{named(path)}: this is a link; give the state file itself")
    with explaining_os_errors(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        require_memory(_MEMORY_FACTOR * size, f"{named(path)}: a state of {size:,} bytes")
        content = file.read(size)
    content, digest = content[:-_DIGEST_LINE], content[-_DIGEST_LINE:]
    if digest != _digest_line(content):  # with ids or a bit of the key lost, it would silently miss users
        raise InputError(f"{named(path)}: not a pricdr align state file, or a damaged one")
    first, _, body = content.partition(b"\n")
    try:
        state = ProtocolState.model_validate_json(first)
    except ValidationError:
        # Without the details: the line contains the key.
        raise InputError(f"{named(path)}: a pricdr align state file of another version") from None
    if not body:
        return state
    try:
        pairs = [line.split("\t") for line in body.decode().removesuffix("\n").split("\n")]
        ids = require_ids("user", [pair[0] for pair in pairs])
    except (UnicodeDecodeError, InputError) as error:
        raise InputError(f"{named(path)}: the state file is damaged: {error}") from error
    return state.model_copy(update={"ids": ids, "own": tuple(pair[-1] for pair in pairs)})


def _content(state: ProtocolState) -> bytes:
    body = "".join(
        f"{user_id}\n" if user_id == own else f"{user_id}\t{own}\n"
        for user_id, own in zip(state.ids, state.own, strict=True)
    ).encode()
    content = json.dumps(state.model_dump(mode="json")).encode() + b"\n" + body
    return content + _digest_line(content)


def _digest_line(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


def require_new_outputs(users: Path, own_ids: Path | None) -> None:
    """Refuse outputs that exist already or cannot be written, before anything is computed."""
    outputs = (users, record_beside(users))
    for path in outputs:
        require_writable(path)
    if own_ids is not None:
        if own_ids.resolve() in {path.resolve() for path in outputs}:
            raise ParameterError(f"--own-ids is {own_ids}, which is where the user list or its record goes")
        require_writable(own_ids)


def write_alignment(alignment: Alignment, users: Path, *, own_ids: Path | None = None) -> None:
    """Write the user list, its record and, if ``own_ids`` is given, the table of own spellings."""
    write_once(users, [list_content(alignment.users)])
    write_once(record_beside(users), [alignment.record.content()])
    write_own_ids(alignment, own_ids)


def write_own_ids(alignment: Alignment, path: Path | None) -> None:
    """Write the party's own spelling of each listed user: columns user and own, mode 0600."""
    if path is not None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [("user", "own"), *zip(alignment.users, alignment.own, strict=True)]
        )
        write_once(path, [text.getvalue().encode()], mode=PRIVATE)


def write_once(path: Path, content: Iterable[bytes | memoryview], *, mode: int = 0o644) -> None:
    """Create a file, unless an interrupted run has already written the same bytes to it."""
    blocks = list(content)
    if path.is_file() and not path.is_symlink() and _digest(path) == hashlib.sha256(b"".join(blocks)).digest():
        return
    with new_file(path, mode=mode) as file:
        file.writelines(blocks)


def read_list(path: Path) -> tuple[str, ...]:
    """Return the users of the list that the starter sent; an empty file lists no users."""
    with explaining_os_errors(path):
        empty = path.is_file() and path.stat().st_size == 0
    return () if empty else read_ids(path)


def require_unchanged(alignment: Alignment, users: Path) -> None:
    """Refuse a list that is not byte for byte what ``finish`` wrote, or whose record differs from ours."""
    with explaining_os_errors(users):
        digest = _digest(users)
    if digest.hex() != alignment.record.users_sha256:
        raise VerificationError(
            f"{named(users)}: the file was changed in transit: check line endings, byte order mark and the last line"
        )
    beside = record_beside(users)
    if os.path.lexists(beside):
        theirs, ours = read_record(beside).model_dump(mode="json"), alignment.record.model_dump(mode="json")
        for field, value in ours.items():
            if theirs[field] != value:
                raise VerificationError(f"{named(beside)}: {field} is {theirs[field]!r} there but {value!r} here")


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
