r"""The exchange over a connection: the same messages that files would hold, byte for byte.

    greeting B  →  A    the settings of each side: how ids are normalised, and who learns the common users
             A  →  B
    start    A  →  B
    answer   B  →  A
    list     A  →  B    if both learn the users: its length in 8 bytes, then users.txt
    done                from the side that received the last message, once it has checked it

A joins and B serves. The settings are compared before anything is computed. No state is kept: keys last as long as the
run, and after a lost connection both sides start again with new keys.
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
_MESSAGE: Final = "the other side's message"
_LIST: Final = "the other side's list"


@dataclass(frozen=True)
class Served:
    """The result of an exchange for the side that served."""

    header: Header
    """The header of its answer: the session, and how many ids each side showed."""
    alignment: Alignment | None
    """The common users, if both sides learn them."""


class Greeting(BaseModel):
    """The settings of one side, which must be the same on both."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    normalisation: Annotated[str, Field(max_length=20)]
    rule: Annotated[str, Field(max_length=400)]
    who_learns: WhoLearns

    def content(self) -> bytes:
        """Return the greeting as it is sent."""
        settings = json.dumps(self.model_dump(mode="json"), separators=(",", ":")).encode()
        return _FIRST_LINE + len(settings).to_bytes(2, "big") + settings


def join(
    connection: Connection,
    ids: NormalisedIds,
    *,
    who_learns: WhoLearns = WhoLearns.STARTER,
    pad_to: int | None = None,
    at_most: int | None = None,
    blinder: Blinder = IN_THIS_PROCESS,
) -> Alignment:
    """Run the exchange with the side that serves, and return the common users.

    Args:
        connection: the connection to that side.
        ids: our ids.
        who_learns: we alone, or both; the other side must have the same setting.
        pad_to: add dummies up to this number of ids.
        at_most: refuse an answer that shows more ids than this.
        blinder: how to blind; its ``progress`` is also called for sending and receiving.
    """
    # The side that joins speaks second: until it is greeted, its certificate may still be refused.
    theirs = _read_greeting(connection)
    _require_same(_greet(connection, ids, who_learns), theirs)
    stream = _Stream(connection, blinder.progress)
    state, message = start(ids, who_learns=who_learns, pad_to=pad_to, blinder=blinder)
    stream.send(message)
    reply = stream.receive(at_most)
    try:
        alignment = finish(state, reply, blinder)
    except InputError as error:
        raise ExchangeError(f"{_MESSAGE}: {error}") from error
    except VerificationError as error:
        raise VerificationError(f"{_MESSAGE}: {error}") from error
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
    """Answer the side that joins, and return the result; it has the common users if both sides learn them.

    The arguments are those of :func:`join`.
    """
    ours = _greet(connection, ids, who_learns)
    _require_same(ours, _read_greeting(connection))
    stream = _Stream(connection, blinder.progress)
    message = stream.receive(at_most)
    if message.header.who_learns is not who_learns:
        raise ExchangeError(f"{_MESSAGE}: it contradicts the greeting about who learns the common users")
    try:
        state, reply = answer(message, ids, pad_to=pad_to, blinder=blinder)
    except InputError as error:
        raise ExchangeError(f"{_MESSAGE}: {error}") from error
    stream.send(reply)
    if who_learns is WhoLearns.STARTER:
        stream.expect_done()
        return Served(reply.header, None)
    alignment = _accepted(state, stream.receive_list(most=len(list_content(ids.ids))))
    connection.write(_DONE)
    return Served(reply.header, alignment)


def _greet(connection: Connection, ids: NormalisedIds, who_learns: WhoLearns) -> Greeting:
    """Send our settings to the other side, and return them."""
    ours = Greeting(normalisation=ids.normalisation.value, rule=ids.normalisation.rule, who_learns=who_learns)
    connection.write(ours.content())
    return ours


def _read_greeting(connection: Connection) -> Greeting:
    """Return the settings of the other side."""
    if connection.read(len(_FIRST_LINE)) != _FIRST_LINE:
        raise ExchangeError("the other side is not running pricdr align, or another version of it")
    length = int.from_bytes(connection.read(2), "big")
    if length > _LONGEST_GREETING:
        raise ExchangeError(
            f"the other side's greeting has {length:,} bytes; at most {_LONGEST_GREETING:,} are allowed"
        )
    try:
        return Greeting.model_validate_json(connection.read(length))
    except ValidationError as error:
        raise ExchangeError("the other side's greeting is not one that this version understands") from error


def _require_same(ours: Greeting, theirs: Greeting) -> None:
    """Refuse to continue if the two sides have different settings."""
    if theirs.normalisation != ours.normalisation:
        settings = f"{ours.normalisation} here, {printable(theirs.normalisation)} there"
        raise ExchangeError(f"the sides normalise ids differently: {settings}; give both the same --normalise")
    if theirs.rule != ours.rule:
        raise ExchangeError(f"the rule {ours.normalisation} differs between the sides: run the same version on both")
    if theirs.who_learns is not ours.who_learns:
        settings = f"{_LEARNER[ours.who_learns]} here, {_LEARNER[theirs.who_learns]} there"
        raise ExchangeError(f"the sides disagree about who learns the users: {settings}; use --both on both or neither")


_LEARNER: Final = {WhoLearns.STARTER: "the side that joins", WhoLearns.BOTH: "both"}


class _Stream:
    """A connection that reports how many bytes of a message were sent or received."""

    def __init__(self, connection: Connection, progress: Progress = silent) -> None:
        self._connection, self._progress = connection, progress
        self._what, self._done, self._total = "", 0, 0

    def send(self, message: Message) -> None:
        self._what, self._done, self._total = "sending", 0, message.size
        write_message(cast("BinaryIO", self), message)

    def receive(self, at_most: int | None = None) -> Message:
        self._await()
        self._what, self._done, self._total = "receiving", 0, 0  # the size is in the header, which is not read yet
        return read_message(cast("BinaryIO", self), _MESSAGE, at_most=at_most)

    def receive_list(self, *, most: int) -> bytes:
        """Return the list of common users, at most ``most`` bytes: as many as a list of all our own ids has."""
        self._await()
        length = int.from_bytes(self._connection.read(_LENGTH), "big")
        if length > most:
            raise ExchangeError(f"{_LIST}: it has {length:,} bytes, but a list of all our ids has only {most:,}")
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
        raise ExchangeError(f"{_LIST}: its last line has no line break")
    try:
        return accept(state, users.split("\n")[:-1])
    except (InputError, VerificationError) as error:
        raise VerificationError(f"{_LIST}: {error}") from error
