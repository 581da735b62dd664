"""State files: round trips and damage. Their modes are looked at where ``tests/cli/test_align.py`` writes them."""

import hashlib

import pytest

from pricdr.alignment.protocol import begin, read_state
from pricdr.errors import InputError
from tests.alignment.conftest import answer, normalised, start


def facts(state):
    return {**vars(state), "key": state.key and state.key.reveal()}


@pytest.fixture
def states():
    begun = begin(normalised(["Ann@x.org", "bé@x.org"], "email"), pad_to=5)
    started, first = start(normalised(["a", " b", "\u200bc"]), who_learns="both")
    kept, _ = answer(first, normalised(["a"]))
    _, other = start(normalised(["a"]))
    used, _ = answer(other, normalised(["a"]))
    return begun, started, kept, used


def test_states_round_trip(states, tmp_path):
    for state in states:
        (tmp_path / "s").write_bytes(state.content())
        assert facts(read_state(tmp_path / "s")) == facts(state)


def test_damage_and_other_versions_are_refused_without_showing_the_key(states, tmp_path):
    path, whole, key = tmp_path / "s", states[0].content(), states[0].key.reveal().hex()
    body = whole[:-65].replace(b'"version":2', b'"version":1')
    contents = {
        body + hashlib.sha256(body).hexdigest().encode() + b"\n": "a pricdr align state file of another version"
    }
    for at in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[at] ^= 0x15
        contents |= dict.fromkeys((bytes(changed), whole[:at]), "not a pricdr align state file, or a damaged one")
    for content, message in contents.items():
        path.write_bytes(content)
        with pytest.raises(InputError, match=message) as refused:
            read_state(path)
        assert refused.value.__cause__ is None
        assert key[:12] not in str(refused.value)


def test_links_are_refused(states, tmp_path):
    (tmp_path / "s").write_bytes(states[0].content())
    (tmp_path / "link").symlink_to("s")
    with pytest.raises(InputError, match="this is a link"):
        read_state(tmp_path / "link")
