"""An inspection: all about a release for a screen, programs and one page that loads nothing; of two, what differs."""

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
from pricdr.release.inspection import (
    COVERED,
    GROUPS,
    NO_LIMIT,
    Inspection,
    SeriesSummary,
    difference,
    render_inspection,
)
from pricdr.signing import public_text
from pricdr.strategies import JLT, SJLT, Spectral
from tests.pages.parsed import require_self_contained

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
USERS = [f"u{at:03}" for at in range(60)]
RATINGS = Ratings.from_triples([u for u in USERS for _ in "12"], [f"i{at % 7}" for at in range(120)])
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=y> & \"'`{{ 7*7 }}{% raw %}"
BY_USER = {"unit": "user", "bounds": Bounds(clip=2.0)}


@pytest.fixture
def saved(tmp_path):
    """Publish, save and verify."""

    def run(name, *, ratings=RATINGS, epsilon=4, delta=1e-6, unit="rating", key=None, **options):
        given = {"strategy": JLT(dim=8), "users": USERS, **options}
        release = publish(ratings, Guarantee(epsilon=epsilon, delta=delta, unit=unit), **given)
        return verify(release.save(tmp_path / name, signing_key=key))

    return run


def test_the_layout_of_version_1_and_what_files_and_key_it_names(saved, tmp_path):
    """What ``docs/privacy-officer.md`` documents: programs rely on these names."""
    content = Inspection(saved("r", issuer="Films", key=KEY), key_given=True).to_dict()
    assert list(content) == [
        *("layout_version", "software", "inspected", "verified", "issuer", "issued", "recorded", "signature", "sha256"),
        *("noise_and_signal", "trade_off", "sections", "certificate"),
    ]
    assert (content["layout_version"], content["verified"]) == (1, True)
    assert set(content["noise_and_signal"]) == {
        *("sigma", "sensitivity", "noise_length", "mean_square", "noise_mean_square", "error", "noise_share")
    }
    assert set(content["trade_off"]) == {"law", "mu", "epsilon", "delta", "points", "curve"}
    assert set(content["trade_off"]["points"][0]) == {"false_alarms", "detections", "detections_by_epsilon_delta"}
    json.dumps(content, allow_nan=False)
    written = json.loads((tmp_path / "r" / "certificate.json").read_text())
    del written["digest"]
    assert content["certificate"] == {"nominal_epsilon": None, **written}
    for name in ("certificate.json", "release.safetensors", "users.txt", "README.md"):
        assert content["sha256"][name] == hashlib.sha256((tmp_path / "r" / name).read_bytes()).hexdigest()
    der = bytes.fromhex("302a300506032b6570032100") + KEY.public_key().public_bytes_raw()  # RFC 8410
    assert content["signature"] == {
        "public_key": public_text(KEY.public_key()),
        "fingerprint": hashlib.sha256(der).hexdigest(),
        "given": True,
    }


def test_whose_signature_it_is_is_said_everywhere(saved):
    unsigned, signed = saved("unsigned"), saved("signed", key=KEY)
    for inspection, words in (
        (Inspection(unsigned, key_given=False), "ot signed: anybody can have made this release"),
        (Inspection(signed, key_given=True), "by the public key that was given"),
        (Inspection(signed, key_given=False), "by a key that nobody vouched for here"),
    ):
        for text in (str(inspection.sections()), render_inspection(inspection)):
            assert words in text
            assert sum(said in text for said in ("ot signed: anybody", "that was given", "nobody vouched")) == 1
            assert (inspection.fingerprint or "") in text
        assert (inspection.to_dict()["signature"] is None) == (inspection.release is unsigned)


@pytest.mark.parametrize(
    "terms",
    [{"epsilon": 1}, {"epsilon": 8, "delta": 1e-8, "strategy": Spectral(dim=4)}, BY_USER],
    ids=["rating", "learnt", "user"],
)
def test_the_curve_is_that_of_the_release_s_own_mu(saved, terms):
    content = Inspection(saved("r", **terms), key_given=False).to_dict()
    curve, mu = content["trade_off"], content["certificate"]["mu"]
    assert curve["mu"] == mu
    for point in curve["points"]:
        missed = norm.cdf(norm.isf(point["false_alarms"]) - mu * LATTICE_FACTOR)
        assert point["detections"] == pytest.approx(1 - missed, abs=1e-12)
        assert point["detections"] < point["detections_by_epsilon_delta"]
    for x, y in curve["curve"][1:-1]:
        if 1e-6 < x < 1 - 1e-6:
            assert y == pytest.approx(norm.cdf(norm.ppf(x) + mu * LATTICE_FACTOR), abs=1e-9)


def test_a_release_that_is_not_private_has_no_curve(saved):
    for insecure in ({"insecure_seed": 1}, {"insecure_no_noise": True}):
        inspection = Inspection(saved(str(insecure), **insecure), key_given=False)
        assert inspection.to_dict()["trade_off"] is None
        page = render_inspection(inspection)
        assert "none: NOT PRIVATE" in page
        assert "<svg" not in page


def test_noise_and_signal_are_told_apart(saved):
    """Users with many ratings in one direction stand out of the noise; unrated users do not."""
    loud = Ratings.from_triples([u for u in USERS for _ in range(400)], [f"i{at}" for _ in USERS for at in range(400)])
    for name, ratings in (("loud", loud), ("silent", Ratings.from_triples(["nobody"], ["i"]))):
        noise = Inspection(saved(name, ratings=ratings), key_given=False).noise
        signal = noise["mean_square"] / noise["noise_mean_square"] - 1
        assert noise["noise_length"] == pytest.approx(noise["sigma"] * math.sqrt(8))
        assert (signal > 5) == (name == "loud")
        assert abs(signal) < 6 * noise["error"] or name == "loud"
        assert noise["noise_share"] == pytest.approx(1 / (1 + signal))


def test_the_page_loads_nothing_and_shows_all_that_the_screen_does(saved, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.jsonl", Guarantee(epsilon=8, delta=1e-6))
    inspection = Inspection(saved("r", issuer=HOSTILE, ledger=ledger), key_given=False)
    text = render_inspection(inspection)
    page = require_self_contained(text)
    assert HOSTILE.replace(" %", "\xa0%") in page.text, "words of a source are text"
    assert "<script>alert" not in text
    assert "49" not in re.findall(r"issuer.{0,200}", page.text)[0]
    for section in inspection.sections():
        for line in (section.title, *section.lines):
            assert line.replace(" %", "\xa0%") in page.text
    # A picture says its figures; without altair there are only the words.
    words = page.text + " ".join(page.values("img", "alt"))
    assert "5\xa0% false alarms, 21\xa0% detections" in words
    noise, c = inspection.noise, inspection.certificate
    lengths = noise["sensitivity"], noise["noise_length"], math.sqrt(noise["mean_square"] * c.dim)
    for shown in (
        *("at most 21 are found. Blind guessing finds 5.", c.issued, c.ledger.recorded),
        *(f"{length:.4g}" for length in lengths),
    ):
        assert shown in page.text


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


def test_what_changed_is_named_backwards_as_forwards(saved):
    one = saved("one")
    for at, (options, expected) in enumerate(
        (
            ({"epsilon": 2}, {"epsilon", "sigma", "mu"}),
            ({"delta": 1e-7}, {"delta", "sigma"}),
            (BY_USER, {"unit"}),
            ({"strategy": SJLT(dim=4), "items": ["i1"]}, {"strategy.name", "items", "input.item_universe"}),
            ({"strategy": JLT(dim=6)}, {"dim", "steps.0.numbers"}),
            ({"issuer": "Films"}, {"issuer"}),
            ({"key": KEY}, {"signed_by"}),
            ({"users": None}, {"input.user_list", "not_protected"}),
            ({"insecure_seed": 1}, {"private", "noise.source"}),
        )
    ):
        other = saved(str(at), **options)
        there, back = difference(one, other), difference(other, one)
        assert expected <= set(fields(there))
        assert not there.same
        turned = {field: pair[::-1] for field, pair in fields(back).items()}
        assert {**turned, "not_protected": 0} == {**fields(there), "not_protected": 0}, "sentences come in their order"


def test_users_are_counted(saved):
    one = saved("one", users=["a", "b", "c", "d"])
    other = saved("two", users=["b", "a", "e"])
    counted = {"kept": 2, "added": 1, "removed": 2, "reordered": True}
    assert difference(one, other).users == counted
    assert difference(other, one).users == {**counted, "added": 2, "removed": 1}
    assert not difference(one, saved("three", users=["a", "c", "e"])).users["reordered"]


def test_a_sentence_that_goes_does_not_make_the_others_look_new(saved):
    found = difference(saved("one", users=None), saved("two"))
    sentences = [(change.before, change.after) for change in found.changes if change.field == "not_protected"]
    assert len(sentences) == 2
    assert sentences[0][0].startswith("Who has ratings at all")
    assert sentences[1][1].startswith("The user list itself")


def test_a_figure_without_a_limit_is_told_from_one_that_the_unit_covers_and_from_what_is_not_stated(saved):
    """A certificate for the user unit has no figures for a whole user, because the promise is about whole users."""
    rating = saved("rating")
    found = fields(difference(rating, saved("user", **BY_USER)))
    worst = {field: pair for field, pair in found.items() if field.endswith("_at_worst")}
    assert set(worst) == {f"whole_user.{t}.{how}_at_worst" for t in (5, 20, 100) for how in ("removed", "replaced")}
    assert {after for _, after in worst.values()} == {COVERED}
    assert worst["whole_user.5.removed_at_worst"][0] > 20
    rating, weak, none = saved("strong", epsilon=1), saved("weak", epsilon=16), saved("none", insecure_no_noise=True)
    assert fields(difference(rating, weak))["whole_user.100.removed_at_worst"][1] == NO_LIMIT
    found = fields(difference(rating, none))
    for field in ("epsilon", "mu", "steps.0.mu", "whole_user.5.removed_at_worst", "epsilon_at_delta.0.epsilon"):
        assert found[field][0] is not None
        assert found[field][1] == NO_LIMIT
    assert fields(difference(rating, saved("signed", key=KEY)))["signed_by"][0] is None


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
        return saved(name, epsilon=terms[0], **(BY_USER if terms[1] == "user" else {}))

    verdict, rating, user = difference(made("one", before), made("two", after)).sentences
    assert verdict.startswith(says)
    for name, terms in (("A", before), ("B", after)):
        assert f"100 % of cases (without limit) with {name}" in rating if terms is None else True
        assert (f"{COVERED}, however many) with {name}" in user) == (terms is not None and terms[1] == "user")


def test_the_sentences_say_by_how_much(saved):
    one = saved("one")
    worst = next(figure.removed_at_worst for figure in one.certificate.whole_user if figure.ratings == 20)
    _, rating, whole = difference(one, saved("user", epsilon=1, **BY_USER)).sentences
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


def test_what_a_series_costs_is_never_understated():
    costs = SeriesSummary(
        **{
            "places": (1, 2),
            "missing": (),
            "users": 3,
            "unit": "rating",
            "mu": 1.23411,
            "epsilon": 5.43211,
            "delta": 1e-6,
        },
        **{"noise_in_newest": 0.5, "noise_in_sum": 0.4},
    )
    assert "epsilon = 5.433 at delta = 1e-06 (mu = 1.235)" in costs.sentences[1]
