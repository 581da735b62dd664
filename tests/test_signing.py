"""Ed25519 keys and signatures: right key, right bytes, or nothing."""

import base64
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given, settings, strategies as st

from pricdr import Guarantee, Ratings, publish, signing
from pricdr.errors import InputError, OutputError, VerificationError
from pricdr.release.revocation import revoke
from pricdr.signing import (
    create_keys,
    fingerprint,
    is_signed_by,
    public_from_text,
    public_text,
    read_private_key,
    read_public_key,
    sign,
)
from pricdr.strategies import JLT

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
MESSAGE = b"the exact bytes of a certificate\n"
SIGNATURE = sign(KEY, MESSAGE)


def private_pem(key, encryption=None) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def public_pem(key) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(("name", "umask"), [("key.pem", 0o000), ("two words", 0o077), ("sub/[x] ünï", 0o000)])
def test_a_new_pair_signs_and_verifies_and_its_private_key_is_for_its_owner_alone(tmp_path, name, umask):
    old = os.umask(umask)
    try:
        private, public = create_keys(tmp_path / name)
    finally:
        os.umask(old)
    assert (private, public) == (tmp_path / name, tmp_path / f"{name}.pub")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    signature = sign(read_private_key(private), MESSAGE)
    assert is_signed_by(read_public_key(public), MESSAGE, signature) is True
    _, another = create_keys(tmp_path / "another")
    assert is_signed_by(read_public_key(another), MESSAGE, signature) is False


@pytest.mark.parametrize("taken", ["key", "key.pub"])
def test_nothing_is_overwritten(tmp_path, taken):
    (tmp_path / taken).write_text("precious")
    with pytest.raises(OutputError, match=f"{taken} exists already"):
        create_keys(tmp_path / "key")
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "precious"


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("error", [OutputError("disk full"), KeyboardInterrupt("disk full")], ids=repr)
def test_half_a_pair_is_never_left_and_does_not_hide_why(tmp_path, monkeypatch, error, gone):
    real = signing.write_new

    def failing(path, content, **options):
        if path.suffix == ".pub":
            if gone:
                (tmp_path / "key").unlink()
            raise error
        real(path, content, **options)

    monkeypatch.setattr(signing, "write_new", failing)
    with pytest.raises(type(error), match="disk full"):
        create_keys(tmp_path / "key")
    assert list(tmp_path.iterdir()) == []


def test_a_known_signature_still_verifies():
    """RFC 8032, section 7.1, test 2."""
    key = Ed25519PrivateKey.from_private_bytes(
        bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    )
    expected = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert sign(key, b"\x72") == base64.b64encode(expected) + b"\n"


@given(st.data())
@settings(max_examples=200)
def test_any_changed_byte_of_signature_or_message_is_noticed_and_other_bytes_are_no_signature(data):
    assert not is_signed_by(KEY.public_key(), MESSAGE, data.draw(st.binary(max_size=300)))
    other = Ed25519PrivateKey.from_private_bytes(data.draw(st.binary(min_size=32, max_size=32)))
    assert is_signed_by(other.public_key(), MESSAGE, SIGNATURE) == (other.private_bytes_raw() == bytes(range(32)))
    signature, message = bytearray(SIGNATURE), bytearray(MESSAGE)
    target = data.draw(st.sampled_from([signature, message]))
    at = data.draw(st.integers(0, len(target) - 1))
    target[at] ^= data.draw(st.integers(1, 255))
    assert not is_signed_by(KEY.public_key(), bytes(message), bytes(signature))


def test_only_the_exact_bytes_of_a_signature_count():
    raw = base64.b64decode(SIGNATURE)
    for other in (
        SIGNATURE.rstrip(),
        SIGNATURE + b"\n",
        b" " + SIGNATURE,
        SIGNATURE.replace(b"\n", b"\r\n"),
        base64.urlsafe_b64encode(raw) + b"\n" if b"+" in SIGNATURE or b"/" in SIGNATURE else b"",
        base64.b64encode(raw + b"\x00") + b"\n",
        base64.b64encode(raw[:-1]) + b"\n",
        raw,
        b"",
    ):
        assert not is_signed_by(KEY.public_key(), MESSAGE, other)
    assert is_signed_by(KEY.public_key(), MESSAGE, SIGNATURE)


@given(st.binary(min_size=32, max_size=32))
def test_a_public_key_survives_as_text(seed):
    key = Ed25519PrivateKey.from_private_bytes(seed).public_key()
    text = public_text(key)
    assert len(text) == 44
    assert public_text(public_from_text(text)) == text


@given(st.text(max_size=60))
def test_text_that_is_no_public_key_is_a_failed_check(text):
    if len(text.encode()) == 44 and text.endswith("="):
        return  # the right shape: a key perhaps
    with pytest.raises(VerificationError, match="signed_by"):
        public_from_text(text)


def test_keys_written_by_openssl_tools_are_read(tmp_path):
    (tmp_path / "key").write_bytes(b"a comment line\n" + private_pem(KEY))
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "pub").write_bytes(public_pem(KEY))
    assert read_private_key(tmp_path / "key").private_bytes_raw() == bytes(range(32))
    with pytest.raises(InputError, match="no usable private key"):
        read_private_key(tmp_path / "pub")
    with pytest.raises(InputError, match="no usable public key"):
        read_public_key(tmp_path / "key")
    assert public_text(read_public_key(tmp_path / "pub")) == public_text(KEY.public_key())


OTHER_KINDS = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "ecdsa": ec.generate_private_key(ec.SECP256R1()),
    "ed448": ed448.Ed448PrivateKey.generate(),
    "x25519": x25519.X25519PrivateKey.generate(),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_keys_of_another_kind_are_refused(tmp_path, kind):
    (tmp_path / "key").write_bytes(private_pem(OTHER_KINDS[kind]))
    (tmp_path / "pub").write_bytes(public_pem(OTHER_KINDS[kind]))
    with pytest.raises(InputError, match="key of another kind; Ed25519 is needed"):
        read_private_key(tmp_path / "key")
    with pytest.raises(InputError, match="key of another kind; Ed25519 is needed"):
        read_public_key(tmp_path / "pub")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk",
        b"\x00\xff" * 100,
        b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n",
        private_pem(KEY)[:60],
        private_pem(KEY, BestAvailableEncryption(b"password")),
        private_pem(KEY).replace(b"BEGIN", b"BEGAN"),
    ],
    ids=["empty", "junk", "binary", "hollow", "half", "encrypted", "misspelt"],
)
def test_a_file_that_holds_no_usable_key_is_refused(tmp_path, content):
    file = tmp_path / "the key"
    file.write_bytes(content)
    with pytest.raises(InputError, match="the key holds no usable private key") as caught:
        read_private_key(file)
    assert private_pem(KEY).splitlines()[1].decode() not in str(caught.value), "no message shows a key"
    with pytest.raises(InputError, match="the key holds no usable public key"):
        read_public_key(file)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o644, 0o666, 0o700, 0o400], ids=oct)
def test_a_private_key_that_others_can_read_or_write_is_refused(tmp_path, mode):
    private, public = create_keys(tmp_path / "the key")
    private.chmod(mode)
    if mode & 0o077 == 0:
        assert public_text(read_private_key(private).public_key()) == public_text(read_public_key(public))
        return
    with pytest.raises(InputError, match=rf"the key: mode {mode:04o} lets others .*: chmod 600 '.*/the key'$"):
        read_private_key(private)


def test_a_private_key_that_another_owner_handed_to_us_may_be_read_by_a_group(tmp_path, monkeypatch):
    """As systemd and containers hand over secrets: owned by root, with our group or an access list."""
    private, _ = create_keys(tmp_path / "key")
    monkeypatch.setattr(os, "geteuid", lambda: private.stat().st_uid + 1)
    for mode in (0o400, 0o440, 0o640):
        private.chmod(mode)
        read_private_key(private)
    for mode in (0o444, 0o644, 0o660, 0o602):
        private.chmod(mode)
        with pytest.raises(InputError, match="chmod 640"):
            read_private_key(private)


def test_a_key_that_is_not_there_or_longer_than_any_key_is_named(tmp_path):
    (tmp_path / "padded").write_bytes(private_pem(KEY) + b"\n" * (1 << 16))
    for reader in (read_private_key, read_public_key):
        with pytest.raises(InputError, match=r"cannot read key .*nowhere: No such file"):
            reader(tmp_path / "nowhere")
        with pytest.raises(InputError, match="padded has more than 65,536 bytes"):
            reader(tmp_path / "padded")
        with pytest.raises(InputError, match="Is a directory"):
            reader(tmp_path)


# without this software: the commands of docs/privacy-officer.md, run as they stand

PAGE = Path(__file__).parents[1] / "docs" / "privacy-officer.md"


def _openssl_3() -> bool:
    if shutil.which("openssl") is None or shutil.which("bash") is None:
        return False
    version = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False).stdout
    return re.match(r"OpenSSL ([3-9]|\d\d)\.", version) is not None


@pytest.mark.skipif(not _openssl_3(), reason="needs bash and OpenSSL 3 or newer: pkeyutl -rawin")
def test_every_command_says_what_pricdr_says_and_notices_a_change(tmp_path):
    _, public = create_keys(tmp_path / "company.key")
    ratings, promise = Ratings.from_triples(["a", "b"], ["x", "y"]), Guarantee(epsilon=4, delta=1e-6)
    folder = tmp_path / "movies.release"
    publish(ratings, promise, strategy=JLT(dim=2)).save(folder, signing_key=tmp_path / "company.key")
    revoke(folder, key=tmp_path / "company.key", reason="é", out=tmp_path / "notices")
    section = PAGE.read_text(encoding="utf-8").partition("## Check a signature without this software\n")[2]
    blocks = re.findall(r"(?:^ {4}.*\n)+", section.partition("\n## ")[0], re.MULTILINE)
    key, certificate, hashes, notice = (re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in blocks)

    def run(script):
        return subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    for script, says in (
        (key, fingerprint(read_public_key(public))),
        (certificate, "Signature Verified Successfully"),
        (hashes, ""),
        (notice, "Signature Verified Successfully"),
    ):
        done = run(script)
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
    found = re.findall(r"\b[0-9a-f]{64}\b", run(hashes).stdout)
    assert len(found) == 3
    assert all(value in (folder / "certificate.json").read_text() for value in found)
    (notified,) = (tmp_path / "notices").iterdir()
    for file, old, new, script in (
        (folder / "certificate.json", b'"epsilon": 4.0', b'"epsilon": 1.0', certificate),
        (notified, "é".encode(), b"ee", notice),
    ):
        assert old in file.read_bytes()
        file.write_bytes(file.read_bytes().replace(old, new))
        assert run(script).returncode != 0
