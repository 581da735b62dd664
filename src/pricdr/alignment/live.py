r"""The exchange over a connection: the messages that files would hold, byte for byte, between two runs.

    greeting B  →  A    what each was told: by which rule ids are written, and who learns the common users
             A  →  B
    start    A  →  B
    answer   B  →  A
    list     A  →  B    where both are to learn it: its length in 8 bytes, then users.txt
    done                by whoever had the last message, once it has been checked

A joins and B serves. What was agreed is compared before anything is computed. No state is kept: keys live as long as
the run, and a connection that is lost is begun anew, under new keys.
"""

import json
from dataclasses import dataclass
from typing import Annotated, BinaryIO, Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pricdr.alignment.blinding import Blinder
from pricdr.alignment.connection import Connection
from pricdr.alignment.messages import Header, Message, WhoLearns, read_message, write_message
from pricdr.alignment.normalisation import NormalisedIds
from pricdr.alignment.protocol import IN_THIS_PROCESS, Alignment, State, accept, answer, finish, start
from pricdr.alignment.record import list_content
from pricdr.errors import ExchangeError, InputError, VerificationError, printable
from pricdr.progress import Progress, silent

_FIRST_LINE: Final = b"pricdr alignment connection 1\n"
_DONE: Final = b"pricdr alignment done\n"
_LONGEST_GREETING: Final = 2048
_LENGTH: Final = 8
_PIECE: Final = 1 << 20
_THEIRS: Final = "the message of the other side"
_LIST: Final = "the list of the other side"


@dataclass(frozen=True)
class Served:
    """What came of an exchange for the side that served."""

    header: Header
    """Of its message: the session, and how many ids each side showed."""
    alignment: Alignment | None
    """The common users, where both were to learn them."""


class Greeting(BaseModel):
    """What one side was told: both must have been told the same."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    normalisation: Annotated[str, Field(max_length=20)]
    rule: Annotated[str, Field(max_length=400)]
    who_learns: WhoLearns

    def content(self) -> bytes:
        """Return the greeting as it travels."""
        said = json.dumps(self.model_dump(mode="json"), separators=(",", ":")).encode()
        return _FIRST_LINE + len(said).to_bytes(2, "big") + said


def join(
    connection: Connection,
    ids: NormalisedIds,
    *,
    who_learns: WhoLearns = WhoLearns.STARTER,
    pad_to: int | None = None,
    at_most: int | None = None,
    blinder: Blinder = IN_THIS_PROCESS,
) -> Alignment:
    """Return the common users, found with the side that serves.

    Args:
        connection: to that side.
        ids: ours.
        who_learns: we alone, or both; the other side must have been told the same.
        pad_to: show so many ids; the others are dummies.
        at_most: refuse an answer that shows more ids.
        blinder: how blinding is done; its progress is told about the connection, too.
    """
    # The side that joins speaks second: until it is greeted, it may yet be refused for its certificate.
    theirs = _heard(connection)
    _require_same(_greet(connection, ids, who_learns), theirs)
    stream = _Stream(connection, blinder.progress)
    state, message = start(ids, who_learns=who_learns, pad_to=pad_to, blinder=blinder)
    stream.send(message)
    reply = stream.receive(at_most)
    try:
        alignment = finish(state, reply, blinder)
    except InputError as error:
        raise ExchangeError(f"{_THEIRS}: {error}") from error
    except VerificationError as error:
        raise VerificationError(f"{_THEIRS}: {error}") from error
    if who_learns is WhoLearns.BOTH:
        content = list_content(alignment.users)
        connection.write(len(content).to_bytes(_LENGTH, "big") + content)
        stream.expect_done()
    else:
        connection.write(_DONE)
    return alignment


def serve(
    connection: Connection,
    ids: NormalisedIds,
    *,
    who_learns: WhoLearns = WhoLearns.STARTER,
    pad_to: int | None = None,
    at_most: int | None = None,
    blinder: Blinder = IN_THIS_PROCESS,
) -> Served:
    """Answer the side that joins, and return what came of it; with the common users, where both are to learn them.

    The arguments are those of :func:`join`.
    """
    ours = _greet(connection, ids, who_learns)
    _require_same(ours, _heard(connection))
    stream = _Stream(connection, blinder.progress)
    message = stream.receive(at_most)
    if message.header.who_learns is not who_learns:
        raise ExchangeError(f"{_THEIRS}: it contradicts what was agreed about who learns the common users")
    try:
        state, reply = answer(message, ids, pad_to=pad_to, blinder=blinder)
    except InputError as error:
        raise ExchangeError(f"{_THEIRS}: {error}") from error
    stream.send(reply)
    if who_learns is WhoLearns.STARTER:
        stream.expect_done()
        return Served(reply.header, None)
    alignment = _accepted(state, stream.receive_list(most=len(list_content(ids.ids))))
    connection.write(_DONE)
    return Served(reply.header, alignment)


def _greet(connection: Connection, ids: NormalisedIds, who_learns: WhoLearns) -> Greeting:
    """Tell the other side what we were told, and return it."""
    ours = Greeting(normalisation=ids.normalisation.value, rule=ids.normalisation.rule, who_learns=who_learns)
    connection.write(ours.content())
    return ours


def _heard(connection: Connection) -> Greeting:
    """Return what the other side was told."""
    if connection.read(len(_FIRST_LINE)) != _FIRST_LINE:
        raise ExchangeError("the other side is no pricdr align, or one of another version")
    length = int.from_bytes(connection.read(2), "big")
    if length > _LONGEST_GREETING:
        raise ExchangeError(f"the greeting of the other side has {length:,} bytes, over {_LONGEST_GREETING:,}")
    try:
        return Greeting.model_validate_json(connection.read(length))
    except ValidationError as error:
        raise ExchangeError("the greeting of the other side is none that this version knows") from error


def _require_same(ours: Greeting, theirs: Greeting) -> None:
    """Refuse to go on where the two sides were told different things."""
    if theirs.normalisation != ours.normalisation:
        told = f"{ours.normalisation} here, {printable(theirs.normalisation)} there"
        raise ExchangeError(f"the sides disagree about ids: {told}; give both the same --normalise")
    if theirs.rule != ours.rule:
        raise ExchangeError(f"the sides mean different rules by {ours.normalisation}: use the same version on both")
    if theirs.who_learns is not ours.who_learns:
        told = f"{_LEARNER[ours.who_learns]} here, {_LEARNER[theirs.who_learns]} there"
        raise ExchangeError(f"the sides disagree about who learns the users: {told}; give --both to both or to neither")


_LEARNER: Final = {WhoLearns.STARTER: "the side that joins", WhoLearns.BOTH: "both"}


class _Stream:
    """A connection that tells how many bytes of a message have passed."""

    def __init__(self, connection: Connection, progress: Progress = silent) -> None:
        self._connection, self._progress = connection, progress
        self._what, self._done, self._total = "", 0, 0

    def send(self, message: Message) -> None:
        self._what, self._done, self._total = "sending", 0, message.size
        write_message(cast("BinaryIO", self), message)

    def receive(self, at_most: int | None = None) -> Message:
        self._await()
        self._what, self._done, self._total = "receiving", 0, 0  # its size stands in its header, which is not read yet
        return read_message(cast("BinaryIO", self), _THEIRS, at_most=at_most)

    def receive_list(self, *, most: int) -> bytes:
        """Return the list of common users: no longer than one of all our own ids, since they are among those."""
        self._await()
        length = int.from_bytes(self._connection.read(_LENGTH), "big")
        if length > most:
            raise ExchangeError(f"{_LIST}: it has {length:,} bytes, and all ids here together have {most:,}")
        return self._connection.read(length) if length else b""

    def expect_done(self) -> None:
        self._await()
        if self._connection.read(len(_DONE)) != _DONE:
            raise ExchangeError("the other side did not confirm that everything arrived")

    def read(self, size: int) -> bytes:
        content = self._connection.read(size)
        self._report(len(content))
        return content

    def write(self, content: bytes | memoryview) -> int:
        whole = memoryview(content).cast("B")
        for at in range(0, len(whole), _PIECE):
            self._connection.write(whole[at : at + _PIECE])
            self._report(len(whole[at : at + _PIECE]))
        return len(whole)

    def _await(self) -> None:
        self._progress("waiting for the other side", 0, 0)
        self._connection.wait()

    def _report(self, size: int) -> None:
        self._done += size
        self._progress(self._what, self._done, self._total, f"{self._done / 1e6:,.1f} MB")


def _accepted(state: State, content: bytes) -> Alignment:
    try:
        users = content.decode()
    except UnicodeDecodeError as error:
        raise ExchangeError(f"{_LIST}: it is not UTF-8") from error
    if users and not users.endswith("\n"):
        raise ExchangeError(f"{_LIST}: its last line does not end")
    try:
        return accept(state, users.split("\n")[:-1])
    except (InputError, VerificationError) as error:
        raise VerificationError(f"{_LIST}: {error}") from error
