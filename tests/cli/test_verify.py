"""``keygen``, ``verify`` and ``inspect``: what the target party runs."""

import json
import os
import re
import shutil
import stat

import pytest


@pytest.fixture
def keys(here, pricdr):
    assert pricdr("keygen", "--out", "key").code == 0
    return here / "key", here / "key.pub"


@pytest.fixture
def signed(here, ratings, publish, keys):
    assert publish(ratings, "--sign", keys[0], out="signed").code == 0
    return here / "signed"


def flip(file, at=0):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def test_keygen_makes_a_pair_only_its_owner_can_read(here, pricdr):
    old = os.umask(0)
    try:
        outcome = pricdr("keygen", "--out", "my keys/source")
    finally:
        os.umask(old)
    assert outcome.code == 0
    said, shown = outcome.out.splitlines()
    assert said == "private key my keys/source (keep it), public key my keys/source.pub (hand it out)"
    assert re.fullmatch("fingerprint: [0-9a-f]{64}", shown)
    private, public = here / "my keys" / "source", here / "my keys" / "source.pub"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert "PRIVATE KEY" in private.read_text()
    assert "PUBLIC KEY" in public.read_text()
    assert "PRIVATE" not in public.read_text()
    assert sorted(path.name for path in private.parent.iterdir()) == ["source", "source.pub"]


@pytest.mark.parametrize("gone", ["key", "key.pub", None])
def test_keygen_never_overwrites(refused, keys, gone):
    for file in keys:
        if file.name == gone:
            file.unlink()
    refused("keygen", "--out", "key", says=("key", "exists already"))


def test_a_good_release_verifies_with_exit_0(release, pricdr):
    outcome = pricdr("verify", release)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("ok: Release(3 users x 8, spectral, epsilon=4, delta=1e-06 per rating)")
    assert "not signed" in outcome.out


def test_a_signed_release_verifies_with_the_right_key(signed, keys, pricdr):
    assert "signed by the given key" in pricdr("verify", signed, "--public-key", keys[1]).out
    unasked = pricdr("verify", signed)
    assert unasked.code == 0
    assert "a key nobody vouched for" in unasked.out


def test_a_wrong_key_fails_with_exit_1(here, signed, pricdr, refused):
    pricdr("keygen", "--out", "other")
    refused("verify", signed, "--public-key", "other.pub", says="a key other than", code=1)


def test_a_release_without_a_signature_fails_where_one_is_required(release, keys, refused):
    refused("verify", release, "--public-key", keys[1], says="not signed", code=1)


def test_a_signature_that_is_gone_or_changed_fails_with_exit_1(signed, keys, refused):
    signature = signed / "certificate.json.sig"
    content = signature.read_bytes()
    for broken in (content[:-1], content + b"\n", b"", b"A" + content[1:], content.upper()):
        if broken != content:
            signature.write_bytes(broken)
            refused("verify", signed, "--public-key", keys[1], says="certificate.json.sig", code=1)
            refused("verify", signed, says="certificate.json.sig", code=1)
    signature.unlink()
    refused("verify", signed, says=("certificate.json.sig", "missing"), code=1)


def test_a_key_file_that_is_none_is_exit_2(signed, keys, refused):
    refused("verify", signed, "--public-key", "nowhere.pub", says=("nowhere.pub", "No such file"))
    refused("verify", signed, "--public-key", keys[0], says="public key")
    refused("verify", signed, "--public-key", signed, says="directory")


def test_no_such_folder_is_exit_2(here, ratings, refused):
    for command in ("verify", "inspect"):
        refused(command, "nowhere", says=("nowhere", "no such folder"))
        refused(command, ratings, says=("ratings.csv", "it is not a folder"))
        refused(command, "x" * 5000)


@pytest.mark.parametrize("command", ["verify", "inspect"])
@pytest.mark.parametrize("name", ["release.safetensors", "users.txt", "README.md", "certificate.json"])
def test_a_changed_or_missing_file_is_exit_1_with_the_reason(release, refused, command, name):
    flip(release / name, at=-2)
    refused(command, release, says=name, code=1)
    (release / name).unlink()
    refused(command, release, says=(name, "missing"), code=1)


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_a_folder_that_is_no_release_is_exit_1(here, release, refused, command):
    (here / "empty").mkdir()
    refused(command, "empty", says=("certificate.json", "missing"), code=1)
    shutil.copytree(release, here / "more")
    (here / "more" / "extra.txt").write_text("hello")
    refused(command, "more", says="extra.txt", code=1)
    for content in (b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema_version": 99}'):
        (here / "empty" / "certificate.json").write_bytes(content)
        refused(command, "empty", says="certificate.json", code=1)


def test_an_unknown_schema_version_is_exit_1(release, refused):
    certificate = json.loads((release / "certificate.json").read_text())
    (release / "certificate.json").write_text(json.dumps({**certificate, "schema_version": 5}))
    refused("verify", release, says=("schema_version 5", "knows 6"), code=1)


def test_a_certificate_that_promises_more_is_exit_1(release, refused):
    text = (release / "certificate.json").read_text()
    assert '"epsilon": 4.0' in text
    (release / "certificate.json").write_text(text.replace('"epsilon": 4.0', '"epsilon": 3.9', 1))
    refused("verify", release, says="certificate.json", code=1)


def test_inspect_tells_a_privacy_officer_what_is_promised(release, pricdr):
    outcome = pricdr("inspect", release)
    assert (outcome.code, outcome.err) == (0, "")
    for words in (
        "What is promised",
        "epsilon = 4 and delta = 1e-06, for one rating",
        "What is not protected",
        "Who has ratings at all",
        "Budget",
        "No ledger",
        "verified: files, figures and promise agree",
    ):
        assert words in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 100


def test_inspect_says_first_that_a_test_release_is_not_private(here, ratings, publish, pricdr):
    publish(ratings, "--insecure-seed", 1)
    top = pricdr("inspect", "release").out.split("\n\n")[0]
    assert "NOT PRIVATE" in top


def test_a_copied_release_still_verifies_under_another_name(here, signed, keys, pricdr):
    shutil.copytree(signed, here / "received [copy]s")
    shutil.move(here / "received [copy]s", here / "received")
    assert pricdr("verify", "received", "--public-key", keys[1]).code == 0


def test_an_export_is_of_a_release_that_verifies(here, release, pricdr, refused):
    outcome = pricdr("export", release, "--out", "rows.parquet")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("wrote rows.parquet: ")
    refused("export", release, "--out", "rows.parquet", says="exists already")
    flip(release / "users.txt", at=-2)
    refused("export", release, "--out", "other.parquet", says="users.txt was changed", code=1)
