"""The protocol: two messages, after which the starter knows the common users; the list follows if both learn them.

    start    A  →  B    a·H(x) for A's ids x and for dummies, in an order that A draws
    answer   B  →  A    b·(a·H(x)) in the same order; b·H(y) for B's ids y, in the order of their bytes
    finish   A          a·(b·H(y)) for all of them: x is common if b·(a·H(x)) is one of these
    accept   B          if both learn the users: checks A's list against its own ids

Each step has two parts. The first draws secrets (``begin``, ``begin_answer``) and is quick. The second computes, and is
a pure function of the first: a run that was interrupted and resumed produces the same bytes. It also returns the state
after it, to be written last.

What a party keeps between two steps is in a state file of mode 0600, which is replaced atomically: a line of JSON, and
the SHA-256 of that line in hex.
"""

import csv
import hashlib
import io
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError

from pricdr.alignment.curve import Blinder, BlindingKey, Points, in_byte_order, split_points
from pricdr.alignment.messages import (
    BYTES_PER_POINT,
    MAX_IDS,
    AlignmentRecord,
    Count,
    Header,
    Message,
    SessionId,
    Sha256,
    WhoLearns,
    list_sha256,
    read_record,
    record_beside,
)
from pricdr.alignment.normalisation import RULES, Normalisation, NormalisedIds
from pricdr.data.ids import id_lines, read_ids
from pricdr.data.reading.text_files import explaining_os_errors, named, shorten
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.files import PRIVATE, new_file, require_writable, sha256_of
from pricdr.memory import require_memory

IN_THIS_PROCESS: Final = Blinder()
_MEMORY_FACTOR: Final = 12  # memory per byte of a state file: short ids take far more as Python strings
_DIGEST_LINE: Final = 65


ProtocolStep: TypeAlias = Literal["started", "finishing", "finished", "answering", "answered", "accepted"]
_COMMANDS: Final[dict[ProtocolStep, str]] = {"started": "finish", "answering": "answer", "answered": "accept"}


def _as_key(given: object) -> BlindingKey:
    if isinstance(given, BlindingKey):
        return given
    if not isinstance(given, str) or not re.fullmatch("[0-9a-f]{64}", given):
        raise ValueError("a key has 64 hexadecimal digits")
    return BlindingKey(bytes.fromhex(given))


class ProtocolState(BaseModel):
    """What one party keeps between two steps, in a file. Its ids and its key are never printed or sent."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    format: Literal["pricdr alignment state"] = "pricdr alignment state"
    version: Literal[2] = 2
    step: ProtocolStep
    session: SessionId
    normalisation: Normalisation
    who_learns: WhoLearns
    starter_ids: Count
    answerer_ids: Count | None = None
    key: Annotated[BlindingKey, PlainValidator(_as_key), PlainSerializer(lambda key: key.reveal().hex())] | None = None
    first_message: Sha256 | None = None
    second_message: Sha256 | None = None
    ids: tuple[str, ...] = Field(default=(), repr=False)
    own: tuple[str, ...] = Field(default=(), repr=False)  # the party's own spelling of each id

    def require(self, step: ProtocolStep, *others: ProtocolStep) -> None:
        """Refuse a state that is at any other step."""
        if self.step not in {step, *others}:
            raise InputError(f"this session is {self.step}: align {_COMMANDS[step]} does not apply to it")

    @property
    def agreed(self) -> dict[str, Any]:
        """What messages and records say of the session."""
        fields = {"session", "normalisation", "who_learns", "starter_ids", "answerer_ids"}
        return {"rule": RULES[self.normalisation][0], **self.model_dump(include=fields)}

    def content(self) -> bytes:
        """Return the content of the state file."""
        content = self.model_dump_json().encode() + b"\n"
        return content + _digest_line(content)


def _digest_line(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b"\n"


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
    try:
        return ProtocolState.model_validate_json(content)
    except ValidationError:
        # Without the details: the line contains the key.
        raise InputError(f"{named(path)}: a pricdr align state file of another version") from None


@dataclass(frozen=True)
class Alignment:
    """The common users and the record of how they were found."""

    users: tuple[str, ...] = field(repr=False)
    """In the order of their bytes, which reveals nothing about the order of either party's ids."""
    own: tuple[str, ...] = field(repr=False)  # this party's own spelling of each
    record: AlignmentRecord


def begin(ids: NormalisedIds, *, who_learns: WhoLearns = "starter", pad_to: int | None = None) -> ProtocolState:
    """Return the state of a new session; dummies, which nobody can tell from ids, are added up to ``pad_to`` ids."""
    return ProtocolState(
        step="started",
        session=secrets.token_hex(16),
        normalisation=ids.normalisation,
        who_learns=who_learns,
        starter_ids=_shown_ids(ids, pad_to),
        ids=ids.ids,
        own=ids.own,
        key=BlindingKey.generate(),
    )


def first_message(state: ProtocolState, blinder: Blinder = IN_THIS_PROCESS) -> tuple[Message, ProtocolState]:
    """Return the message with the starter's ids and dummies, blinded, in an order derived from its key."""
    state.require("started")
    # In the order of the file, an answerer that guesses who comes first, or that dummies come last, could choose what
    # to tamper with.
    order = _key(state).order(state.starter_ids)
    message = Message(Header(kind="start", **state.agreed), _blinded_ids(state, state.starter_ids, blinder)[order])
    return message, state.model_copy(update={"first_message": message.sha256})


def begin_answer(message: Message, ids: NormalisedIds, *, pad_to: int | None = None) -> ProtocolState:
    """Return the state of an answer to the first message, with a fresh key; refuse what cannot be answered."""
    header = message.header
    if header.kind != "start":
        raise InputError("this is an answer: only a message from align start can be answered")
    if header.normalisation != ids.normalisation:
        rules = f"the rule {header.normalisation}, ours by {ids.normalisation}"
        raise InputError(f"its ids are normalised by {rules}: both sides need the same rule")
    return ProtocolState(
        step="answering",
        session=header.session,
        normalisation=ids.normalisation,
        who_learns=header.who_learns,
        starter_ids=header.starter_ids,
        answerer_ids=_shown_ids(ids, pad_to),
        ids=ids.ids,
        own=ids.own,
        key=BlindingKey.generate(),
        first_message=message.sha256,
    )


def second_message(
    state: ProtocolState, message: Message, blinder: Blinder = IN_THIS_PROCESS
) -> tuple[Message, ProtocolState]:
    """Return the message with the starter's points, blinded again, and the answerer's ids, blinded and sorted."""
    state.require("answering")
    if message.sha256 != state.first_message:
        raise InputError("this is not the message that the state belongs to")
    own = _blinded_ids(state, state.answerer_ids or 0, blinder)
    twice = blinder.points(message.points, _key(state))
    header = Header(kind="answer", previous=state.first_message, **state.agreed)
    reply = Message(header, np.concatenate([twice, in_byte_order(own)]))
    kept = {} if state.who_learns == "both" else {"ids": (), "own": ()}  # where there is no list to accept
    after = {"step": "answered", "key": None, "second_message": reply.sha256, **kept}
    return reply, state.model_copy(update=after)


def begin_finish(state: ProtocolState, reply: Message) -> ProtocolState:
    """Return the state bound to this answer: any other is refused from now on, even if this run is interrupted."""
    state.require("started", "finishing")
    header = reply.header
    if header.kind != "answer":
        raise InputError("this is a first message: align finish needs the answer to it")
    if header.session != state.session:
        raise InputError(f"it belongs to session {header.session}, the state to {state.session}")
    if header.previous != state.first_message:
        raise InputError("it does not answer the message that this state belongs to")
    agreed = (header.normalisation, header.who_learns, header.starter_ids)
    if agreed != (state.normalisation, state.who_learns, state.starter_ids):
        raise InputError("its header differs from the first message in the rule, who learns, or the number of ids")
    if state.step == "finishing" and state.second_message != reply.sha256:
        raise InputError("this session has already used another answer: a second one is refused")
    bound = {"step": "finishing", "answerer_ids": header.answerer_ids, "second_message": reply.sha256}
    return state.model_copy(update=bound)


def finish(state: ProtocolState, reply: Message, blinder: Blinder = IN_THIS_PROCESS) -> tuple[Alignment, ProtocolState]:
    """Return the common users, computed from the answer to the first message.

    :class:`VerificationError` where a dummy matched, which only we know: the answerer did not blind each of our points
    in its place. The list could then name users who are ours alone, and must not be sent to it.
    """
    state = begin_finish(state, reply)
    key = _key(state)
    theirs = set(split_points(blinder.points(reply.answerer_points, key).tobytes()))
    returned = zip(key.order(state.starter_ids).tolist(), split_points(reply.starter_points.tobytes()), strict=True)
    common = [index for index, point in returned if point in theirs]
    if any(index >= len(state.ids) for index in common):
        raise VerificationError("a dummy matched, which only we know: the other side did not follow the protocol")
    return _finished(state, "finished", sorted((state.ids[index], state.own[index]) for index in common))


def accept(state: ProtocolState, users: Sequence[str]) -> tuple[Alignment, ProtocolState]:
    """Return the common users as the starter lists them, once each is ours and the list is as ``finish`` writes it.

    This cannot detect whether a common user was left out, or whether the starter really had each listed user.
    """
    state.require("answered")
    if state.who_learns != "both":
        raise InputError("only the starter learns the common users in this session: there is no list to accept")
    own = dict(zip(state.ids, state.own, strict=True))
    for line, user in enumerate(users, start=1):
        if user not in own:
            raise VerificationError(f"line {line}: {shorten(user)} is not one of the ids in the answer")
        if line > 1 and users[line - 2] >= user:
            raise VerificationError(f"line {line}: {shorten(user)} is not in ascending order of bytes")
    if len(users) > state.starter_ids:
        raise VerificationError(f"it lists {len(users):,} users, but the starter showed only {state.starter_ids:,} ids")
    return _finished(state, "accepted", [(user, own[user]) for user in users])


def _finished(
    state: ProtocolState, step: ProtocolStep, common: Sequence[tuple[str, str]]
) -> tuple[Alignment, ProtocolState]:
    """Return a party's last result, and a state that cannot be used again and holds neither key nor ids."""
    users = tuple(user for user, _ in common)
    messages = state.model_dump(include={"first_message", "second_message"})
    record = AlignmentRecord(common_users=len(users), users_sha256=list_sha256(users), **messages, **state.agreed)
    after = {"step": step, "key": None, "ids": (), "own": ()}
    return Alignment(users, tuple(own for _, own in common), record), state.model_copy(update=after)


def _shown_ids(ids: NormalisedIds, pad_to: int | None) -> int:
    """Return how many ids are shown, dummies included; refuse a ``pad_to`` below the number of ids."""
    count = len(ids.ids)
    shown = count if pad_to is None else pad_to
    if not count <= shown <= MAX_IDS:
        raise ParameterError(f"pad_to must be between the number of ids, {count:,}, and {MAX_IDS:,}, got {shown:,}")
    require_memory(BYTES_PER_POINT * shown, f"an alignment of {shown:,} ids")
    return shown


def _blinded_ids(state: ProtocolState, shown: int, blinder: Blinder) -> Points:
    return blinder.ids(state.ids, bytes.fromhex(state.session), _key(state), pad_to=shown)


def _key(state: ProtocolState) -> BlindingKey:
    assert state.key is not None, "the step has been checked"
    return state.key


def require_new_outputs(users: Path, own_ids: Path | None) -> None:
    """Refuse outputs that exist already or cannot be written."""
    outputs = (users, record_beside(users))
    for path in outputs:
        require_writable(path)
    if own_ids is not None:
        if own_ids.resolve() in {path.resolve() for path in outputs}:
            raise ParameterError(f"--own-ids is {own_ids}, which is where the user list or its record goes")
        require_writable(own_ids)


def write_alignment(alignment: Alignment, users: Path, *, own_ids: Path | None = None) -> None:
    """Write the user list, its record and, if ``own_ids`` is given, the table of own spellings."""
    write_once(users, [id_lines(alignment.users)])
    write_once(record_beside(users), [alignment.record.content()])
    write_own_ids(alignment, own_ids)


def write_own_ids(alignment: Alignment, path: Path | None) -> None:
    """Write the party's own spelling of each listed user: columns user and own, mode 0600."""
    if path is not None:
        text, rows = io.StringIO(), zip(alignment.users, alignment.own, strict=True)
        csv.writer(text, lineterminator="\n").writerows([("user", "own"), *rows])
        write_once(path, [text.getvalue().encode()], mode=PRIVATE)


def write_once(path: Path, content: Iterable[bytes | memoryview], *, mode: int = 0o644) -> None:
    """Create a file, unless an interrupted run has already written the same bytes to it."""
    blocks = list(content)
    if path.is_file() and not path.is_symlink() and sha256_of(path) == hashlib.sha256(b"".join(blocks)).hexdigest():
        return
    with new_file(path, mode=mode) as file:
        file.writelines(blocks)


def read_list(path: Path) -> tuple[str, ...]:
    """Return the users of the list that the starter sent; an empty file lists no users."""
    with explaining_os_errors(path):
        empty = path.is_file() and path.stat().st_size == 0
    return () if empty else read_ids(path)


def keep_unchanged(alignment: Alignment, users: Path) -> None:
    """Refuse a list that is not byte for byte what ``finish`` wrote, or with another record; write a missing one."""
    with explaining_os_errors(users):
        digest = sha256_of(users)
    if digest != alignment.record.users_sha256:
        raise VerificationError(
            f"{named(users)}: the file was changed in transit: check line endings, byte order mark and the last line"
        )
    beside = record_beside(users)
    if not os.path.lexists(beside):
        write_once(beside, [alignment.record.content()])
    else:
        theirs, ours = read_record(beside).model_dump(mode="json"), alignment.record.model_dump(mode="json")
        for field, value in ours.items():
            if theirs[field] != value:
                raise VerificationError(f"{named(beside)}: {field} is {theirs[field]!r} there but {value!r} here")
