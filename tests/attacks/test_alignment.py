"""What one side of an alignment can find out about the other beyond the common users: each attack, and a flaw it finds.

The attacker knows every candidate id, the session and its own key; it lacks the other side's key.
"""

import hashlib
import math
import secrets
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from pricdr.alignment.blinding import Blinder
from pricdr.alignment.curve import A, BlindingKey, P, Points, as_points, hash_to_u, in_byte_order, split_points
from pricdr.alignment.messages import Message, WhoLearns
from pricdr.alignment.normalisation import Normalisation, NormalisedIds
from pricdr.alignment.protocol import answer, begin, begin_answer, finish, first_message, second_message, start
from pricdr.errors import VerificationError

CANDIDATES = tuple(f"user{i}" for i in range(10))


def given(ids) -> NormalisedIds:
    return NormalisedIds.of(list(ids), Normalisation.EXACT)


def on_curve(points: Points) -> int:
    """How many of these points lie on the curve and not on its twist: anybody can tell."""
    numbers = (int.from_bytes(row.tobytes(), "little") for row in points)
    return sum(pow(u * (u * u + A * u + 1), (P - 1) // 2, P) == 1 for u in numbers)


def any_number(session: bytes, ids) -> list[bytes]:
    """The flaw: ids hashed to any u-coordinate, of which half lie on the twist. X25519 takes them as well."""
    digests = (hashlib.sha512(session + one.encode()).digest() for one in ids)
    return [(int.from_bytes(digest, "big") % P).to_bytes(32, "little") for digest in digests]


def suspects(ids, sessions, hashed, blinded) -> list[tuple[str, ...]]:
    """The sets of candidates that agree with how many points lay on the curve in every session."""
    left = list(combinations(CANDIDATES, len(ids)))
    for _ in range(sessions):
        session = secrets.token_bytes(16)
        seen = on_curve(blinded(session, ids))
        bits = {one: on_curve(as_points(hashed(session, [one]))) for one in CANDIDATES}
        left = [one for one in left if sum(bits[user] for user in one) == seen]
    return left


def test_counting_points_of_the_twist_over_sessions_gives_nobody_away():
    ids = tuple(secrets.SystemRandom().sample(CANDIDATES, 5))

    def flawed(session, users):
        return as_points(BlindingKey.generate().multiply(any_number(session, users)))

    def ours(session, users):
        return Blinder().ids(users, session, BlindingKey.generate(), pad_to=len(users))

    # 252 sets of five; each session of the flawed variant leaves about a quarter of the wrong ones.
    found = suspects(ids, 30, lambda session, users: b"".join(any_number(session, users)), flawed)
    assert [set(one) for one in found] == [set(ids)]
    kept = suspects(ids, 3, lambda session, users: hash_to_u([session + b"\0" + one.encode() for one in users]), ours)
    assert len(kept) == math.comb(len(CANDIDATES), 5)


def test_no_point_of_a_session_shows_up_in_another_or_without_the_key():
    ids = given(CANDIDATES)
    state, first = start(ids)
    _, again = start(ids)
    points, others = (set(split_points(message.points.tobytes())) for message in (first, again))
    assert not points & others
    session = bytes.fromhex(state.session)
    hashed = split_points(hash_to_u([session + b"\0" + one.encode() for one in CANDIDATES]))
    assert not points & set(hashed)
    assert not points & set(split_points(BlindingKey.generate().multiply(hashed)))
    # With the key, every one of them is recognised: the comparison above would have found them.
    assert points == set(split_points(state.key.multiply(hashed)))
    # Even a key that is used twice, which this software never does, shows nothing: every session hashes in its own way.
    reused = first_message(replace(begin(ids), key=state.key))
    assert not points & set(split_points(reused.points.tobytes()))
    assert points == set(split_points(first_message(state).points.tobytes()))


def test_the_answerers_points_say_nothing_about_the_order_of_its_ids():
    """The same set and key give the same bytes in any order; and over keys, ranks have no correlation with the list."""
    _, first = start(given(["x"]))
    state = begin_answer(first, given(CANDIDATES))
    shuffled = replace(state, ids=state.ids[::-1], own=state.own[::-1])
    assert second_message(state, first).points.tobytes() == second_message(shuffled, first).points.tobytes()

    count, sessions = 40, 40
    ids = given(f"user{i}" for i in range(count))
    honest, flawed = [], []
    for _ in range(sessions):
        state = begin_answer(first, ids)
        by_id = split_points(Blinder().ids(ids.ids, bytes.fromhex(state.session), state.key, pad_to=count).tobytes())
        sent = split_points(second_message(state, first).answerer_points.tobytes())
        ranks = [sent.index(point) for point in by_id]
        honest.append(_correlation(ranks))
        # The flaw: every fourth point stays where it was.
        kept = [at if at % 4 == 0 else rank for at, rank in enumerate(ranks)]
        flawed.append(_correlation(kept))
    # Under independence each correlation has mean 0 and variance 1 / (count - 1).
    scale = math.sqrt((count - 1) * sessions) / sessions
    assert abs(sum(honest)) * scale < 5
    assert abs(sum(flawed)) * scale > 5


def test_the_starters_points_say_nothing_about_the_order_of_its_ids():
    count, sessions = 40, 40
    ids = given(f"user{i}" for i in range(count))
    total = 0.0
    for _ in range(sessions):
        state, message = start(ids)
        by_id = split_points(Blinder().ids(ids.ids, bytes.fromhex(state.session), state.key, pad_to=count).tobytes())
        sent = split_points(message.points.tobytes())
        assert sorted(sent) == sorted(by_id)
        total += _correlation([sent.index(point) for point in by_id])
    assert abs(total) * math.sqrt((count - 1) * sessions) / sessions < 5
    assert _correlation(list(range(count))) * math.sqrt(count - 1) > 5  # the flaw: in the order of the file


def _correlation(ranks: list[int]) -> float:
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])


def test_dummies_cannot_be_told_from_ids():
    """By curve or twist, by the size of the number or by its lowest bits: the flaw, random numbers, is seen at once."""
    count = 400
    state, message = start(given(f"user{i}" for i in range(count)), pad_to=2 * count)
    placed = np.empty_like(message.points)
    placed[order := state.key.order(2 * count)] = message.points
    ids, dummies = placed[:count], placed[count:]
    flawed = as_points(b"".join(secrets.randbelow(P).to_bytes(32, "little") for _ in range(count)))
    assert on_curve(ids) == on_curve(dummies) == count
    assert on_curve(flawed) < 0.7 * count
    limit = 3 * math.sqrt(2 / count)  # which chance exceeds once in 30 million times
    assert _distance(ids, dummies) < limit
    halved = dummies.copy()
    halved[:, 31] //= 2
    assert _distance(ids, halved) > limit
    # Nor by where they stand: their mean position is that of all, up to five standard deviations.
    mean, deviation = (2 * count - 1) / 2, math.sqrt((2 * count + 1) / 12)
    assert abs(np.flatnonzero(order >= count).mean() - mean) < 5 * deviation
    assert abs(np.arange(count, 2 * count).mean() - mean) > 5 * deviation  # the flaw: dummies after the ids
    # Whoever padded knows them again, and nobody whose id happens to be spelled like one is taken for a dummy.
    session, first = bytes.fromhex(state.session), state.key.dummy(count)
    assert state.key.multiply(split_points(hash_to_u([session + b"\1" + first]))) == dummies[0].tobytes()
    assert hash_to_u([session + b"\0" + first]) != hash_to_u([session + b"\1" + first])


def _distance(left: Points, right: Points) -> float:
    """Return the Kolmogorov-Smirnov distance of the numbers."""
    ours, theirs = (np.sort(points[:, 31] * 256.0 + points[:, 30]) for points in (left, right))
    grid = np.concatenate([ours, theirs])
    steps = (np.searchsorted(one, grid, side="right") / len(one) for one in (ours, theirs))
    return float(np.abs(np.subtract(*steps)).max())


def stolen(first: Message, known: str, at: int, wanted: list[int]) -> Message:
    """The answer of a side that wants the ids at some positions, and knows one id of the starter and where it is.

    It blinds the point of the one id that it knows with many keys, and returns that in place of other points.
    """
    _, honest = answer(first, given([known]), pad_to=1 + len(wanted))
    hashed = split_points(hash_to_u([bytes.fromhex(first.header.session) + b"\0" + known.encode()]))
    points = split_points(BlindingKey.generate().multiply(split_points(first.points.tobytes())))
    own = [BlindingKey.generate().multiply(hashed)]
    for position in wanted:
        key = BlindingKey.generate()
        points[position] = key.multiply([first.points[at].tobytes()])
        own.append(key.multiply(hashed))
    return Message(
        honest.header, np.concatenate([as_points(b"".join(points)), in_byte_order(as_points(b"".join(own)))])
    )


def test_an_answerer_that_makes_the_starter_list_its_own_users_meets_a_dummy():
    """Where both are to learn the list: without dummies all ids may be stolen; each costs a risk of being found out."""
    count = 30
    ids = given(f"user{i}" for i in range(count))

    def attempt(pad_to: int, thefts: int) -> int:
        state, first = start(ids, who_learns=WhoLearns.BOTH, pad_to=pad_to)
        at = state.key.order(pad_to).tolist().index(7)  # what an order that can be guessed would tell
        others = [position for position in range(pad_to) if position != at]
        reply = stolen(first, "user7", at, secrets.SystemRandom().sample(others, thefts))
        return len(finish(state, reply).users)

    assert attempt(count, count - 1) == count - 1  # the limit: nobody notices, and the list goes to the answerer
    with pytest.raises(VerificationError, match="a dummy is common, which nobody else has"):
        attempt(2 * count, count)  # it escapes once in 2^30 times and more
    noticed = 0
    for _ in range(40):
        try:
            attempt(2 * count, 1)
        except VerificationError:
            noticed += 1
    assert 4 <= noticed <= 36  # one of two positions is a dummy's; chance leaves these bounds once in ten million times


def test_what_a_malicious_starter_learns_is_what_it_asks_for():
    """The limit that no protocol of this kind removes: whoever shows ids it does not have learns which are there."""
    guesses, theirs = given(CANDIDATES), given(CANDIDATES[3:6])
    state, first = start(guesses)
    _, second = answer(first, theirs)
    assert finish(state, second).users == CANDIDATES[3:6]
    assert second.header.starter_ids == len(CANDIDATES)  # it cannot hide how many it asked for: --at-most refuses that


def test_a_starter_that_gets_its_own_points_back_finds_nobody():
    """Both parts of an answer may be the first message: its points then hold the starter's key twice, and meet none."""
    state, first = start(given(CANDIDATES))
    _, honest = answer(first, given(CANDIDATES))
    reflected = Message(honest.header, np.concatenate([first.points, in_byte_order(first.points)]))
    assert finish(state, reflected).users == ()
    assert finish(state, honest).users == CANDIDATES
