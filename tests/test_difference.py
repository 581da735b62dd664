"""What changed between two releases: every field, the users and the rows."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pricdr import JLT, SJLT, Bounds, Guarantee, Ratings, publish, verify
from pricdr.release.certificate import Certificate
from pricdr.release.difference import GROUPS, difference

USERS = ["a", "b", "c", "d"]
RATINGS = Ratings.from_triples(USERS, ["x", "y", "x", "z"])
PROMISE = Guarantee(epsilon=4, delta=1e-6)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def saved(tmp_path):
    """Publish, save and verify."""

    def run(name, key=None, **options):
        given = {"strategy": JLT(dim=4), "users": USERS, "promise": PROMISE, **options}
        release = publish(RATINGS, given.pop("promise"), **given)
        return verify(release.save(tmp_path / name, signing_key=key))

    return run


def fields(found):
    return {change.field: (change.before, change.after) for change in found.changes}


def test_a_release_does_not_differ_from_itself(saved):
    one = saved("one")
    found = difference(one, one)
    assert found.same
    assert found.same_matrix
    assert not found.changes
    assert found.to_dict()["same"] is True


def test_two_publications_of_the_same_ratings_differ_in_their_noise_alone(saved):
    found = difference(saved("one"), saved("two"))
    assert not found.same
    assert not found.same_matrix
    assert set(fields(found)) == {"files.release.safetensors"}


def test_the_same_matrix_signed_later_differs_in_key_and_nothing_else(saved, tmp_path):
    one = saved("one")
    again = verify(one.save(tmp_path / "again", signing_key=KEY))
    found = difference(one, again)
    assert (found.same, found.same_matrix) == (False, True)
    assert set(fields(found)) == {"signed_by"}


CHANGES = {
    "epsilon": ({"promise": Guarantee(epsilon=2, delta=1e-6)}, {"epsilon", "sigma", "mu"}),
    "delta": ({"promise": Guarantee(epsilon=4, delta=1e-7)}, {"delta", "sigma"}),
    "unit": ({"promise": Guarantee(epsilon=4, delta=1e-6, unit="user"), "bounds": Bounds(clip=2.0)}, {"unit"}),
    "strategy": ({"strategy": SJLT(dim=4), "items": ["x", "y"]}, {"strategy.name", "items", "input.item_universe"}),
    "dim": ({"strategy": JLT(dim=6)}, {"dim", "steps.0.numbers"}),
    "issuer": ({"issuer": "Films"}, {"issuer"}),
    "key": ({"key": KEY}, {"signed_by"}),
    "list": ({"users": None}, {"input.user_list", "not_protected"}),
    "private": ({"insecure_seed": 1}, {"private", "noise.source"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_named(saved, name):
    options, expected = CHANGES[name]
    found = difference(saved("one"), saved("two", **options))
    assert expected <= set(fields(found))
    assert not found.same


def test_users_are_counted(saved):
    one = saved("one")
    assert vars(difference(one, saved("two", users=["b", "a", "e"])).users) == {
        **{"kept": 2, "added": 1, "removed": 2, "reordered": True},
    }
    assert not difference(one, saved("three", users=["a", "c", "e"])).users.reordered


def test_a_sentence_that_goes_does_not_make_the_others_look_new(saved):
    found = difference(saved("one", users=None), saved("two", users=USERS))
    sentences = [(change.before, change.after) for change in found.changes if change.field == "not_protected"]
    assert len(sentences) == 2
    assert sentences[0][0].startswith("Who has ratings at all")
    assert sentences[1][1].startswith("The user list itself")


def test_it_reads_backwards_as_forwards(saved):
    one, two = saved("one"), saved("two", promise=Guarantee(epsilon=2, delta=1e-6), users=["a"])
    there, back = difference(one, two), difference(two, one)
    assert {field: pair[::-1] for field, pair in fields(there).items() if field != "not_protected"} == {
        field: pair for field, pair in fields(back).items() if field != "not_protected"
    }
    assert (there.users.added, there.users.removed) == (back.users.removed, back.users.added)


def test_every_field_of_a_certificate_is_compared():
    """A field that somebody adds must be put into a group, or two releases that differ in it would look the same."""
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(Certificate.model_fields)


def test_only_verified_releases_are_compared(saved):
    one = saved("one")
    with pytest.raises(AssertionError):
        difference(one, replace(one, verified=False))
