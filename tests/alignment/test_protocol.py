"""Whole sessions compared with a plain set intersection, and what each step must refuse."""

import os
from types import SimpleNamespace

import pytest
from hypothesis import given, settings, strategies as st

from pricdr.alignment.curve import Blinder
from pricdr.alignment.messages import Message, list_sha256
from pricdr.alignment.normalisation import RULES
from pricdr.alignment.protocol import accept, begin, begin_answer, begin_finish, finish, first_message, second_message
from pricdr.errors import InputError, ParameterError, PriCDRError, VerificationError
from tests.alignment.conftest import answer, as_bytes, normalised, read, start

IDS = st.lists(
    st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=5), min_size=1, max_size=12
)


@given(IDS, IDS, st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=60)
def test_the_starter_learns_the_plain_intersection_and_the_answerer_accepts_it(left, right, more_left, more_right):
    ours, theirs = normalised(left), normalised(right)
    pads = (len(ours.ids) + more_left, len(theirs.ids) + more_right)
    state, first = start(ours, who_learns="both", pad_to=pads[0])
    answerer_state, second = answer(read(as_bytes(first)), theirs, pad_to=pads[1])
    alignment, done = finish(state, read(as_bytes(second)))
    assert alignment.users == tuple(sorted(set(left) & set(right)))
    assert list(alignment.users) == sorted(alignment.users, key=str.encode)
    accepted, done_too = accept(answerer_state, alignment.users)
    assert accepted == alignment
    assert {(at.key, at.ids, at.own) for at in (done, done_too)} == {(None, (), ())}
    record = alignment.record
    assert (record.starter_ids, record.answerer_ids) == pads
    assert record.common_users == len(alignment.users)
    assert record.users_sha256 == list_sha256(alignment.users)
    assert (record.first_message, record.second_message) == (first.sha256, second.sha256)


def test_common_users_are_listed_in_normalised_form_and_each_side_has_its_own_spelling():
    ours = normalised(["Ann@X.org ", "bob@x.org", "ANN@x.org"], "email")
    theirs = normalised(["carl@x.org", "ann@X.ORG"], "email")
    assert ours.merged == 1
    state, first = start(ours, who_learns="both")
    answerer_state, second = answer(first, theirs)
    alignment, _ = finish(state, second)
    assert (alignment.users, alignment.own) == (("ann@x.org",), ("Ann@X.org ",))
    assert accept(answerer_state, alignment.users)[0].own == ("ann@X.ORG",)
    assert alignment.record.rule == RULES["email"][0]


def test_several_processes_produce_the_same_message(monkeypatch):
    monkeypatch.setattr("pricdr.alignment.curve.PORTION", 7)
    reports = []
    state = begin(normalised([f"u{i}" for i in range(20)]), pad_to=25)
    many, _ = first_message(state, Blinder(2, lambda *report: reports.append(report)))
    assert many.sha256 == first_message(state)[0].sha256
    assert reports[-1][:3] == ("blinding ids", 25, 25)
    assert [report[1] for report in reports] == sorted(report[1] for report in reports)


def _exit_process(contents, key, *, hashed):
    os._exit(9)


def test_a_killed_worker_is_reported_in_one_line(monkeypatch):
    monkeypatch.setattr("pricdr.alignment.curve.PORTION", 1)
    monkeypatch.setattr("pricdr.alignment.curve._blind", _exit_process)
    with pytest.raises(PriCDRError, match=r"a worker process was killed while blinding.*use fewer --processes"):
        start(normalised([f"u{i}" for i in range(6)]), blinder=Blinder(2))


@pytest.fixture(scope="module")
def session():
    """One session from both sides, the messages of another one, and another answer to the first message."""
    state, first = start(normalised(["a", "b", "c"]), who_learns="both")
    answerer, second = answer(first, normalised(["b", "c", "d"]))
    other, other_first = start(normalised(["a", "b", "c"]), who_learns="both")
    alone_first = start(normalised(["a"]))[1]
    return SimpleNamespace(
        state=state,
        first=first,
        answerer=answerer,
        second=second,
        bound=begin_finish(state, second),
        another=answer(first, normalised(["a"]))[1],
        other=other,
        other_first=other_first,
        alone=answer(alone_first, normalised(["a"]))[0],
    )


def altered(message, **header):
    return Message(message.header.model_copy(update=header), message.points)


REFUSED = {
    "belongs to session [0-9a-f]{32}, the state to [0-9a-f]{32}": lambda s: finish(s.other, s.second),
    "does not answer the message that this state belongs to": lambda s: finish(
        s.other, altered(s.second, session=s.other.session)
    ),
    "header differs from the first message in .* who": lambda s: finish(
        s.state, altered(s.second, who_learns="starter")
    ),
    "header differs from .* the number of ids": lambda s: finish(
        s.state, altered(s.second, starter_ids=2, answerer_ids=4)
    ),
    "already used another answer": lambda s: finish(s.bound, s.another),
    "this session is finished: align finish does not apply": lambda s: finish(finish(s.bound, s.second)[1], s.second),
    "not the message that the state belongs to": lambda s: second_message(
        begin_answer(s.first, normalised(["a"])), s.other_first
    ),
    "there is no list to accept": lambda s: accept(s.alone, ["a"]),
    "no ids to align": lambda s: normalised([]),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_what_does_not_belong_to_the_session_is_refused(session, rule):
    """What ``tests/cli/test_align.py`` cannot show with honest files."""
    with pytest.raises(InputError, match=rule):
        REFUSED[rule](session)
    assert finish(session.bound, session.second)[0].users == ("b", "c")


def test_a_list_longer_than_the_starter_s_own_cannot_be_right(session):
    with pytest.raises(VerificationError, match="lists 3 users, but the starter showed only 2 ids"):
        accept(session.answerer.model_copy(update={"starter_ids": 2}), ["b", "c", "d"])
    with pytest.raises(VerificationError, match="line 2: 'b' is not in ascending order"):
        accept(session.answerer, ["b", "b"])


def test_no_repr_shows_an_id_or_a_key(session):
    shown = f"{session.state!r} {session.first!r} {session.second!r} {session.bound!r} {normalised(['private-id'])!r}"
    assert not [word for word in ("private-id", "'a'", "'b'", session.state.key.reveal().hex()) if word in shown]
    assert str(session.state.key.reveal()) not in shown


def test_with_both_a_starter_that_stops_knows_the_list_and_the_answerer_does_not(session):
    """The threat model says so: nothing makes the starter send what it has learnt."""
    waiting = session.answerer
    assert (waiting.step, waiting.key) == ("answered", None), "nothing is left to compute the list with"
    assert accept(waiting, ["c"])[0].users == ("c",), "and whatever it is sent it must believe"
    assert (session.alone.key, session.alone.ids, session.alone.own) == (None, (), ()), "nothing is left to accept with"


def test_too_little_padding():
    with pytest.raises(ParameterError, match=r"between the number of ids, 2, and .*, got 1"):
        start(normalised(["a", "b"]), pad_to=1)
