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
from pricdr.release.inspection import Inspection, render_inspection
from pricdr.signing import public_text
from pricdr.strategies import JLT, Spectral
from tests.pages.parsed import require_self_contained

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
USERS = [f"u{at:03}" for at in range(60)]
RATINGS = Ratings.from_triples([u for u in USERS for _ in "12"], [f"i{at % 7}" for at in range(120)])
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=y> & \"'`{{ 7*7 }}{% raw %}"


def inspected(folder, *, key_given=False, signed=True, **options):
    given = {"strategy": JLT(dim=8), "users": USERS, **options}
    release = publish(RATINGS, given.pop("promise", Guarantee(epsilon=4, delta=1e-6)), **given)
    release.save(folder / "r", signing_key=KEY if signed else None)
    return Inspection.of(verify(folder / "r"), key_given=key_given)


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
        noise = Inspection.of(verify(release.save(tmp_path / name / "r")), key_given=False).noise
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
