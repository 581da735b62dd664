"""API keys: created, kept as hashes, checked, removed."""

import hashlib
import json
import stat
from datetime import UTC, datetime, timedelta

import pytest

from pricdr.errors import InputError, ParameterError
from pricdr.serving.keys import KeyRing, Scope, add_key, presented_key, read_keys, remove_key


def test_a_key_is_known_by_its_hash_alone_under_its_name_until_it_expires(tmp_path):
    file = tmp_path / "keys.json"
    key = add_key(file, "shop", [Scope.RECOMMEND])
    name, _, secret = key.partition(".")
    assert name == "shop"
    assert len(secret) == 43
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    soon, past = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, -1))
    other, late = (add_key(file, name, [Scope.PAGE], expires=when) for name, when in (("other", soon), ("late", past)))
    ring = KeyRing(file)
    assert ring.authenticate(key) == ("shop", (Scope.RECOMMEND,))
    assert ring.authenticate(other) == ("other", (Scope.PAGE,))
    assert ring.authenticate(late) is None
    assert ring.authenticate(key.replace("shop.", "other.", 1)) is None
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert read_keys(file)["shop"].sha256 == digest
    assert secret not in file.read_text()
    assert digest not in repr(read_keys(file))


def test_an_invalid_key_is_refused_and_headers_without_a_key_give_none(tmp_path):
    add_key(tmp_path / "keys.json", "shop", [Scope.RECOMMEND])
    for wrong in ("", "shop", "shop.", ".", "other.x", "shop.\ud800", "shop.é", "shop." + "A" * 43):
        assert KeyRing(tmp_path / "keys.json").authenticate(wrong) is None
    for header in (b"", b"Bearer", b"Basic !!!", b"Basic eA==", b"Bearer \xff", b"Negotiate abc"):
        assert not presented_key(header)


def test_removed_keys_stop_working_and_new_ones_work(tmp_path):
    file, events = tmp_path / "keys.json", []
    one, two = add_key(file, "one", [Scope.PAGE]), add_key(file, "two", [Scope.PAGE])
    ring = KeyRing(file, lambda event, **facts: events.append((event, facts)))
    file.chmod(0o640)
    remove_key(file, "one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    file.chmod(0o600)
    assert ring.authenticate(one) is not None
    ring.reload()
    ring.reload()
    assert ring.authenticate(one) is None
    assert ring.authenticate(two) is not None
    remove_key(file, "two")  # the last one: then everyone is refused
    ring.reload()
    assert ring.authenticate(two) is None
    again = add_key(file, "again", [Scope.RECOMMEND])
    ring.reload()
    assert ring.authenticate(again) is not None
    assert events == [("keys taken", {"keys": count}) for count in (1, 0, 1)]


FAULTS = {
    "missing": lambda file: file.unlink(),
    "not keys": lambda file: file.write_text("nonsense"),
    "open to others": lambda file: file.chmod(0o604),
    "unreadable for a moment": lambda file: None,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_while_a_file_cannot_be_used_no_key_is_valid(tmp_path, monkeypatch, fault):
    """Nobody can tell which keys it would have removed."""
    file, events = tmp_path / "keys.json", []
    key = add_key(file, "shop", [Scope.PAGE])
    ring, good = KeyRing(file, lambda event, **facts: events.append(event)), file.read_bytes()
    with monkeypatch.context() as patch:
        FAULTS[fault](file)
        if fault == "unreadable for a moment":
            patch.setattr("pricdr.serving.keys.read_bounded", too_many_open_files)
        ring.reload()
        ring.reload()
        assert ring.authenticate(key) is None
        assert events == ["keys refused"]
        with pytest.raises(InputError):
            KeyRing(file)
    file.write_bytes(good)
    file.chmod(0o600)
    ring.reload()
    assert ring.authenticate(key) is not None
    assert events == ["keys refused", "keys taken"]


def too_many_open_files(path, *, limit):
    raise OSError(24, "Too many open files")


ONE = {"sha256": "0" * 64, "scopes": ["page"], "created": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "not a file of keys"),
        ("{", "not a file of keys"),
        ("{}", "holds no keys"),
        (json.dumps({"a b": ONE}), "a b"),
        (json.dumps({"one": ONE | {"more": 1}}), "one.more"),
        (json.dumps({"one": ONE | {"scopes": []}}), "one.scopes"),
        (json.dumps({"one": ONE | {"expires": "2030-01-01T00:00:00"}}), "timezone"),
    ],
)
def test_a_file_that_holds_no_keys_is_refused(tmp_path, content, message):
    file = tmp_path / "keys.json"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(InputError, match=message):
        KeyRing(file)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ä", "x" * 65, "a\n", "shop"])
def test_names_that_would_not_travel_in_a_header_or_exist_are_refused(tmp_path, name):
    add_key(tmp_path / "keys.json", "shop", [Scope.PAGE])
    with pytest.raises(ParameterError, match="already" if name == "shop" else "the name of a key"):
        add_key(tmp_path / "keys.json", name, [Scope.PAGE])
    with pytest.raises(InputError, match="cannot be read"):
        remove_key(tmp_path / "nowhere.json", "shop")
