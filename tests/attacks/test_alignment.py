"""What one side of an alignment can learn about the other beyond the common users.

Each attack also runs on a flawed variant, which it breaks. The attacker knows every candidate id, the session and its
own key, but not the other side's key.
"""

import hashlib
import math
import secrets
from itertools import combinations

import numpy as np
import pytest

from pricdr.alignment.curve import A, Blinder, BlindingKey, P, Points, as_points, hash_to_u, in_byte_order, split_points
from pricdr.alignment.messages import Message
from pricdr.alignment.normalisation import NormalisedIds
from pricdr.alignment.protocol import begin, begin_answer, finish, first_message, second_message
from pricdr.errors import VerificationError
from tests.alignment.conftest import answer, start

CANDIDATES = tuple(f"user{i}" for i in range(10))


def normalised(ids) -> NormalisedIds:
    return NormalisedIds.of(list(ids), "exact")


def on_curve(points: Points) -> int:
    """Return how many of these points lie on the curve and not on its twist, which anyone can tell."""
    numbers = (int.from_bytes(row.tobytes(), "little") for row in points)
    return sum(pow(u * (u * u + A * u + 1), (P - 1) // 2, P) == 1 for u in numbers)


def hash_to_any_u(session: bytes, ids) -> list[bytes]:
    """The flaw: hash ids to any u-coordinate. Half of these lie on the twist, and X25519 accepts them."""
    digests = (hashlib.sha512(session + user_id.encode()).digest() for user_id in ids)
    return [(int.from_bytes(digest, "big") % P).to_bytes(32, "little") for digest in digests]


def suspects(ids, sessions, hash_ids, blind_ids) -> list[tuple[str, ...]]:
    """Return the sets of candidates that are consistent with the number of points on the curve in every session."""
    remaining = list(combinations(CANDIDATES, len(ids)))
    for _ in range(sessions):
        session = secrets.token_bytes(16)
        count = on_curve(blind_ids(session, ids))
        bits = {user: on_curve(as_points(hash_ids(session, [user]))) for user in CANDIDATES}
        remaining = [users for users in remaining if sum(bits[user] for user in users) == count]
    return remaining


def test_counting_points_on_the_twist_over_sessions_reveals_nobody():
    ids = tuple(secrets.SystemRandom().sample(CANDIDATES, 5))

    def flawed(session, users):
        return as_points(BlindingKey.generate().multiply(hash_to_any_u(session, users)))

    def ours(session, users):
        return Blinder().ids(users, session, BlindingKey.generate(), pad_to=len(users))

    # 252 sets of five; each session of the flawed variant leaves about a quarter of the wrong ones.
    broken = suspects(ids, 30, lambda session, users: b"".join(hash_to_any_u(session, users)), flawed)
    assert [set(users) for users in broken] == [set(ids)]
    remaining = suspects(
        ids, 3, lambda session, users: hash_to_u([session + b"\0" + user.encode() for user in users]), ours
    )
    assert len(remaining) == math.comb(len(CANDIDATES), 5)


def test_points_of_a_session_cannot_be_recognised_in_another_or_without_the_key():
    ids = normalised(CANDIDATES)
    state, first = start(ids)
    _, again = start(ids)
    points, others = (set(split_points(message.points.tobytes())) for message in (first, again))
    assert not points & others
    session = bytes.fromhex(state.session)
    hashed = split_points(hash_to_u([session + b"\0" + user_id.encode() for user_id in CANDIDATES]))
    assert not points & set(hashed)
    assert not points & set(split_points(BlindingKey.generate().multiply(hashed)))
    # With the key all of them are recognised, so the comparison above would have found them.
    assert points == set(split_points(state.key.multiply(hashed)))
    # Even a key that is used twice, which this software never does, reveals nothing: every session has its own hash.
    reused, _ = first_message(begin(ids).model_copy(update={"key": state.key}))
    assert not points & set(split_points(reused.points.tobytes()))
    assert points == set(split_points(first_message(state)[0].points.tobytes()))


def test_points_do_not_reveal_the_order_of_the_ids_on_either_side():
    """Any order of the same ids gives the same bytes, and over many keys the ranks do not correlate with the list."""
    _, first = start(normalised(["x"]))
    state = begin_answer(first, normalised(CANDIDATES))
    shuffled = state.model_copy(update={"ids": state.ids[::-1], "own": state.own[::-1]})
    ordered, other = (second_message(at, first)[0] for at in (state, shuffled))
    assert ordered.points.tobytes() == other.points.tobytes()

    count, sessions = 40, 40
    ids = normalised(f"user{i}" for i in range(count))
    correlations = {"answerer": 0.0, "starter": 0.0, "every fourth point keeps its place": 0.0}
    for _ in range(sessions):
        answering = begin_answer(first, ids)
        starting, message = start(ids)
        answered = second_message(answering, first)[0].answerer_points
        for side, state, sent in (("answerer", answering, answered), ("starter", starting, message.points)):
            by_id = Blinder().ids(ids.ids, bytes.fromhex(state.session), state.key, pad_to=count)
            places = {point: place for place, point in enumerate(split_points(sent.tobytes()))}
            ranks = [places[point] for point in split_points(by_id.tobytes())]
            correlations[side] += _correlation(ranks)
        flawed = [at if at % 4 == 0 else rank for at, rank in enumerate(ranks)]
        correlations["every fourth point keeps its place"] += _correlation(flawed)
    # Under independence each correlation has mean 0 and variance 1 / (count - 1).
    far = {side: abs(total) * math.sqrt((count - 1) * sessions) / sessions > 5 for side, total in correlations.items()}
    assert far == {"answerer": False, "starter": False, "every fourth point keeps its place": True}


def _correlation(ranks: list[int]) -> float:
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])


def test_dummies_cannot_be_told_from_ids():
    """Neither by curve or twist, nor by size, nor by position; the flawed variants are detected."""
    count = 400
    state, message = start(normalised(f"user{i}" for i in range(count)), pad_to=2 * count)
    placed = np.empty_like(message.points)
    placed[order := state.key.order(2 * count)] = message.points
    ids, dummies = placed[:count], placed[count:]
    flawed = as_points(b"".join(secrets.randbelow(P).to_bytes(32, "little") for _ in range(count)))
    assert on_curve(ids) == on_curve(dummies) == count
    assert on_curve(flawed) < 0.7 * count
    limit = 3 * math.sqrt(2 / count)  # exceeded by chance once in 30 million times
    assert _distance(ids, dummies) < limit
    halved = dummies.copy()
    halved[:, 31] //= 2
    assert _distance(ids, halved) > limit
    # Nor by their positions: the mean is that of all positions, up to five standard deviations.
    mean, deviation = (2 * count - 1) / 2, math.sqrt((2 * count + 1) / 12)
    assert abs(np.flatnonzero(order >= count).mean() - mean) < 5 * deviation
    assert abs(np.arange(count, 2 * count).mean() - mean) > 5 * deviation  # the flaw: dummies after the ids
    # The side that padded recognises its dummies, and an id with the same bytes as a dummy has another point.
    session, first = bytes.fromhex(state.session), state.key.dummy(count)
    assert state.key.multiply(split_points(hash_to_u([session + b"\1" + first]))) == dummies[0].tobytes()
    assert hash_to_u([session + b"\0" + first]) != hash_to_u([session + b"\1" + first])


def _distance(left: Points, right: Points) -> float:
    """Return the Kolmogorov-Smirnov distance between the numbers, by their highest two bytes."""
    ours, theirs = (np.sort(points[:, 31] * 256.0 + points[:, 30]) for points in (left, right))
    grid = np.concatenate([ours, theirs])
    steps = (np.searchsorted(numbers, grid, side="right") / len(numbers) for numbers in (ours, theirs))
    return float(np.abs(np.subtract(*steps)).max())


def stealing_answer(first: Message, known: str, at: int, targets: list[int]) -> Message:
    """Return the answer of a side that wants the ids at ``targets``, and knows one id of the starter and its position.

    It blinds the point of that id with many keys, and returns the results in place of the targets' points.
    """
    _, honest = answer(first, normalised([known]), pad_to=1 + len(targets))
    hashed = split_points(hash_to_u([bytes.fromhex(first.header.session) + b"\0" + known.encode()]))
    points = split_points(BlindingKey.generate().multiply(split_points(first.points.tobytes())))
    own = [BlindingKey.generate().multiply(hashed)]
    for position in targets:
        key = BlindingKey.generate()
        points[position] = key.multiply([first.points[at].tobytes()])
        own.append(key.multiply(hashed))
    return Message(
        honest.header, np.concatenate([as_points(b"".join(points)), in_byte_order(as_points(b"".join(own)))])
    )


def test_an_answerer_that_steals_ids_is_caught_by_dummies():
    """With ``--both`` and no dummies, all ids can be stolen. With dummies, each stolen id risks detection."""
    count = 30
    ids = normalised(f"user{i}" for i in range(count))

    def attempt(pad_to: int, thefts: int) -> int:
        state, first = start(ids, who_learns="both", pad_to=pad_to)
        at = state.key.order(pad_to).tolist().index(7)  # what a guessable order would reveal
        others = [position for position in range(pad_to) if position != at]
        reply = stealing_answer(first, "user7", at, secrets.SystemRandom().sample(others, thefts))
        return len(finish(state, reply)[0].users)

    assert attempt(count, count - 1) == count - 1  # the limit: unnoticed, and the answerer is sent the list
    with pytest.raises(VerificationError, match="a dummy matched, which only we know"):
        attempt(2 * count, count)  # it escapes less than once in 2^30 times
    noticed = 0
    for _ in range(40):
        try:
            attempt(2 * count, 1)
        except VerificationError:
            noticed += 1
    assert 4 <= noticed <= 36  # every other position is a dummy's; otherwise by chance once in ten million times


def test_a_starter_learns_about_every_id_it_shows_and_nothing_from_its_own_points():
    """A limit of every protocol of this kind: a side that shows ids it only guessed learns which of them are there.

    If the answer repeats the first message, its points contain the starter's key twice, and nothing matches.
    """
    state, first = start(normalised(CANDIDATES))
    _, second = answer(first, normalised(CANDIDATES[3:6]))
    assert finish(state, second)[0].users == CANDIDATES[3:6]
    assert second.header.starter_ids == len(CANDIDATES)  # it cannot hide how many it shows, and --at-most limits them
    _, honest = answer(first, normalised(CANDIDATES))
    reflected = Message(honest.header, np.concatenate([first.points, in_byte_order(first.points)]))
    assert finish(state, reflected)[0].users == ()
    assert finish(state, honest)[0].users == CANDIDATES
