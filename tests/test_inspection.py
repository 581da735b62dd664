"""An inspection: everything about a release for a screen, for programs and on one page that loads nothing."""

import hashlib
import json
import math
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import norm

from pricdr import Bounds, Guarantee, Ledger, Ratings, publish, verify
from pricdr.privacy.accounting import LATTICE_FACTOR
from pricdr.release.certificate import Certificate
from pricdr.release.inspection import COVERED, GROUPS, NO_LIMIT, Inspection, difference, render_inspection
from pricdr.signing import public_text
from pricdr.strategies import JLT, SJLT, Spectral
from tests.pages.parsed import require_self_contained

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
USERS = [f"u{at:03}" for at in range(60)]
RATINGS = Ratings.from_triples([u for u in USERS for _ in "12"], [f"i{at % 7}" for at in range(120)])
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=y> & \"'`{{ 7*7 }}{% raw %}"


def inspected(folder, *, key_given=False, signed=True, **options):
    given = {"strategy": JLT(dim=8), "users": USERS, **options}
    release = publish(RATINGS, given.pop("promise", Guarantee(epsilon=4, delta=1e-6)), **given)
    release.save(folder / "r", signing_key=KEY if signed else None)
    return Inspection(verify(folder / "r"), key_given=key_given)


def test_the_layout_of_version_1(tmp_path):
    """What ``docs/privacy-officer.md`` documents: programs rely on these names."""
    content = inspected(tmp_path, issuer="Films").to_dict()
    assert list(content) == [
        *("layout_version", "software", "inspected", "verified", "issuer", "issued", "recorded", "signature", "sha256"),
        *("noise_and_signal", "trade_off", "sections", "certificate"),
    ]
    assert content["layout_version"] == 1
    assert set(content["signature"]) == {"public_key", "fingerprint", "given"}
    assert set(content["noise_and_signal"]) == {
        *("sigma", "sensitivity", "noise_length", "mean_square", "noise_mean_square", "error", "noise_share"),
    }
    assert set(content["trade_off"]) == {"law", "mu", "epsilon", "delta", "points", "curve"}
    assert set(content["trade_off"]["points"][0]) == {"false_alarms", "detections", "detections_by_epsilon_delta"}
    json.dumps(content, allow_nan=False)
    written = json.loads((tmp_path / "r" / "certificate.json").read_text())
    del written["digest"]
    assert content["certificate"] == {"nominal_epsilon": None, **written}


def test_hashes_and_signer_are_those_of_the_files(tmp_path):
    content = inspected(tmp_path, key_given=True).to_dict()
    folder = tmp_path / "r"
    for name in ("certificate.json", "release.safetensors", "users.txt", "README.md"):
        assert content["sha256"][name] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    der = bytes.fromhex("302a300506032b6570032100") + KEY.public_key().public_bytes_raw()  # RFC 8410
    assert content["signature"] == {
        "public_key": public_text(KEY.public_key()),
        "fingerprint": hashlib.sha256(der).hexdigest(),
        "given": True,
    }
    assert content["verified"] is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"signed": False}, "ot signed: anybody can have made this release"),
        ({"key_given": True}, "the public key that was given"),
        ({"key_given": False}, "a key that nobody vouched for here"),
    ],
)
def test_whose_signature_it_is_is_said_everywhere(tmp_path, options, words):
    inspection = inspected(tmp_path, **options)
    others = {"ot signed: anybody", "that was given", "nobody vouched"} - {part for part in [words] if part}
    for text in (str(inspection.sections()), render_inspection(inspection)):
        assert words in text
        assert sum(other in text for other in others) == (sum(other in words for other in others))
        assert inspection.signer is None or inspection.signer.fingerprint in text
    assert (inspection.to_dict()["signature"] is None) == (inspection.signer is None)


@pytest.mark.parametrize(
    ("strategy", "promise", "bounds"),
    [
        (JLT(dim=8), Guarantee(epsilon=1, delta=1e-6), Bounds()),
        (Spectral(dim=4), Guarantee(epsilon=8, delta=1e-8), Bounds()),
        (JLT(dim=4), Guarantee(epsilon=4, delta=1e-6, unit="user"), Bounds(clip=2.0)),
    ],
    ids=["rating", "learnt", "user"],
)
def test_the_curve_is_that_of_the_release_s_own_mu(tmp_path, strategy, promise, bounds):
    content = inspected(tmp_path, strategy=strategy, promise=promise, bounds=bounds).to_dict()
    curve, mu = content["trade_off"], content["certificate"]["mu"]
    assert curve["mu"] == mu
    for point in curve["points"]:
        missed = norm.cdf(norm.isf(point["false_alarms"]) - mu * LATTICE_FACTOR)
        assert point["detections"] == pytest.approx(1 - missed, abs=1e-12)
        assert point["detections"] < point["detections_by_epsilon_delta"]
    for x, y in curve["curve"][1:-1]:
        if 1e-6 < x < 1 - 1e-6:
            assert y == pytest.approx(norm.cdf(norm.ppf(x) + mu * LATTICE_FACTOR), abs=1e-9)


@pytest.mark.parametrize("insecure", [{"insecure_seed": 1}, {"insecure_no_noise": True}])
def test_a_release_that_is_not_private_has_no_curve(tmp_path, insecure):
    inspection = inspected(tmp_path, **insecure)
    assert inspection.to_dict()["trade_off"] is None
    page = render_inspection(inspection)
    assert "none: NOT PRIVATE" in page
    assert "<svg" not in page


def test_noise_and_signal_are_told_apart(tmp_path):
    """Users with many ratings in one direction stand out of the noise; unrated users do not."""
    (tmp_path / "loud").mkdir()
    (tmp_path / "silent").mkdir()
    loud = Ratings.from_triples([u for u in USERS for _ in range(400)], [f"i{at}" for _ in USERS for at in range(400)])
    for name, ratings in (("loud", loud), ("silent", Ratings.from_triples(["nobody"], ["i"]))):
        release = publish(ratings, Guarantee(epsilon=4, delta=1e-6), strategy=JLT(dim=8), users=USERS)
        noise = Inspection(verify(release.save(tmp_path / name / "r")), key_given=False).noise
        signal = noise.mean_square / noise.noise_mean_square - 1
        assert noise.noise_length == pytest.approx(noise.sigma * math.sqrt(8))
        assert (signal > 5) == (name == "loud")
        assert abs(signal) < 6 * noise.error or name == "loud"
        assert noise.noise_share == pytest.approx(1 / (1 + signal))


def test_the_page_loads_nothing_and_is_whole(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", Guarantee(epsilon=8, delta=1e-6))
    inspection = inspected(tmp_path, issuer=HOSTILE, ledger=ledger)
    text = render_inspection(inspection)
    page = require_self_contained(text)
    assert HOSTILE.replace(" %", "\xa0%") in page.text, "words of a source are text"
    assert "<script>alert" not in text
    assert "49" not in re.findall(r"issuer.{0,200}", page.text)[0]
    # Everything that the screen shows is in the page.
    for section in inspection.sections():
        for line in (section.title, *section.lines):
            assert line.replace(" %", "\xa0%") in page.text
    for shown in (inspection.certificate.issued, inspection.certificate.ledger.recorded):
        assert shown in page.text


def test_the_page_shows_the_curve_and_the_lengths(tmp_path):
    inspection = inspected(tmp_path)
    page = require_self_contained(render_inspection(inspection))
    # A picture says its figures; without altair there are only the words.
    words = page.text + " ".join(page.values("img", "alt"))
    assert "5\xa0% false alarms, 21\xa0% detections" in words
    assert "at most 21 are found. Blind guessing finds 5." in page.text
    noise = inspection.noise
    row = math.sqrt(noise.mean_square * inspection.certificate.dim)
    for length in (noise.sensitivity, noise.noise_length, row):
        assert f"{length:.4g}" in page.text


FEW = Ratings.from_triples(["a", "b", "c", "d"], ["x", "y", "x", "z"])
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@pytest.fixture
def saved(tmp_path):
    """Publish, save and verify."""

    def run(name, key=None, **options):
        given = {"strategy": JLT(dim=4), "users": FEW.users, "promise": PROMISE, **options}
        release = publish(FEW, given.pop("promise"), **given)
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
    found = difference(saved("one", users=None), saved("two", users=FEW.users))
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
