"""What changed between two releases: every field, the users and the rows."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pricdr import Bounds, Guarantee, Ratings, publish, verify
from pricdr.release.certificate import Certificate
from pricdr.release.inspection import COVERED, GROUPS, NO_LIMIT, difference
from pricdr.strategies import JLT, SJLT

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


def test_of_the_same_ratings_only_noise_and_key_differ(saved, tmp_path):
    one = saved("one")
    signed = verify(one.save(tmp_path / "again", signing_key=KEY))
    for other, same, same_matrix, changed in (
        (one, True, True, set()),
        (saved("two"), False, False, {"files.release.safetensors"}),
        (signed, False, True, {"signed_by"}),
    ):
        found = difference(one, other)
        assert (found.same, found.same_matrix, set(fields(found))) == (same, same_matrix, changed)
        assert found.to_dict()["same"] is same


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


USER = {"bounds": Bounds(clip=2.0)}


def test_a_user_unit_is_not_shown_as_the_end_of_a_limit(saved):
    """Its certificate has no figures for a whole user, because the promise is about whole users."""
    rating = saved("rating")
    user = saved("user", promise=Guarantee(epsilon=4, delta=1e-6, unit="user"), **USER)
    found = fields(difference(rating, user))
    worst = {field: pair for field, pair in found.items() if field.endswith("_at_worst")}
    assert set(worst) == {f"whole_user.{t}.{how}_at_worst" for t in (5, 20, 100) for how in ("removed", "replaced")}
    assert {after for _, after in worst.values()} == {COVERED}
    assert worst["whole_user.5.removed_at_worst"][0] > 20
    back = fields(difference(user, rating))
    assert {field: pair[::-1] for field, pair in back.items()} == found


def test_what_has_no_limit_is_said_so_and_null_means_not_stated(saved):
    strong, weak = (saved(str(e), promise=Guarantee(epsilon=e, delta=1e-6)) for e in (1, 16))
    assert fields(difference(strong, weak))["whole_user.100.removed_at_worst"][1] == NO_LIMIT
    none = saved("none", insecure_no_noise=True)
    found = fields(difference(strong, none))
    for field in ("epsilon", "mu", "steps.0.mu", "whole_user.5.removed_at_worst", "epsilon_at_delta.0.epsilon"):
        assert found[field][0] is not None
        assert found[field][1] == NO_LIMIT
    assert fields(difference(strong, saved("signed", key=KEY)))["signed_by"][0] is None


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ((4, "rating"), (1, "rating"), "B promises more than A, to everybody."),
        ((1, "rating"), (4, "rating"), "A promises more than B, to everybody."),
        ((4, "rating"), (4, "rating"), "A and B promise the same."),
        ((4, "rating"), (4, "user"), "B promises more than A, to everybody."),
        ((4, "user"), (8, "rating"), "A promises more than B, to everybody."),
        # mu is 0.2367 at epsilon 1 and 0.838 at 4: four ratings at worst cost more than the user
        ((1, "rating"), (4, "user"), "B promises more than A to users with at least 4 ratings, and less to those"),
        ((4, "user"), (1, "rating"), "A promises more than B to users with at least 4 ratings, and less to those"),
        ((4, "rating"), None, "A promises more than B, to everybody."),
        (None, None, "Neither A nor B promises anything."),
    ],
)
def test_the_first_sentence_says_who_is_promised_more(saved, before, after, says):
    def made(name, terms):
        if terms is None:
            return saved(name, insecure_no_noise=True)
        epsilon, unit = terms
        return saved(
            name, promise=Guarantee(epsilon=epsilon, delta=1e-6, unit=unit), **(USER if unit == "user" else {})
        )

    verdict, rating, user = difference(made("one", before), made("two", after)).sentences
    assert verdict.startswith(says)
    for name, terms in (("A", before), ("B", after)):
        assert f"100 % of cases (without limit) with {name}" in rating if terms is None else True
        assert (f"{COVERED}, however many) with {name}" in user) == (terms is not None and terms[1] == "user")


def test_the_sentences_say_by_how_much(saved):
    one = saved("one")
    user = saved("user", promise=Guarantee(epsilon=1, delta=1e-6, unit="user"), **USER)
    worst = next(figure.removed_at_worst for figure in one.certificate.whole_user if figure.ratings == 20)
    _, rating, whole = difference(one, user).sentences
    assert rating == (
        "One rating: a test with 5 % false alarms detects it in at most 21 % of cases (epsilon 4 at delta 1e-06) with "
        "A, 8 % of cases (epsilon 1 at delta 1e-06) with B."
    )
    assert whole == (
        "All 20 ratings of one user, taken out together: in at most 100 % of cases "
        f"(epsilon {worst:.6g} at delta 1e-06) with A, "
        "8 % of cases (epsilon 1 at delta 1e-06; covered by the unit itself, however many) with B."
    )


def test_every_field_of_a_certificate_is_compared():
    """A field that somebody adds must be put into a group, or two releases that differ in it would look the same."""
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(Certificate.model_fields)
