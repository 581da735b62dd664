"""Sessions between two parties, in memory."""

import io
from collections.abc import Sequence
from typing import Any

from pricdr.alignment.curve import Blinder
from pricdr.alignment.messages import Message, read_message
from pricdr.alignment.normalisation import Normalisation, NormalisedIds
from pricdr.alignment.protocol import (
    IN_THIS_PROCESS,
    ProtocolState,
    begin,
    begin_answer,
    first_message,
    second_message,
)


def normalised(ids: Sequence[str], normalisation: Normalisation = "exact") -> NormalisedIds:
    return NormalisedIds.of(ids, normalisation)


def as_bytes(message: Message) -> bytes:
    return b"".join(map(bytes, message.blocks()))


def read(content: bytes, name: str = "message") -> Message:
    return read_message(io.BytesIO(content), name, len(content))


def start(ids: NormalisedIds, blinder: Blinder = IN_THIS_PROCESS, **options: Any) -> tuple[ProtocolState, Message]:
    """Return the state that ``finish`` needs, and the first message."""
    message, state = first_message(begin(ids, **options), blinder)
    return state, message


def answer(message: Message, ids: NormalisedIds, *, pad_to: int | None = None) -> tuple[ProtocolState, Message]:
    """Return the state that ``accept`` needs, and the second message."""
    reply, state = second_message(begin_answer(message, ids, pad_to=pad_to), message)
    return state, reply
