"""State files: what one party keeps between two steps. Mode 0600, atomic, never overwritten by another session.

The first line is JSON. The party's ids follow, one per line, each with the party's own spelling after a tab where the
rule changed it; no id contains a tab or a line break. The last line is the SHA-256 of everything before, in hex.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.alignment.curve import BlindingKey
from pricdr.alignment.messages import Count, SessionId, Sha256, WhoLearns
from pricdr.alignment.normalisation import Normalisation
from pricdr.alignment.protocol import State, Step
from pricdr.data.ids import require_ids
from pricdr.data.reading.text_files import explaining_os_errors, named
from pricdr.errors import InputError
from pricdr.files import PRIVATE, replace_file, write_new
from pricdr.memory import require_memory

_MEMORY_FACTOR: Final = 12
"""Memory per byte of a state file: short ids take far more memory as Python strings than bytes in the file."""

_DIGEST_LINE: Final = 65


class _Header(BaseModel):
    """The first line."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    format: Literal["pricdr alignment state"] = "pricdr alignment state"
    version: Literal[1] = 1
    step: Step
    session: SessionId
    normalisation: Normalisation
    who_learns: WhoLearns
    starter_ids: Count
    answerer_ids: Count | None
    key: str | None = Field(pattern="^[0-9a-f]{64}$", repr=False)
    first_message: Sha256 | None
    second_message: Sha256 | None


def create_state(path: Path, state: State) -> None:
    """Write a new state file; refuse a path that exists."""
    write_new(path, _content(state), mode=PRIVATE)


def update_state(path: Path, state: State) -> None:
    """Atomically replace the state of a session by its next state."""
    replace_file(path, _content(state), mode=PRIVATE)


def read_state(path: Path) -> State:
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
        header = _Header.model_validate_json(first)
    except ValidationError:
        # Without the details: the line contains the key.
        raise InputError(f"{named(path)}: a pricdr align state file of another version") from None
    ids, own = _parse_ids(body, path)
    return State(
        step=header.step,
        session=header.session,
        normalisation=header.normalisation,
        who_learns=header.who_learns,
        starter_ids=header.starter_ids,
        answerer_ids=header.answerer_ids,
        ids=ids,
        own=own,
        key=None if header.key is None else BlindingKey(bytes.fromhex(header.key)),
        first_message=header.first_message,
        second_message=header.second_message,
    )


def _content(state: State) -> bytes:
    body = "".join(
        f"{user_id}\n" if user_id == own else f"{user_id}\t{own}\n"
        for user_id, own in zip(state.ids, state.own, strict=True)
    ).encode()
    header = _Header(
        step=state.step,
        session=state.session,
        normalisation=state.normalisation,
        who_learns=state.who_learns,
        starter_ids=state.starter_ids,
        answerer_ids=state.answerer_ids,
        key=None if state.key is None else state.key.reveal().hex(),
        first_message=state.first_message,
        second_message=state.second_message,
    )
    content = json.dumps(header.model_dump(mode="json")).encode() + b"\n" + body
    return content + _digest_line(content)


def _digest_line(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


def _parse_ids(body: bytes, path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids and the party's own spelling of each."""
    if not body:
        return (), ()
    try:
        pairs = [line.split("\t") for line in body.decode().removesuffix("\n").split("\n")]
        ids = require_ids("user", [pair[0] for pair in pairs])
    except (UnicodeDecodeError, InputError) as error:
        raise InputError(f"{named(path)}: the state file is damaged: {error}") from error
    return ids, tuple(pair[-1] for pair in pairs)
