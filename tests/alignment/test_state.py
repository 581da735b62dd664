"""State files and records: file modes, round trips and damage."""

import hashlib
import stat

import pytest

from pricdr.alignment.files import create_state, read_state, update_state
from pricdr.alignment.messages import AlignmentRecord, WhoLearns, read_record
from pricdr.alignment.normalisation import Normalisation
from pricdr.alignment.protocol import begin
from pricdr.errors import InputError, OutputError
from tests.alignment.conftest import answer, normalised, start


def facts(state):
    return {**vars(state), "key": state.key and state.key.reveal()}


@pytest.fixture
def states():
    begun = begin(normalised(["Ann@x.org", "bé@x.org"], Normalisation.EMAIL), pad_to=5)
    started, first = start(normalised(["a", " b", "\u200bc"]), who_learns=WhoLearns.BOTH)
    kept, _ = answer(first, normalised(["a"]))
    _, other = start(normalised(["a"]))
    used, _ = answer(other, normalised(["a"]))
    return begun, started, kept, used


def test_states_round_trip(states, tmp_path):
    for number, state in enumerate(states):
        path = tmp_path / str(number)
        create_state(path, state)
        assert facts(read_state(path)) == facts(state)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        update_state(path, states[0])
        assert facts(read_state(path)) == facts(states[0])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_state_is_never_overwritten(states, tmp_path):
    create_state(tmp_path / "s", states[0])
    with pytest.raises(OutputError, match="exists already"):
        create_state(tmp_path / "s", states[1])


def test_any_damage_is_refused_without_showing_the_key(states, tmp_path):
    path = tmp_path / "s"
    create_state(path, states[0])
    whole = path.read_bytes()
    key = states[0].key.reveal().hex()
    for at in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[at] ^= 0x15
        for content in (bytes(changed), whole[:at]):
            path.write_bytes(content)
            with pytest.raises(InputError, match="not a pricdr align state file, or a damaged one") as refused:
                read_state(path)
            assert key[:12] not in str(refused.value)


def test_a_state_of_another_version_is_refused_without_showing_the_key(states, tmp_path):
    path = tmp_path / "s"
    create_state(path, states[0])
    content = path.read_bytes()[:-65].replace(b'"version": 1', b'"version": 2')
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode() + b"\n")
    with pytest.raises(InputError, match="a pricdr align state file of another version") as refused:
        read_state(path)
    assert refused.value.__cause__ is None
    assert states[0].key.reveal().hex()[:12] not in str(refused.value)


def test_links_are_refused(states, tmp_path):
    create_state(tmp_path / "s", states[0])
    (tmp_path / "link").symlink_to("s")
    with pytest.raises(InputError, match="this is a link"):
        read_state(tmp_path / "link")


RECORD = {
    "session": "0" * 32,
    "normalisation": "exact",
    "rule": Normalisation.EXACT.rule,
    "who_learns": WhoLearns.BOTH,
    "starter_ids": 3,
    "answerer_ids": 2,
    "common_users": 2,
    "users_sha256": "1" * 64,
    "first_message": "2" * 64,
    "second_message": "3" * 64,
}


def test_records_round_trip(tmp_path):
    record = AlignmentRecord(**RECORD)
    (tmp_path / "r").write_bytes(record.content())
    assert read_record(tmp_path / "r") == record


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "r: content: "),
        (b"[" * 5000, "r: content: "),
        (AlignmentRecord(**RECORD).content().replace(b": 3,", b": NaN,"), "starter_ids|content"),
        (AlignmentRecord(**{**RECORD, "common_users": 3}).content(), "larger than the number of ids a party showed"),
        (AlignmentRecord(**{**RECORD, "rule": "x\u202e"}).content(), "the rule exact reads"),
        (b" " * 9000, "more than 8,192 bytes"),
    ],
)
def test_hostile_records(content, rule, tmp_path):
    (tmp_path / "r").write_bytes(content)
    with pytest.raises(InputError, match=rule) as refused:
        read_record(tmp_path / "r")
    assert str(refused.value).isprintable()
