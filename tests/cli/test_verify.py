"""``keygen``, ``verify`` and ``inspect``: what the target party runs."""

import os
import re
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


def test_a_signed_release_verifies_with_the_right_key(signed, keys, pricdr):
    assert "signed by the given key" in pricdr("verify", signed, "--public-key", keys[1]).out
    unasked = pricdr("verify", signed)
    assert unasked.code == 0
    assert "a key nobody vouched for" in unasked.out


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


def test_an_export_is_of_a_release_that_verifies(here, release, pricdr, refused):
    outcome = pricdr("export", release, "--out", "rows.parquet")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("wrote rows.parquet: ")
    refused("export", release, "--out", "rows.parquet", says="exists already")
    flip(release / "users.txt", at=-2)
    refused("export", release, "--out", "other.parquet", says="users.txt was changed", code=1)
