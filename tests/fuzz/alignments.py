"""Messages of an alignment: an accepted message is canonical, has no point of low order, and fits the session.

Anyone can put the right SHA-256 at the end of a file, so most cases have it.
"""

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

from pricdr.alignment.curve import LOW_ORDER, BlindingKey, P, split_points
from pricdr.alignment.messages import FIRST_LINE, Message, load_message
from pricdr.alignment.messages import Kind as MessageKind
from pricdr.alignment.normalisation import Normalisation, NormalisedIds
from pricdr.alignment.protocol import begin, begin_answer, finish, first_message, second_message, started
from tests.fuzz.cases import Files, Kind, Seed, require
from tests.fuzz.mutations import json_bytes, mutate_bytes, mutate_json

_NAME = "message"
_STARTER = ("ann", "bob", "carl", "dora")
_ANSWERER = ("bob", "dora", "eve")
_ODD_POINTS = (*LOW_ORDER, 9, P, P + 1, P + 9, 2**255 - 1, 2**255, 2**255 + 9, 2**256 - 1)


def _ids(*names: str) -> NormalisedIds:
    return NormalisedIds.of(names, Normalisation.EXACT)


_BEGUN = begin(_ids(*_STARTER)).model_copy(update={"session": "5e" * 16, "key": BlindingKey(bytes(range(32)))})
_FIRST = first_message(_BEGUN)
_STATE = started(_BEGUN, _FIRST)
_SECOND = second_message(
    begin_answer(_FIRST, _ids(*_ANSWERER)).model_copy(update={"key": BlindingKey(bytes(range(1, 33)))}),
    _FIRST,
)


def make_seeds(folder: Path) -> list[Seed]:
    """Return both messages of one session."""
    return [Seed(name, {_NAME: _bytes(message)}) for name, message in (("first", _FIRST), ("second", _SECOND))]


def _bytes(message: Message) -> bytes:
    return b"".join(message.blocks())


def mutate(rng: Random, seed: Seed, other: Seed) -> Files:
    """Change bytes, header fields or points, and usually correct the hash at the end."""
    content, spare = seed.files[_NAME], other.files[_NAME]
    draw = rng.randrange(8)
    if draw < 3:
        content = mutate_bytes(rng, content, spare)
    else:
        header, points = _parts(content)
        if draw < 6:
            changed = mutate_json(rng, json.loads(header), json.loads(_parts(spare)[0]))
            header = json_bytes(rng, changed, **rng.choice(({"separators": (",", ":")}, {})))
        else:
            points = b"".join(_changed_points(rng, split_points(points), split_points(_parts(spare)[1])))
        content = FIRST_LINE + len(header).to_bytes(4, "big") + header + points + content[-32:]
    if rng.random() < 0.8:
        content = content[:-32] + hashlib.sha256(content[:-32]).digest()
    return {_NAME: content}


def _parts(content: bytes) -> tuple[bytes, bytes]:
    at = len(FIRST_LINE) + 4
    length = int.from_bytes(content[at - 4 : at], "big")
    return content[at : at + length], content[at + length : -32]


def _changed_points(rng: Random, points: list[bytes], others: list[bytes]) -> list[bytes]:
    at, draw = rng.randrange(len(points)), rng.randrange(5)
    if draw == 0:
        points[at] = rng.choice(_ODD_POINTS).to_bytes(32, "little")
    elif draw == 1:
        points[at] = rng.choice((*others, rng.randbytes(31) + b"\x01"))
    elif draw == 2:
        rng.shuffle(points)
    elif draw == 3:
        points[at] = rng.choice(points)
    else:
        points[at:] = rng.choice(([], points[at:][::-1], [*points[at:], *others]))
    return points


def judge(folder: Path, seed: Seed, files: Files) -> None:
    """Read the message, and answer it or finish with it."""
    message = load_message(folder / _NAME)
    content: Any = files[_NAME]
    require(_bytes(message) == content, "a message that is not canonical")
    require(message.sha256 == hashlib.sha256(content).hexdigest(), "a message with another hash")
    points = split_points(message.points.tobytes())
    numbers = [int.from_bytes(point, "little") for point in points]
    require(all(u < P and u not in LOW_ORDER for u in numbers), "a point that no id hashes to")
    if message.header.kind is MessageKind.START:
        reply = second_message(begin_answer(message, _ids(*_ANSWERER)), message)
        require(len(reply.starter_points) == message.header.starter_ids, "an answer of another length")
        require(reply.header.previous == message.sha256, "an answer to another message")
        return
    alignment = finish(_STATE, message)
    require(set(alignment.users) <= set(_STARTER), "a common user whom the starter does not have")
    require(message.header.previous == _FIRST.sha256, "an answer to another message")
    if content == _bytes(_SECOND):
        require(set(alignment.users) == set(_STARTER) & set(_ANSWERER), "another intersection")


KIND = Kind(make_seeds, mutate, judge)
