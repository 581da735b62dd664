"""Whole sessions compared with a plain set intersection, and what each step must refuse."""

import os
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pricdr.alignment.curve import Blinder
from pricdr.alignment.messages import Message, WhoLearns, list_sha256
from pricdr.alignment.normalisation import Normalisation
from pricdr.alignment.protocol import (
    ProtocolStep,
    accept,
    answered,
    begin,
    begin_answer,
    begin_finish,
    finish,
    finished,
    first_message,
    second_message,
)
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
    state, first = start(ours, who_learns=WhoLearns.BOTH, pad_to=pads[0])
    answerer_state, second = answer(read(as_bytes(first)), theirs, pad_to=pads[1])
    alignment = finish(state, read(as_bytes(second)))
    assert alignment.users == tuple(sorted(set(left) & set(right)))
    assert list(alignment.users) == sorted(alignment.users, key=str.encode)
    assert accept(answerer_state, alignment.users) == alignment
    record = alignment.record
    assert (record.starter_ids, record.answerer_ids) == pads
    assert record.common_users == len(alignment.users)
    assert record.users_sha256 == list_sha256(alignment.users)
    assert (record.first_message, record.second_message) == (first.sha256, second.sha256)


def test_common_users_are_listed_in_normalised_form_and_each_side_has_its_own_spelling():
    ours = normalised(["Ann@X.org ", "bob@x.org", "ANN@x.org"], Normalisation.EMAIL)
    theirs = normalised(["carl@x.org", "ann@X.ORG"], Normalisation.EMAIL)
    assert ours.merged == 1
    state, first = start(ours, who_learns=WhoLearns.BOTH)
    answerer_state, second = answer(first, theirs)
    alignment = finish(state, second)
    assert (alignment.users, alignment.own) == (("ann@x.org",), ("Ann@X.org ",))
    assert accept(answerer_state, alignment.users).own == ("ann@X.ORG",)
    assert alignment.record.rule == Normalisation.EMAIL.rule


def test_several_processes_produce_the_same_message(monkeypatch):
    monkeypatch.setattr("pricdr.alignment.curve.PORTION", 7)
    reports = []
    state = begin(normalised([f"u{i}" for i in range(20)]), pad_to=25)
    many = first_message(state, Blinder(2, lambda *report: reports.append(report)))
    assert many.sha256 == first_message(state).sha256
    assert reports[-1][:3] == ("blinding ids", 25, 25)
    assert [report[1] for report in reports] == sorted(report[1] for report in reports)


def _exit_process(contents, *, hashed):
    os._exit(9)


class BreakingPool:
    """Breaks when it is handed the fifth portion: then it is not a result that raises."""

    submitted = 0

    def submit(self, *task, hashed):
        self.submitted += 1
        if self.submitted > 4:
            raise BrokenProcessPool
        future = Future()
        future.set_result(bytes(32))
        return future


@pytest.mark.parametrize(
    ("name", "broken"), [("_in_worker", _exit_process), ("process_pool", lambda *_: nullcontext(BreakingPool()))]
)
def test_a_killed_worker_is_reported_in_one_line(monkeypatch, name, broken):
    monkeypatch.setattr("pricdr.alignment.curve.PORTION", 1)
    monkeypatch.setattr(f"pricdr.alignment.curve.{name}", broken)
    with pytest.raises(PriCDRError, match=r"a worker process was killed while blinding.*use fewer --processes"):
        start(normalised([f"u{i}" for i in range(6)]), blinder=Blinder(2))


@pytest.fixture(scope="module")
def session():
    """One session from both sides, the messages of another one, and another answer to the first message."""
    state, first = start(normalised(["a", "b", "c"]), who_learns=WhoLearns.BOTH)
    answerer, second = answer(first, normalised(["b", "c", "d"]))
    other, other_first = start(normalised(["a", "b", "c"]), who_learns=WhoLearns.BOTH)
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
    "only a message from align start can be answered": lambda s: answer(s.second, normalised(["a"])),
    "align finish needs the answer": lambda s: finish(s.state, s.first),
    "belongs to session [0-9a-f]{32}, the state to [0-9a-f]{32}": lambda s: finish(s.other, s.second),
    "does not answer the message that this state belongs to": lambda s: finish(
        s.other, altered(s.second, session=s.other.session)
    ),
    "header differs from the first message in .* who": lambda s: finish(
        s.state, altered(s.second, who_learns=WhoLearns.STARTER)
    ),
    "header differs from .* the number of ids": lambda s: finish(
        s.state, altered(s.second, starter_ids=2, answerer_ids=4)
    ),
    "by the rule exact, ours by email": lambda s: answer(s.first, normalised(["a@b"], Normalisation.EMAIL)),
    "already used another answer": lambda s: finish(s.bound, s.another),
    "this session is finished: align finish does not apply": lambda s: finish(finished(s.bound), s.second),
    "not the message that the state belongs to": lambda s: second_message(
        begin_answer(s.first, normalised(["a"])), s.other_first
    ),
    "there is no list to accept": lambda s: accept(s.alone, ["a"]),
    "no ids to align": lambda s: normalised([]),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_what_does_not_belong_to_the_session_is_refused(session, rule):
    with pytest.raises(InputError, match=rule):
        REFUSED[rule](session)
    assert finish(session.bound, session.second).users == ("b", "c")


@pytest.mark.parametrize(
    ("starter_ids", "users", "rule"),
    [
        (3, ["b", "x"], "line 2: 'x' is not one of the ids"),
        (3, ["c", "b"], "not in ascending order"),
        (3, ["b", "b"], "not in ascending order"),
        (2, ["b", "c", "d"], "lists 3 users, but the starter showed only 2 ids"),
    ],
)
def test_a_list_that_the_starter_cannot_have_found(session, starter_ids, users, rule):
    with pytest.raises(VerificationError, match=rule):
        accept(session.answerer.model_copy(update={"starter_ids": starter_ids}), users)


def test_states_drop_what_is_no_longer_needed():
    _, first = start(normalised(["a"]))
    alone, _ = answer(first, normalised(["a"]))
    assert (alone.key, alone.ids, alone.own) == (None, (), ())
    state, first = start(normalised(["a"]), who_learns=WhoLearns.BOTH)
    both, second = answer(first, normalised(["a"]))
    assert both.key is None
    assert both.ids == ("a",)
    done = finished(begin_finish(state, second))
    assert (done.step, done.key, done.ids, done.own) == (ProtocolStep.FINISHED, None, (), ())
    assert finished(both).step is ProtocolStep.ACCEPTED
    begun = begin_answer(first, normalised(["a"]))
    assert begun.key is not None
    assert answered(begun, second).key is None


def test_no_repr_shows_an_id_or_a_key():
    state, first = start(normalised(["private-id"]))
    _, second = answer(first, normalised(["private-id"]))
    alignment = finish(state, second)
    shown = f"{state!r} {first!r} {second!r} {alignment!r} {normalised(['private-id'])!r}"
    assert "private-id" not in shown
    assert state.key.reveal().hex() not in shown
    assert str(state.key.reveal()) not in shown


def test_with_both_a_starter_that_stops_knows_the_list_and_the_answerer_does_not():
    """The threat model says so: nothing makes the starter send what it has learnt."""
    theirs, ours = normalised(["a", "b", "c"]), normalised(["b", "c", "d"])
    state, first = start(theirs, who_learns=WhoLearns.BOTH)
    waiting, reply = answer(first, ours)
    assert finish(state, reply).users == ("b", "c")
    assert (waiting.step, waiting.key) == (ProtocolStep.ANSWERED, None), "nothing is left to compute the list with"
    assert accept(waiting, ["c"]).users == ("c",), "and whatever it is sent it must believe"


def test_too_little_padding():
    with pytest.raises(ParameterError, match=r"between the number of ids, 2, and .*, got 1"):
        start(normalised(["a", "b"]), pad_to=1)
