"""Sessions between two parties, in memory."""

import io
from collections.abc import Callable, Sequence

import pytest

from pricdr.alignment.messages import Message, write_message
from pricdr.alignment.normalisation import Normalisation, NormalisedIds
from pricdr.alignment.protocol import Alignment, answer, finish, start


def normalised(ids: Sequence[str], normalisation: Normalisation = Normalisation.EXACT) -> NormalisedIds:
    return NormalisedIds.of(ids, normalisation)


def as_bytes(message: Message) -> bytes:
    file = io.BytesIO()
    write_message(file, message)
    return file.getvalue()


@pytest.fixture
def align() -> Callable[..., Alignment]:
    """Run a whole session and return what the starter learns."""

    def run(starter: Sequence[str], answerer: Sequence[str], *, pads: tuple[int | None, int | None] = (None, None)):
        state, first = start(normalised(starter), pad_to=pads[0])
        _, second = answer(first, normalised(answerer), pad_to=pads[1])
        return finish(state, second)

    return run
