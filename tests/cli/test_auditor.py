"""What an auditor runs: ``inspect --json`` and ``--html``, ``revoke``, ``verify --revocations``."""

import json
import shutil

import pytest

from pricdr.signing import fingerprint, read_public_key
from tests.settings import config

HOSTILE = "\x1b[2J"


@pytest.fixture
def signed(here, pricdr, ratings, publish):
    """A key and a release that it signed, with an issuer."""
    assert pricdr("keygen", "--out", "key").code == 0
    assert publish(ratings, "--sign", "key", *config(issuer="Films & Co."), out="signed").code == 0
    return here / "signed"


@pytest.fixture
def key_fingerprint(here, signed):
    return fingerprint(read_public_key(here / "key.pub"))


# keygen, verify, inspect


def test_json_holds_everything_that_the_screen_shows(pricdr, signed, key_fingerprint):
    outcome = pricdr("inspect", signed, "--json", "-", "--public-key", "key.pub")
    assert outcome.code == 0
    content = json.loads(outcome.out)
    screen = " ".join(outcome.err.split())
    for section in content["sections"]:
        for line in (section["title"], *section["lines"]):
            assert " ".join(line.split()) in screen.replace("- ", "")
    assert (content["layout_version"], content["issuer"], content["verified"]) == (1, "Films & Co.", True)
    assert content["signature"] == {
        "public_key": content["certificate"]["signed_by"],
        "fingerprint": key_fingerprint,
        "given": True,
    }
    assert "verified: files, figures and promise agree" in outcome.err


def test_json_and_page_go_into_new_files(pricdr, here, signed, key_fingerprint, refused):
    outcome = pricdr("inspect", signed, "--json", "found/it.json", "--html", "found/it.html")
    assert outcome.code == 0, outcome.err
    assert "What is promised" in outcome.out
    assert json.loads((here / "found" / "it.json").read_text())["signature"]["given"] is False
    page = (here / "found" / "it.html").read_text()
    for shown in (key_fingerprint, "Films &amp; Co.", "data:image/svg+xml", "a key that nobody vouched for here"):
        assert shown in page
    refused("inspect", signed, "--html", "found/it.html", says="exists already")
    refused("inspect", signed, "--json", "found/it.json", says="exists already")


# two releases


def test_inspecting_two_exits_with_0_1_and_2(pricdr, publish, ratings, signed, here):
    shutil.copytree(signed, here / "copy")
    same = pricdr("inspect", "signed", "copy")
    assert (same.code, same.err) == (0, "")
    assert "no difference" in same.out
    (here / "users.txt").write_text("alice\nbob\nzoe\n")
    assert publish(ratings, "--epsilon", 2, "--users", "users.txt", out="other").code == 0
    found = pricdr("inspect", "signed", "other")
    assert (found.code, found.err) == (1, "")
    for line in (
        "  epsilon: 4 -> 2",
        "users: 2 in both, 1 added, 1 removed",
        "  issuer: Films & Co. -> none",
        "budget: the same",
        "rows: other numbers",
    ):
        assert line in found.out.split("\n")
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


def test_inspecting_two_for_programs(pricdr, publish, ratings, signed, key_fingerprint):
    assert publish(ratings, "--dim", 4, out="other").code == 0
    outcome = pricdr("inspect", "signed", "other", "--json", "-")
    assert outcome.code == 1
    content = json.loads(outcome.out)
    assert list(content) == [
        *("before", "after", "layout_version", "same", "same_matrix", "sentences", "users", "changes"),
    ]
    changes = {change["field"]: (change["before"], change["after"]) for change in content["changes"]}
    assert changes["dim"] == (8, 4)
    assert changes["signed_by"][1] is None
    assert f"signed_by: SHA-256 {key_fingerprint} -> none" in outcome.err


# revoke, and who heeds it


@pytest.fixture
def revoked(pricdr, signed):
    outcome = pricdr("revoke", "signed", "--key", "key", "--reason", "wrong user list", "--out", "notices")
    assert outcome.code == 0, outcome.err
    return signed


def test_a_revoked_release_fails_to_verify_in_one_line(revoked, refused, pricdr):
    says = ("the release was revoked on", 'for this reason: "wrong user list"')
    refused("verify", revoked, "--revocations", "notices", says=says, code=1)
    assert pricdr("verify", revoked).code == 0


def test_train_heeds_notices_too(revoked, refused, ratings, pricdr, publish):
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
        (here / "notices" / f"{number}{HOSTILE}.revocation").write_text("junk")
    assert pricdr("keygen", "--out", "another").code == 0
    (here / "notices" / "README.md").write_text("not a notice, and not called one")
    outcome = pricdr("verify", revoked, "--revocations", "notices")
    assert outcome.code == 1, "a crowd of junk hides nothing"
    for notice in (here / "notices").glob("?" * 64 + ".revocation"):
        notice.unlink()
    outcome = pricdr("verify", revoked, "--revocations", "notices")
    assert outcome.code == 0
    assert outcome.err.count("warning: notices: ") == 6
    assert "3 more were ignored" in outcome.err
    assert "\x1b" not in outcome.err
    assert "no notice in notices revokes it (0 read)" in outcome.out
