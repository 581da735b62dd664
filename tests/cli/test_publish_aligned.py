"""``publish --users`` with the record of ``align`` beside the list."""

import json

import pytest

from pricdr import verify
from tests.alignment.records import SESSION, write_list
from tests.data.kept import KEPT, keep
from tests.settings import config

USERS = ("alice", "bob", "dave")


@pytest.mark.parametrize("where", KEPT)
@pytest.mark.parametrize("options", [(), ("--threshold", 3), config(learn_from="all", buckets=64)], ids=str)
def test_the_session_is_in_the_certificate_wherever_ratings_are_kept(
    here, ratings, publish, monkeypatch, where, options
):
    keep(monkeypatch, where)
    write_list(here / "users.txt", USERS)
    outcome = publish(ratings, "--users", "users.txt", *options)
    assert outcome.code == 0, outcome.err
    assert f"users.txt came from align (session {SESSION}): the certificate says so" in outcome.out
    certificate = verify(here / "release").certificate
    assert certificate.input.alignment.session == SESSION
    assert certificate.users == len(USERS)


def test_inspect_states_the_alignment(here, ratings, publish, pricdr):
    write_list(here / "users.txt", USERS)
    assert publish(ratings, "--users", "users.txt").code == 0
    shown = " ".join(pricdr("inspect", "release", "--json", "i.json").out.split())
    assert "Where the user list came from - By the source's own account, a private set intersection" in shown
    assert "That everybody on the list is a user of two parties" in shown
    content = json.loads((here / "i.json").read_text())
    assert content["certificate"]["input"]["alignment"]["learnt_by"] == "both"


def test_a_dry_run_states_the_alignment(here, ratings, publish):
    write_list(here / "users.txt", USERS)
    assert "Where the user list came from" in publish(ratings, "--users", "users.txt", "--dry-run").out


def test_a_changed_list_is_refused_before_anything_is_read_or_spent(here, refused_publish):
    write_list(here / "users.txt", USERS[:2])
    record = here / "users.txt.alignment.json"
    (here / "users.txt").write_text("alice\nbob\ndave\n")
    refused_publish(
        "no such ratings.csv",
        says=("users.txt: this is not the list that align wrote", "give that list, unchanged", "without a record"),
    )
    record.write_text("{}")
    refused_publish("no such ratings.csv", says="users.txt.alignment.json: session: Field required")
    record.unlink()
    record.symlink_to(here / "nowhere")
    refused_publish("no such ratings.csv", says="users.txt.alignment.json: no such file")


def test_a_folder_is_refused_as_a_user_list(here, ratings, pricdr):
    outcome = pricdr("publish", ratings, "--epsilon", 4, "--delta", 1e-6, "--users", ".", "--out", "release")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert ".: this is a folder" in outcome.err


def test_line_endings_of_another_system_do_not_change_the_list(here, ratings, publish):
    write_list(here / "users.txt", USERS)
    (here / "users.txt").write_bytes(b"alice\r\nbob\r\ndave\r\n")
    assert publish(ratings, "--users", "users.txt").code == 0
    assert verify(here / "release").certificate.input.alignment is not None
