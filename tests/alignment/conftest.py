"""Sessions between two parties, in memory."""

import io
from collections.abc import Sequence

from pricdr.alignment.curve import Blinder
from pricdr.alignment.messages import Message, WhoLearns, read_message
from pricdr.alignment.normalisation import Normalisation, NormalisedIds
from pricdr.alignment.protocol import (
    ProtocolState,
    answered,
    begin,
    begin_answer,
    first_message,
    second_message,
    started,
)


def normalised(ids: Sequence[str], normalisation: Normalisation = Normalisation.EXACT) -> NormalisedIds:
    return NormalisedIds.of(ids, normalisation)


def as_bytes(message: Message) -> bytes:
    return b"".join(map(bytes, message.blocks()))


def read(content: bytes, name: str = "message") -> Message:
    return read_message(io.BytesIO(content), name, len(content))


def start(
    ids: NormalisedIds,
    *,
    who_learns: WhoLearns = WhoLearns.STARTER,
    pad_to: int | None = None,
    blinder: Blinder = Blinder(),  # noqa: B008 - immutable
) -> tuple[ProtocolState, Message]:
    """Return the state that ``finish`` needs, and the first message."""
    state = begin(ids, who_learns=who_learns, pad_to=pad_to)
    message = first_message(state, blinder)
    return started(state, message), message


def answer(message: Message, ids: NormalisedIds, *, pad_to: int | None = None) -> tuple[ProtocolState, Message]:
    """Return the state that ``accept`` needs, and the second message."""
    state = begin_answer(message, ids, pad_to=pad_to)
    reply = second_message(state, message)
    return answered(state, reply), reply
