"""State files: what one party keeps between two steps. For its owner alone, whole or not at all, never overwritten.

The first line is JSON; then come the party's ids, one a line, with its own spelling after a tab where a rule changed
it. No id holds a tab or a line break.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Literal

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

_MEMORY_FACTOR = 12
"""Bytes of memory for each byte of a state file: short ids take far more as Python's text than they have bytes."""


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
    ids_sha256: Sha256
    """Of all lines after this one: a state that lost some would align without a word."""


def create_state(path: Path, state: State) -> None:
    """Write a new state file; refuse a path that is taken."""
    write_new(path, _content(state), mode=PRIVATE)


def update_state(path: Path, state: State) -> None:
    """Put the next state of the same session in the place of the last, in one step."""
    replace_file(path, _content(state), mode=PRIVATE)


def read_state(path: Path) -> State:
    """Return the state in a file."""
    if path.is_symlink():  # the next state would take the place of the link, and leave the key where it points
        raise InputError(f"{named(path)}: this is a link: name the state file itself")
    with explaining_os_errors(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        require_memory(_MEMORY_FACTOR * size, f"{named(path)}: a state of {size:,} bytes")
        first, _, body = file.read(size).partition(b"\n")
    try:
        header = _Header.model_validate_json(first)
    except ValidationError:
        # Not what is wrong with it: the line holds the key.
        raise InputError(f"{named(path)}: this is no state file of pricdr align, or a damaged one") from None
    if hashlib.sha256(body).hexdigest() != header.ids_sha256:
        raise InputError(f"{named(path)}: the state was damaged: its ids do not have the SHA-256 in its first line")
    ids, own = _ids(body, path)
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
        f"{one}\n" if one == own else f"{one}\t{own}\n" for one, own in zip(state.ids, state.own, strict=True)
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
        ids_sha256=hashlib.sha256(body).hexdigest(),
    )
    return json.dumps(header.model_dump(mode="json")).encode() + b"\n" + body


def _ids(body: bytes, path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids and the party's own spellings."""
    if not body:
        return (), ()
    try:
        pairs = [line.split("\t") for line in body.decode().removesuffix("\n").split("\n")]
        ids = require_ids("user", [pair[0] for pair in pairs])
    except (UnicodeDecodeError, InputError) as error:
        raise InputError(f"{named(path)}: the state was damaged: {error}") from error
    return ids, tuple(pair[-1] for pair in pairs)
