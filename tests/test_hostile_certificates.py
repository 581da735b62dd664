"""Certificates that no honest software writes: each fails its check in one line, none crashes it."""

import json

import pytest

from pricdr import Features, Guarantee, Ratings, Release, publish, verify
from pricdr.certificate import _canonical, _digest
from pricdr.cli import run
from pricdr.data.features import ItemFeatures
from pricdr.errors import ParameterError, VerificationError
from pricdr.privacy.audit import Subject, audit_likelihood_ratio
from pricdr.privacy.bounds import Bounds

RATINGS = Ratings.from_triples(["a", "b", "c"], ["x", "x", "y"])
PROMISE = Guarantee(epsilon=4, delta=1e-6)


@pytest.fixture
def folder(tmp_path):
    return publish(RATINGS, PROMISE, users=["a", "b"]).save(tmp_path / "release")


def _edit(folder, change):
    path = folder / "certificate.json"
    content = json.loads(path.read_bytes())
    del content["digest"]
    change(content)
    path.write_bytes(_canonical({**content, "digest": _digest(content)}))


def _strategy(name, **parameters):
    def change(content):
        content["strategy"] = {"name": name, "parameters": parameters}

    return change


@pytest.mark.parametrize(
    "change",
    [
        _strategy("features", features=1.0),
        _strategy("spectral", centring=0.01, item_prior=5.0, percentile=50.0, learn_from_all=1.0, item_rounds=1e6),
        _strategy("spectral", centring=0.01, item_prior=-5.0, percentile=50.0),
        _strategy("guided", refine=1.0),
        lambda content: content.update(items=10**400),
        lambda content: content.update(users=10**30),
        lambda content: content.update(unit="user", bounds={**content["bounds"], "clip": 1e308}),
        lambda content: content["steps"].pop(),
        lambda content: content["steps"][0].update(refinement=10**9),
        lambda content: content["steps"][0].update(grid=1e-300),
    ],
)
def test_a_hostile_certificate_fails_its_check(folder, change, capsys):
    _edit(folder, change)
    with pytest.raises(VerificationError) as caught:
        verify(folder)
    assert "\n" not in str(caught.value)
    assert run(["verify", str(folder)]) == 1
    assert "should not happen" not in capsys.readouterr().err


def test_a_guides_hash_is_that_of_its_file(folder):
    loaded = Release.load(folder)
    assert loaded.sha256() == loaded.certificate.files["release.parquet"]
    unsaved = publish(RATINGS, PROMISE, users=["a", "b"])
    assert (
        unsaved.sha256()
        == json.loads((unsaved.save(folder.parent / "later") / "certificate.json").read_bytes())["files"][
            "release.parquet"
        ]
    )


def test_an_audit_of_pure_noise_says_that_there_is_nothing_to_find():
    table = ItemFeatures.of_tags(("x", "y"), [("war",), ("love",)])
    subject = Subject.of(Guarantee(epsilon=1e-9, delta=1e-9), Features(features=table, dim=2), Bounds())
    with pytest.raises(ParameterError, match="nothing to audit"):
        audit_likelihood_ratio(subject, draws=10)
