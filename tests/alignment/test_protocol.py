"""Both sides together against a plain intersection, and each step against what it must refuse."""

import dataclasses
import io
import os

import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from pricdr.alignment.blinding import Blinder
from pricdr.alignment.messages import Message, WhoLearns, read_message
from pricdr.alignment.normalisation import Normalisation
from pricdr.alignment.protocol import (
    Step,
    accept,
    answer,
    answered,
    begin,
    begin_answer,
    begin_finish,
    finish,
    finished,
    first_message,
    second_message,
    start,
)
from pricdr.alignment.record import list_sha256
from pricdr.errors import InputError, ParameterError, PriCDRError, VerificationError
from tests.alignment.conftest import as_bytes, given

IDS = st.lists(
    st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=5), min_size=1, max_size=12
)


@examples(IDS, IDS, st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=60)
def test_the_starter_learns_the_plain_intersection_and_the_answerer_accepts_it(left, right, more_left, more_right):
    ours, theirs = given(left), given(right)
    pads = (len(ours.ids) + more_left, len(theirs.ids) + more_right)
    state, first = start(ours, who_learns=WhoLearns.BOTH, pad_to=pads[0])
    kept, second = answer(read_message(io.BytesIO(as_bytes(first)), "first"), theirs, pad_to=pads[1])
    found = finish(state, read_message(io.BytesIO(as_bytes(second)), "second"))
    assert found.users == tuple(sorted(set(left) & set(right)))
    assert list(found.users) == sorted(found.users, key=str.encode)
    assert accept(kept, found.users) == found
    record = found.record
    assert (record.starter_ids, record.answerer_ids) == pads
    assert record.common_users == len(found.users)
    assert record.users_sha256 == list_sha256(found.users)
    assert (record.first_message, record.second_message) == (first.sha256, second.sha256)


def test_common_users_by_a_rule_are_listed_as_the_rule_writes_them_and_each_side_has_its_own_spelling():
    ours = given(["Ann@X.org ", "bob@x.org", "ANN@x.org"], Normalisation.EMAIL)
    theirs = given(["carl@x.org", "ann@X.ORG"], Normalisation.EMAIL)
    assert ours.merged == 1
    state, first = start(ours, who_learns=WhoLearns.BOTH)
    kept, second = answer(first, theirs)
    found = finish(state, second)
    assert (found.users, found.own) == (("ann@x.org",), ("Ann@X.org ",))
    assert accept(kept, found.users).own == ("ann@X.ORG",)
    assert found.record.rule == Normalisation.EMAIL.rule


def test_nobody_in_common_is_an_answer_too(align):
    found = align(["a"], ["b"])
    assert found.users == ()
    assert found.record.common_users == 0


def test_many_processes_come_to_the_same_message(monkeypatch):
    monkeypatch.setattr("pricdr.alignment.blinding.PORTION", 7)
    reports = []
    state = begin(given([f"u{i}" for i in range(20)]), pad_to=25)
    many = first_message(state, Blinder(2, lambda *report: reports.append(report)))
    assert many.sha256 == first_message(state).sha256
    assert reports[-1][:3] == ("blinding ids", 25, 25)
    assert [report[1] for report in reports] == sorted(report[1] for report in reports)


def _end_the_process(contents, key):
    os._exit(9)


def test_a_killed_worker_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr("pricdr.alignment.blinding.PORTION", 1)
    monkeypatch.setattr("pricdr.alignment.blinding._blind_contents", _end_the_process)
    with pytest.raises(PriCDRError, match="a process that blinds was killed"):
        start(given(["a", "b"]), blinder=Blinder(2))


def test_portions_that_are_kept_are_not_computed_again():
    kept = {}

    class Kept:
        def read(self, name, size):
            return kept.get(name)

        def write(self, name, content):
            assert name not in kept
            kept[name] = content

    state = begin(given(["a", "b"]))
    whole = first_message(state, Blinder(kept=Kept()))
    assert list(kept) == ["ids-000000000"]
    kept["ids-000000000"] = bytes(64)  # if it is taken as it is, it shows
    assert first_message(state, Blinder(kept=Kept())).points.tobytes() == bytes(64) != whole.points.tobytes()


class TestRefusals:
    @pytest.fixture
    def session(self):
        state, first = start(given(["a", "b", "c"]), who_learns=WhoLearns.BOTH)
        kept, second = answer(first, given(["b", "c", "d"]))
        return state, first, kept, second

    def test_an_answer_is_not_answered_and_a_first_message_does_not_finish(self, session):
        state, first, _, second = session
        with pytest.raises(InputError, match="only a message of align start can be answered"):
            answer(second, given(["a"]))
        with pytest.raises(InputError, match="finish takes the answer"):
            finish(state, first)

    def test_messages_of_another_session(self, session):
        state, _, _, second = session
        other, first = start(given(["a", "b", "c"]), who_learns=WhoLearns.BOTH)
        with pytest.raises(InputError, match=f"belongs to session {state.session}, the state to {other.session}"):
            finish(other, second)
        header = second.header.model_copy(update={"session": other.session})
        with pytest.raises(InputError, match="does not answer the message that this state belongs to"):
            finish(other, Message(header, second.points))
        _, fresh = answer(first, given(["b"]))
        finish(other, fresh)

    @pytest.mark.parametrize(
        "change", [{"who_learns": WhoLearns.STARTER}, {"starter_ids": 2, "answerer_ids": 4}], ids=["who", "counts"]
    )
    def test_an_answer_that_changes_what_was_agreed(self, session, change):
        state, _, _, second = session
        with pytest.raises(InputError, match="does not repeat what the first message said"):
            finish(state, Message(second.header.model_copy(update=change), second.points))

    def test_a_second_answer_in_one_session(self, session):
        state, first, _, second = session
        bound = begin_finish(state, second)
        _, another = answer(first, given(["a"]))
        with pytest.raises(InputError, match="another answer was taken"):
            finish(bound, another)
        assert finish(bound, second).users == ("b", "c")
        with pytest.raises(InputError, match="its session was finished: align finish does not apply"):
            finish(finished(bound), second)

    def test_another_rule(self, session):
        _, first, _, _ = session
        with pytest.raises(InputError, match="by the rule exact, ours by email"):
            answer(first, given(["a@b"], Normalisation.EMAIL))

    def test_a_state_answers_one_message(self, session):
        _, first, _, _ = session
        state = begin_answer(first, given(["a"]))
        _, other = start(given(["a"]))
        with pytest.raises(InputError, match="another message"):
            second_message(state, other)
        assert second_message(state, first).sha256 == second_message(state, first).sha256

    def test_a_list_with_somebody_who_is_not_ours(self, session):
        _, _, kept, _ = session
        with pytest.raises(VerificationError, match="line 2: 'x' is none of the ids"):
            accept(kept, ["b", "x"])

    def test_a_list_out_of_order_or_with_repeats_or_too_long(self, session):
        _, _, kept, _ = session
        for wrong in (["c", "b"], ["b", "b"]):
            with pytest.raises(VerificationError, match="not in ascending order"):
                accept(kept, wrong)
        with pytest.raises(VerificationError, match="lists 3 users, and the starter showed 2 ids"):
            accept(dataclasses.replace(kept, starter_ids=2), ["b", "c", "d"])

    def test_a_list_where_the_starter_alone_was_to_learn(self):
        _, first = start(given(["a"]))
        kept, _ = answer(first, given(["a"]))
        with pytest.raises(InputError, match="no list to accept"):
            accept(kept, ["a"])

    def test_too_little_padding_and_no_ids(self):
        with pytest.raises(ParameterError, match=r"from the number of ids, 2, to .*, got 1"):
            start(given(["a", "b"]), pad_to=1)
        with pytest.raises(InputError, match="there is no id to align"):
            given([])


def test_what_is_no_longer_needed_is_not_kept():
    _, first = start(given(["a"]))
    alone, _ = answer(first, given(["a"]))
    assert (alone.key, alone.ids, alone.own) == (None, (), ())
    state, first = start(given(["a"]), who_learns=WhoLearns.BOTH)
    both, second = answer(first, given(["a"]))
    assert both.key is None
    assert both.ids == ("a",)
    done = finished(begin_finish(state, second))
    assert (done.step, done.key, done.ids, done.own) == (Step.FINISHED, None, (), ())
    assert finished(both).step is Step.ACCEPTED
    begun = begin_answer(first, given(["a"]))
    assert begun.key is not None
    assert answered(begun, second).key is None


def test_no_repr_shows_an_id_or_a_key():
    state, first = start(given(["private-id"]))
    _, second = answer(first, given(["private-id"]))
    found = finish(state, second)
    shown = f"{state!r} {first!r} {second!r} {found!r} {given(['private-id'])!r}"
    assert "private-id" not in shown
    assert state.key.reveal().hex() not in shown
    assert str(state.key.reveal()) not in shown
