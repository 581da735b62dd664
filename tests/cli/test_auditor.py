"""What the target party and its auditor run: ``keygen``, ``verify``, ``inspect``, ``export``, ``revoke``."""

import json
import shutil

import pytest

from pricdr.signing import fingerprint, read_public_key
from tests.settings import config


@pytest.fixture
def signed(here, pricdr, ratings, publish):
    """A key and a release that it signed, with an issuer."""
    assert pricdr("keygen", "--out", "key").code == 0
    assert publish(ratings, "--sign", "key", *config(issuer="Films & Co."), out="signed").code == 0
    return here / "signed"


@pytest.fixture
def key_fingerprint(here, signed):
    return fingerprint(read_public_key(here / "key.pub"))


def test_keygen_says_what_to_keep_what_to_hand_out_and_its_fingerprint(here, pricdr):
    said, shown = pricdr("keygen", "--out", "my keys/source").out.splitlines()
    assert said == "private key my keys/source (keep it), public key my keys/source.pub (hand it out)"
    assert shown == f"fingerprint: {fingerprint(read_public_key(here / 'my keys' / 'source.pub'))}"


def test_a_signed_release_verifies_and_a_key_that_nobody_gave_vouches_for_nothing(signed, key_fingerprint, pricdr):
    assert "signed by the given key" in pricdr("verify", signed, "--public-key", "key.pub").out
    unasked = pricdr("verify", signed)
    assert unasked.code == 0
    assert "a key nobody vouched for" in unasked.out
    assert f"fingerprint of the key: {key_fingerprint}" in unasked.out


def test_an_export_is_of_a_release_that_verifies(here, release, pricdr, refused):
    outcome = pricdr("export", release, "--out", "rows.parquet")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("wrote rows.parquet: ")
    refused("export", release, "--out", "rows.parquet", says="exists already")
    (release / "users.txt").write_text("alice\nbob\ncarl\n")
    refused("export", release, "--out", "other.parquet", says="users.txt was changed", code=1)
    assert not (here / "other.parquet").exists()


# inspect


def test_json_and_page_hold_everything_that_the_screen_shows(pricdr, here, signed, key_fingerprint, refused):
    outcome = pricdr("inspect", signed, "--json", "-", "--public-key", "key.pub", "--html", "found/it.html")
    assert outcome.code == 0, outcome.err
    content, screen = json.loads(outcome.out), " ".join(outcome.err.split()).replace("- ", "")
    assert max(map(len, outcome.err.splitlines())) <= 100
    assert "epsilon = 4, delta = 1e-06 and mu = 0.8379, for one rating" in screen
    assert "verified: files, figures and promise agree" in screen
    for section in content["sections"]:
        for line in (section["title"], *section["lines"]):
            assert " ".join(line.split()).replace("- ", "") in screen
    assert (content["layout_version"], content["issuer"], content["verified"]) == (1, "Films & Co.", True)
    key = content["certificate"]["signed_by"]
    assert content["signature"] == {"public_key": key, "fingerprint": key_fingerprint, "given": True}
    page = (here / "found" / "it.html").read_text()
    for shown in (key_fingerprint, "Films &amp; Co.", "data:image/svg+xml"):
        assert shown in page
    assert pricdr("inspect", signed, "--json", "it.json", "--html", "it.html").code == 0
    assert json.loads((here / "it.json").read_text())["signature"]["given"] is False
    assert "a key that nobody vouched for here" in (here / "it.html").read_text()
    refused("inspect", signed, "--html", "it.html", says="exists already")


def test_inspecting_two_exits_with_0_1_and_2(pricdr, publish, ratings, signed, key_fingerprint, here):
    shutil.copytree(signed, here / "copy")
    same = pricdr("inspect", "signed", "copy")
    assert (same.code, same.err) == (0, "")
    assert "no difference" in same.out
    (here / "users.txt").write_text("alice\nbob\nzoe\n")
    assert publish(ratings, "--epsilon", 2, "--dim", 4, "--users", "users.txt", out="other").code == 0
    found = pricdr("inspect", "signed", "other", "--json", "-")
    assert found.code == 1
    changes = ("epsilon: 4 -> 2", "issuer: Films & Co. -> none", f"signed_by: SHA-256 {key_fingerprint} -> none")
    users, rows = "users: 2 in both, 1 added, 1 removed", "rows: other numbers"
    assert {*(f"  {change}" for change in changes), users, rows, "budget: the same"} <= set(found.err.split("\n"))
    content = json.loads(found.out)
    assert list(content) == [
        "before",
        "after",
        "layout_version",
        "same",
        "same_matrix",
        "sentences",
        "users",
        "changes",
    ]
    changed = {change["field"]: (change["before"], change["after"]) for change in content["changes"]}
    assert (changed["dim"], changed["signed_by"][1]) == ((8, 4), None)
    (here / "copy" / "README.md").write_text("all is well")
    broken = pricdr("inspect", "signed", "copy")
    assert (broken.code, broken.err.count("\n"), broken.out) == (2, 1, "")
    assert "copy does not verify, so there is nothing to compare" in broken.err


def test_inspecting_two_shows_where_long_texts_differ_and_calls_no_limit_none(publish, ratings, pricdr):
    assert publish(ratings, "--epsilon", 1, out="rows").code == 0
    assert publish(ratings, "--epsilon", 8, "--values", "--rating-bound", 5, "--rating-step", 1, out="values").code == 0
    lines = pricdr("inspect", "rows", "values").out.split("\n")
    after = lines[lines.index("  neighbours:") :]
    assert "[0, 1]" in "".join(after[1:3])
    assert "[0, 5]" in "".join(after[3:5])
    worst = [line for line in lines if "_at_worst: " in line]
    assert any(line.endswith(" -> without limit") for line in worst)
    assert not any("none" in line for line in worst)


# revoke, and who heeds it


@pytest.fixture
def revoked(pricdr, signed):
    outcome = pricdr("revoke", "signed", "--key", "key", "--reason", "wrong user list", "--out", "notices")
    assert outcome.code == 0, outcome.err
    return signed


def test_a_revoked_release_fails_to_verify_and_is_not_trained_with(revoked, refused, ratings, pricdr, publish):
    says = ("the release was revoked on", 'for this reason: "wrong user list"')
    refused("verify", revoked, "--revocations", "notices", says=says, code=1)
    assert pricdr("verify", revoked).code == 0
    train = ("train", ratings, "--out", "model", "--method", "ease-release")
    refused(*train, "--release", revoked, "--revocations", "notices", says="was revoked on", code=1)
    alone = ("train", ratings, "--out", "model", "--method", "popularity")
    refused(*alone, "--revocations", "notices", says="--revocations takes back releases that verify")
    unverified = ("--release", revoked, "--allow-unverified", "--revocations", "notices")
    refused(*train, *unverified, says="--revocations takes back releases that verify")
    assert publish(ratings, "--sign", "key", out="next").code == 0
    assert pricdr(*train, "--release", "next", "--revocations", "notices").code == 0


def test_what_does_not_count_is_warned_of_and_bounded(revoked, pricdr, here):
    for number in range(8):
        (here / "notices" / f"{number}\x1b[2J.revocation").write_text("junk")
    (here / "notices" / "README.md").write_text("not a notice, and not called one")
    assert pricdr("verify", revoked, "--revocations", "notices").code == 1, "a crowd of junk hides nothing"
    for notice in (here / "notices").glob("?" * 64 + ".revocation"):
        notice.unlink()
    outcome = pricdr("verify", revoked, "--revocations", "notices")
    assert (outcome.code, outcome.err.count("warning: notices: ")) == (0, 6)
    assert "3 more were ignored" in outcome.err
    assert "\x1b" not in outcome.err
    assert "no notice in notices revokes it (0 read)" in outcome.out
