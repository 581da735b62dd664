"""Revocation notices: the key that signed a release can take it back, and nobody else can."""

import json
import os
import re
import warnings

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pricdr import Guarantee, Ratings, Release, publish, verify
from pricdr.errors import InputError, OutputError, ParameterError, VerificationError
from pricdr.release import revocation
from pricdr.release.certificate import Certificate
from pricdr.release.revocation import FIRST_LINE, MAX_NOTICE, Notice, require_not_revoked, revoke
from pricdr.signing import create_keys, is_signed_by, public_text, read_private_key, sign
from pricdr.strategies import JLT

STRANGER = Ed25519PrivateKey.from_private_bytes(b"stranger's key, which is public.")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A key, and releases of the same ratings: two that it signed, and one that nobody did."""
    folder = tmp_path_factory.mktemp("made")
    create_keys(folder / "key")
    create_keys(folder / "other")
    ratings = Ratings.from_triples(["a", "b", "b"], ["x", "x", "y"])
    for name, key in (("one", "key"), ("two", "key"), ("unsigned", None)):
        release = publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=2), users=["a", "b"])
        release.save(folder / name, signing_key=None if key is None else folder / key)
    return folder


@pytest.fixture
def notices(made, tmp_path):
    """A folder with a notice about release one."""
    revoke(made / "one", key=made / "key", reason="wrong user list", out=tmp_path / "notices")
    return tmp_path / "notices"


def notice_of(made, **changes):
    release = verify(made / "one")
    content = {"release": release.sha256(), "reason": "because", "revoked": "2026-01-02"}
    return Notice(**{**content, "signed_by": release.certificate.signed_by, **changes})


def test_a_notice_takes_one_release_back_whatever_its_file_is_called_and_no_other(made, notices, tmp_path):
    before = {path.name: path.read_bytes() for path in (made / "one").iterdir()}
    with pytest.raises(VerificationError, match=r'was revoked on \d{4}-\d\d-\d\d by .*: "wrong user list"'):
        verify(made / "one", revocations=notices)
    with pytest.raises(VerificationError, match="was revoked"):
        Release.load(made / "one", revocations=notices)
    assert verify(made / "two", revocations=notices).verified
    assert verify(made / "one").verified, "without notices it verifies as ever"
    assert {path.name: path.read_bytes() for path in (made / "one").iterdir()} == before
    (file,) = notices.iterdir()
    assert file.name == f"{verify(made / 'one').sha256()}.revocation"
    file.rename(notices / "renamed.revocation")
    again = verify(made / "one").save(tmp_path / "again", signing_key=made / "key")
    with pytest.raises(VerificationError, match="was revoked"):
        verify(again, revocations=notices)


def test_a_notice_by_another_key_than_the_release_s_draws_a_warning(made, notices, tmp_path):
    stripped = verify(made / "one").save(tmp_path / "stripped")
    with pytest.warns(UserWarning, match="names this release and was ignored: another key signed it"):
        assert verify(stripped, revocations=notices).verified
    # A stranger's notice about the signed one is ignored in the same words.
    (tmp_path / "x.revocation").write_bytes(
        notice_of(made, signed_by=public_text(STRANGER.public_key())).signed(STRANGER)
    )
    count, remarks = require_not_revoked(verify(made / "one"), tmp_path)
    assert count == 1
    assert remarks == ["x.revocation names this release and was ignored: another key signed it"]


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"key": "other"}, InputError, r"other did not sign .*one: the key that did has the fingerprint [0-9a-f]{64}"),
        ({"release": "unsigned"}, InputError, "unsigned is not signed"),
        ({"out": "notices"}, OutputError, "exists already"),
        *(
            ({"out": f"made/{out}"}, OutputError, "put it beside releases")
            for out in ("one", "two/notices", "one/../two")
        ),
        ({"out": "link"}, OutputError, "put it beside releases"),
        *(
            ({"reason": reason}, ParameterError, "reason must be 1 to 400 printable characters")
            for reason in ("", " ", "x" * 401, "a\nb", "\x1b[2J", "\u202eab", " a", "\ud800")
        ),
    ],
    ids=repr,
)
def test_only_the_key_that_signed_can_revoke_once_beside_releases_and_for_a_reason(made, notices, changes, error, says):
    folder = notices.parent
    (folder / "made").symlink_to(made)
    (folder / "link").symlink_to(made / "one")
    before = sorted(made.rglob("*")), sorted(notices.rglob("*"))
    given = {"release": "one", "key": "key", "reason": "because", "out": "new", **changes}
    with pytest.raises(error, match=says):
        revoke(made / given["release"], key=made / given["key"], reason=given["reason"], out=folder / given["out"])
    assert (sorted(made.rglob("*")), sorted(notices.rglob("*"))) == before
    assert not (folder / "new").exists()


def test_unverified_and_revocations_exclude_each_other(made, notices):
    with pytest.raises(ParameterError, match="not both"):
        Release.load(made / "one", revocations=notices, allow_unverified=True)


# A signature of the one kind is never one of the other.


def test_no_signed_certificate_is_a_notice(made, tmp_path):
    raw, signature = ((made / "one" / name).read_bytes() for name in ("certificate.json", "certificate.json.sig"))
    for content in (raw + signature, FIRST_LINE + raw + signature, signature, raw):
        with pytest.raises(VerificationError):
            Notice.from_bytes(content)


def test_no_notice_is_a_certificate(made):
    key = read_private_key(made / "key")
    message = notice_of(made).message()
    assert message.startswith(b"pricdr revocation notice 1\n")
    assert verify(made / "one").certificate.to_bytes()[:1] == b"{", "their first bytes differ, whatever they say"
    with pytest.raises(VerificationError, match="not JSON"):
        Certificate.from_bytes(message)
    # Nor does its body, taken alone, have a signature: what was signed begins with the first line.
    raw = notice_of(made).signed(key)
    signature = raw.split(b"\n")[-2] + b"\n"
    assert is_signed_by(key.public_key(), message, signature)
    assert not is_signed_by(key.public_key(), message.removeprefix(FIRST_LINE), signature)


# Whatever lies in the folder


def hostile(made):
    key = read_private_key(made / "key")
    honest = notice_of(made).signed(key)
    body = json.loads(notice_of(made).message().removeprefix(FIRST_LINE))

    def signed(text):
        message = FIRST_LINE + text
        return message + sign(key, message)

    def written(**changes):
        return signed((json.dumps({**body, **changes}, indent=2) + "\n").encode())

    return {
        "nothing": b"",
        "first line alone": FIRST_LINE,
        "junk": os.urandom(500),
        "deep": signed(b"[" * 3000 + b"\n"),
        "a list": signed(b"[]\n"),
        "no end of line": honest[:-1],
        "one more": honest + b"\n",
        "windows": honest.replace(b"\n", b"\r\n"),
        "compact": signed(json.dumps(body).encode() + b"\n"),
        "a key twice": signed(notice_of(made).message().removeprefix(FIRST_LINE)[:-3] + b',\n  "reason": "x"\n}\n'),
        "another version": written(notice_version=2),
        "version true": written(notice_version=True),
        "a huge number": signed(b'{"notice_version": ' + b"9" * 6000 + b"}\n"),
        "a field more": written(more=1),
        "control characters": written(reason="\x1b[2J"),
        "reversed text": written(reason="\u202eab"),
        "a lone surrogate": written(reason="\ud800"),
        "no day": written(revoked="2026-02-30"),
        "no hash": written(release="../../etc/passwd"),
        "no key": written(signed_by="A" * 43 + "!"),
        "changed": honest.replace(b"because", b"becouse"),
        "unsigned": notice_of(made).message() + b"\n",
        "too large": honest + b" " * MAX_NOTICE,
    }


def test_a_malformed_notice_revokes_nothing_and_is_warned_of(made, tmp_path):
    """Most of these are signed by the right key: only a notice in its one spelling counts."""
    for name, content in hostile(made).items():
        (tmp_path / "x.revocation").write_bytes(content)
        count, remarks = require_not_revoked(verify(made / "one"), tmp_path)
        assert count == 0, name
        (remark,) = remarks
        assert remark.startswith("x.revocation is no notice and was ignored: "), name
        assert remark.isprintable(), name
        assert len(remark) < 300, name


def test_links_pipes_and_folders_are_not_followed(made, notices, tmp_path):
    (honest,) = notices.iterdir()
    folder = tmp_path / "hostile"
    (folder / "folder.revocation").mkdir(parents=True)
    (folder / "link.revocation").symlink_to(honest)
    os.mkfifo(folder / "pipe.revocation")
    (folder / "zero.revocation").symlink_to("/dev/zero")
    (folder / b"\xff\x1b[2J.revocation".decode(errors="surrogateescape")).write_bytes(b"x")
    count, remarks = require_not_revoked(verify(made / "one"), folder)
    assert count == 0
    assert len(remarks) == 5
    assert all(remark.isprintable() for remark in remarks)
    assert any(re.search(r"link.revocation cannot be read: it is a link", remark) for remark in remarks)


def test_a_notice_that_cannot_be_read_is_a_refusal_because_it_might_count(made, notices, monkeypatch):
    opened = os.open

    def denied(path, *arguments, **options):
        if str(path).endswith(".revocation"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr("pricdr.untrusted.os.open", denied)
    with pytest.raises(VerificationError, match="cannot be read: Permission denied, and it may be the notice"):
        verify(made / "two", revocations=notices)


def test_other_files_and_files_being_written_are_not_read(made, notices):
    (notices / "README.md").write_text("about these notices")
    (notices / ".x.revocation").write_bytes(b"half a no")
    (notices / "x.revocation.partial").write_bytes(b"half a no")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verify(made / "two", revocations=notices).verified


def test_too_many_files_are_a_refusal_because_one_of_them_might_count(made, notices, monkeypatch):
    monkeypatch.setattr(revocation, "MAX_ENTRIES", 3)
    for name in "abcd":
        (notices / name).touch()
    for release in ("one", "two"):
        with pytest.raises(VerificationError, match="holds more than 3 entries"):
            verify(made / release, revocations=notices)
    assert revocation.MAX_NOTICE == 8192


def test_a_folder_that_is_not_there_is_named(made, tmp_path):
    with pytest.raises(InputError, match="nowhere is not a folder of revocation notices: no such folder"):
        verify(made / "one", revocations=tmp_path / "nowhere")
    with pytest.raises(InputError, match="it is not a folder"):
        verify(made / "one", revocations=made / "key")


def test_a_changed_byte_anywhere_is_noticed(made):
    raw = notice_of(made).signed(read_private_key(made / "key"))
    for at in range(len(raw)):
        with pytest.raises(VerificationError):
            Notice.from_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
