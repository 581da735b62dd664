"""``fit``, the safe call: what it refuses, what it chooses by, and what it says was chosen."""

import json
from dataclasses import replace

import numpy as np
import pytest

import pricdr.models.base
from pricdr import Guarantee, HeteroCDR, publish, synthetic_pair, transfer
from pricdr.data.splits import set_aside
from pricdr.data.synthetic import SyntheticConfig
from pricdr.errors import InputError, ParameterError
from pricdr.models import (
    BPR,
    DMF,
    EASE,
    Chosen,
    CoNet,
    EASERelease,
    RidgeRelease,
    RunLog,
    SymmetricCDR,
    TrainingOptions,
    Trust,
)
from pricdr.models.gates import SIGNIFICANCE, p_value
from pricdr.models.methods.dmf import TargetStageConfig
from pricdr.models.methods.hetero import SourceStageConfig
from pricdr.models.training_data import TrainingData
from pricdr.signing import create_keys
from pricdr.strategies import JLT
from pricdr.testing.contracts import Planted, release_with_rows
from pricdr.training.checkpoints import Checkpoints

OPTIONS = TrainingOptions(epochs=12, patience=2, patience_steps=1, device="cpu", learning_rate=5e-3)
SMALL = {"hidden": 32, "width": 16}
METHOD = HeteroCDR(config=SourceStageConfig(base="dmf", **SMALL), options=OPTIONS)
PROMISE = Guarantee(epsilon=8, delta=1e-6)


@pytest.fixture(scope="module")
def pair():
    return synthetic_pair(SyntheticConfig(users=150, source_items=300, target_items=300))


@pytest.fixture(scope="module")
def release(pair):
    """One that passes the evidence test, which a release with real noise does by chance."""
    seeded = publish(pair.source, Guarantee(epsilon=64, delta=1e-6), users=pair.users, insecure_seed=1)
    release = release_with_rows(seeded.matrix, seeded.users)
    assert p_value(TrainingData.of(pair.target, release)) <= SIGNIFICANCE
    return release


def epochs(log):
    parts = {}
    for line in log.read_text().splitlines():
        parts.setdefault(json.loads(line)["part"], []).append(json.loads(line))
    return parts


def test_everything_is_trained_on_for_as_long_as_items_set_aside_say(pair, release, tmp_path):
    log = tmp_path / "log.jsonl"
    model = METHOD.fit(pair.target, release, log=RunLog(file=log))
    parts = epochs(log)
    assert list(parts) == ["choosing target", "choosing source", "target", "source"]
    for part in ("target", "source"):
        tried = [line["metric"] for line in parts[f"choosing {part}"]]
        assert model.chosen.epochs[part] == 1 + int(np.argmax(tried)) == len(parts[part])
        assert {line["metric"] for line in parts[part]} == {None}
    assert model.chosen.trust is not None
    again = METHOD.fit(pair.target, release, chosen=model.chosen)
    np.testing.assert_array_equal(model.user_vectors, again.user_vectors)
    assert again.chosen == model.chosen
    assert (model.seen != pair.target.matrix).nnz == 0


def test_what_was_chosen_on_a_split_is_followed_on_everything_and_nothing_is_set_aside(pair, release, tmp_path):
    log = tmp_path / "log.jsonl"
    chosen = Chosen(epochs={"target": 3, "source": 2}, trust=Trust(0.25, 0.5))
    model = METHOD.fit(pair.target, release, chosen=chosen, log=RunLog(file=log))
    assert {part: len(lines) for part, lines in epochs(log).items()} == chosen.epochs
    assert model.chosen == replace(chosen, used=(0,))


def test_a_release_that_was_not_trusted_stays_so_on_everything(pair, release):
    closed = Chosen(epochs={"target": 2, "source": 2}, trust=Trust(0.0, 0.0))
    alone = DMF(config=TargetStageConfig(**SMALL), options=OPTIONS)
    alone = alone.fit(pair.target, chosen=Chosen(epochs={"training": 2}))
    model = METHOD.fit(pair.target, release, chosen=closed)
    np.testing.assert_array_equal(model.score(np.arange(150)), alone.score(np.arange(150)))
    trusting = METHOD.fit(pair.target, release, chosen=replace(closed, trust=Trust(1.0, 1.0)))
    assert (trusting.score(np.arange(150)) != model.score(np.arange(150))).any()


def test_a_release_that_fails_the_evidence_test_is_never_trained_on(pair, release, tmp_path):
    """Where items are set aside to choose by: ``tests/models/test_newcomers.py`` has the other ways to fit."""
    noise = np.random.default_rng(5).standard_normal(release.matrix.shape).astype(np.float32)
    log = tmp_path / "log.jsonl"
    model = METHOD.fit(pair.target, replace(release, matrix=noise), log=RunLog(file=log))
    assert list(epochs(log)) == ["choosing target", "target"]
    assert model.chosen.trust == Trust(0.0, 0.0)
    assert not model.in_release.any()
    for method in (RidgeRelease(), EASERelease()):
        model = method.fit(pair.target, replace(release, matrix=noise))
        assert model.chosen.trust.cold == 0
        assert not model.in_release[np.diff(model.seen.indptr) == 0].any()


@pytest.mark.parametrize("method", [METHOD, RidgeRelease(), EASERelease()], ids=lambda method: method.name)
def test_a_choice_not_to_trust_is_followed_whatever_the_evidence_says(pair, release, method):
    trusting, wary = (
        method.fit(pair.target, release, chosen=Chosen(trust=trust)) for trust in (Trust(1, 1), Trust(0, 0))
    )
    assert wary.chosen.trust == Trust(0, 0)
    assert trusting.in_release.any()
    assert not wary.in_release.any()
    assert (trusting.score(np.arange(20)) != wary.score(np.arange(20))).any()


def test_validation_and_an_earlier_choice_exclude_each_other(pair, release):
    _, held_out = set_aside(pair.target, seed=3)
    with pytest.raises(ParameterError, match="not both"):
        METHOD.fit(pair.target, release, validation=held_out, chosen=Chosen())


def test_methods_of_one_part_and_closed_forms(pair, tmp_path):
    log = tmp_path / "log.jsonl"
    transfer(pair.target, method=BPR(options=OPTIONS), log=RunLog(file=log))
    assert list(epochs(log)) == ["choosing training", "training"]
    assert transfer(pair.target, method=EASE()).chosen == Chosen()


@pytest.mark.parametrize("kind", ["release", "plaintext"])
def test_only_users_with_source_data_stand_in_for_cold_ones(pair, monkeypatch, kind):
    """Whoever the source knows nothing about would say nothing about how far to trust it for cold users."""
    known = pair.users[:40]
    hidden = []

    def watched(ratings, **options):
        kept, held_out = set_aside(ratings, **options)
        emptied = (np.diff(ratings.matrix.indptr) > 0) & (np.diff(kept.matrix.indptr) == 0)
        several = np.diff(ratings.matrix.indptr) > 1  # a user with one rating loses it by being held out
        hidden.append({ratings.users[at] for at in np.flatnonzero(emptied & several)})
        return kept, held_out

    monkeypatch.setattr(pricdr.models.base, "set_aside", watched)
    if kind == "release":
        few = publish(pair.source, PROMISE, strategy=JLT(dim=16), users=known)
        METHOD.fit(pair.target, few)
    else:
        METHOD.fit(pair.target, plaintext_source=pair.source.select(users=known))
    assert hidden[0]
    assert hidden[0] <= set(known)


def test_too_few_items_to_set_any_aside_are_trained_on_to_the_last_epoch(tmp_path):
    log = tmp_path / "log.jsonl"
    model = DMF(options=OPTIONS).fit(Planted.pair().target, log=RunLog(file=log))
    assert "items are too few" in model.chosen.not_chosen
    assert [line["epoch"] for line in epochs(log)["training"]] == list(range(1, 13))


@pytest.mark.parametrize("method", [METHOD, RidgeRelease(), EASERelease()], ids=lambda method: method.name)
def test_a_release_that_is_not_private_is_refused_by_every_method(pair, method):
    seeded = publish(pair.source, PROMISE, strategy=JLT(dim=16), users=pair.users, insecure_seed=1)
    with pytest.raises(InputError, match="NOT PRIVATE"):
        method.fit(pair.target, seeded)
    with pytest.raises(InputError, match="NOT PRIVATE"):
        transfer(pair.target, seeded, method=method)
    assert method.fit(pair.target, seeded, allow_not_private=True).method == method.name


def test_each_kind_of_method_is_given_what_it_may_see_and_nothing_else(pair, release):
    quick = TrainingOptions(epochs=1, device="cpu")
    with pytest.raises(ParameterError, match="ease takes target ratings alone, not a release"):
        transfer(pair.target, release, method=EASE())
    with pytest.raises(ParameterError, match="symmetric takes a release, not target"):
        transfer(pair.target, method=SymmetricCDR(options=quick))
    with pytest.raises(ParameterError, match="conet takes the source's ratings, not target"):
        transfer(pair.target, method=CoNet(options=quick))
    with pytest.raises(ParameterError, match="ridge-release takes a release, not the source's"):
        transfer(pair.target, plaintext_source=pair.source, method=RidgeRelease())
    with pytest.raises(ParameterError, match="not both"):
        transfer(pair.target, release, plaintext_source=pair.source, method=METHOD)
    assert transfer(pair.target, plaintext_source=pair.source, method=CoNet(options=quick)).origin.plaintext_source


def test_a_model_records_what_it_was_trained_on_and_who_signed_it(pair, tmp_path):
    private, public = create_keys(tmp_path / "key")
    folder = publish(pair.source, PROMISE, users=pair.users).save(tmp_path / "release", signing_key=private)
    loaded, unchecked = (pricdr.Release.load(folder, **how) for how in ({}, {"allow_unverified": True}))
    chosen = Chosen(epochs={"target": 1, "source": 1}, trust=Trust(0.0, 1.0))
    model = METHOD.fit(pair.target, loaded, chosen=chosen)
    assert model.origin.trained_on == pair.target.fingerprint()
    (used,) = model.origin.releases
    assert used.sha256 == loaded.sha256()
    assert used.signed_by == loaded.certificate.signed_by is not None
    assert model.origin.settings["options"]["epochs"] == 12
    # a signature that nobody checked says nothing
    assert METHOD.fit(pair.target, unchecked, chosen=chosen).origin.releases[0].signed_by is None
    saved = model.save(tmp_path / "model")
    assert pricdr.models.FittedModel.load(saved, public_key=public).origin == model.origin


def test_a_run_on_everything_that_is_killed_anywhere_resumes_to_the_same_model(pair, release, tmp_path):
    total = []

    def count(what, done, *_):
        if done and done == int(done):  # the end of an epoch, not a batch inside one
            total.append(1)

    straight = METHOD.fit(pair.target, release, log=RunLog(progress=count))

    class KilledError(Exception):
        pass

    for after in (len(total) // 3, len(total) - 1):
        seen, checkpoints = [], Checkpoints(running=tmp_path / f"after{after}")

        def die(what, done, *_, seen=seen, after=after):
            seen += [1] if done and done == int(done) else []
            if len(seen) == after:
                raise KilledError

        with pytest.raises(KilledError):
            METHOD.fit(pair.target, release, log=RunLog(checkpoints=checkpoints, progress=die))
        resumed = METHOD.fit(pair.target, release, log=RunLog(checkpoints=checkpoints))
        np.testing.assert_array_equal(straight.user_vectors, resumed.user_vectors)
