"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.data.ratings import Ratings
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.models import SourceStageConfig
from pricdr.models.catalogue import MOST, configure, with_preset
from pricdr.models.fitted import NOTHING_CHOSEN, FittedModel, HistorySummary, Trust
from pricdr.models.gates import p_value
from pricdr.models.methods.hetero import HeteroCDR
from pricdr.models.methods.linear import EASE, EASESource, RidgeRelease
from pricdr.models.training_data import NARROW, TrainingData
from pricdr.signing import create_keys, public_text, read_public_key
from pricdr.testing.contracts import release_with_rows
from pricdr.training.loop import TrainingOptions, require_trainable

SMALL = SourceStageConfig(hidden=16, width=8, dropout=0.1, entry_dropout=0.2, release_dropout=0.0)
QUICK = TrainingOptions(epochs=3, patience=3, batch=16, learning_rate=1e-2, device="cpu")
HETERO = HeteroCDR(config=SMALL, options=QUICK)


def source_stage(target, release):
    return HETERO.source_stage(HETERO.target_stage(target), TrainingData.of(target, release))


def test_the_source_stage_learns_from_users_with_a_history_and_a_row(planted):
    some = release_with_rows(planted.release.matrix[10:], planted.release.users[10:])
    assert source_stage(planted.target, some).examples.tolist() == list(range(10, 48))


def test_one_rating_is_a_history(planted):
    """For the source stage, and for the evidence test."""
    first = planted.target.matrix.indptr[:-1][:48]
    keep = np.zeros(len(planted.target), dtype=bool)
    keep[first] = True
    target = planted.target.only(keep)
    stage = source_stage(target, planted.release)
    assert stage.examples.tolist() == list(range(48))
    assert p_value(stage.data, permutations=19) < 1


def test_validation_scores_cold_users_as_a_fully_trusted_source_does(planted):
    stage = source_stage(planted.target, planted.release)
    stage.network.eval()
    cold, items = torch.arange(48, 60), torch.arange(40).expand(12, 40)
    model = stage.fitted_model("hetero", Trust(1.0, 1.0))
    np.testing.assert_allclose(stage.scorer()(cold, items).detach().numpy(), model.score(cold.numpy()), atol=1e-5)


def test_without_a_warm_user_in_validation_warm_users_keep_to_their_history(planted):
    cold = planted.validation.only(planted.validation.users >= 48)
    model = HETERO.fit(planted.target, planted.release, validation=cold)
    assert model.chosen.trust.warm == 0


def refused_at(monkeypatch, call, megabytes):
    """Check that ``call`` needs so many megabytes: refused with less, allowed with as much."""
    monkeypatch.setenv("PRICDR_MEMORY", f"{megabytes - 1}MB")
    with pytest.raises(InputError, match=f"needs about {megabytes:,}\\.0 MB of memory"):
        call()
    monkeypatch.setenv("PRICDR_MEMORY", f"{megabytes}MB")
    call()


def test_training_is_counted_as_ten_copies_of_the_weights_in_single_precision(monkeypatch):
    refused_at(monkeypatch, lambda: require_trainable(1_000_000), 40)


def test_a_release_is_counted_by_the_rows_and_copies_it_needs(monkeypatch):
    """A row for each of 5 users twice, and 4 listed users' rows five times over: 30 rows of 100,000 numbers."""
    target = Ratings.from_triples(["a", "b", "c", "d", "e"], ["x", "y", "x", "y", "x"])

    class Rows:
        matrix = np.ones((4, 100_000), dtype=np.float32)
        users = target.users[:4]

    refused_at(monkeypatch, lambda: TrainingData.of(target, Rows()), 12)


def test_ridge_regression_is_counted_by_its_equations(monkeypatch):
    """Eight bytes each for five matrices of 500 x 500 and four of 500 x 2 numbers."""
    target = Ratings.from_triples(["a", "b"], ["x", "y"])
    release = release_with_rows(np.ones((2, 500), dtype=np.float32), target.users)
    monkeypatch.setenv("PRICDR_MEMORY", "10MB")
    with pytest.raises(InputError, match=r"ridge regression on 500 numbers a release row needs about 10\.0 MB"):
        RidgeRelease().fit(target, release, chosen=NOTHING_CHOSEN)
    monkeypatch.setenv("PRICDR_MEMORY", "11MB")
    RidgeRelease().fit(target, release, chosen=NOTHING_CHOSEN)


def test_a_plaintext_source_of_other_people_is_refused(planted):
    strangers = Ratings.from_triples(["x1", "x2"], ["s1", "s2"])
    with pytest.raises(InputError, match="none of the source's 2 users is among the target's 60"):
        EASESource().fit_plaintext(planted.target, strangers)


def test_settings_are_checked_by_name_type_and_size():
    method = configure("dmf", {"hidden": 7, "dropout": 0, "epochs": MOST, "seed": MOST + 1})
    assert (method.config.hidden, method.config.dropout) == (7, 0.0)
    assert (method.options.epochs, method.options.seed) == (MOST, MOST + 1)
    with pytest.raises(ParameterError, match="epochs must be at most 1,000,000, got 1,000,001"):
        configure("dmf", {"epochs": MOST + 1})
    with pytest.raises(ParameterError, match="hidden must be int, got"):
        configure("dmf", {"hidden": 7.0})
    with pytest.raises(ParameterError, match="dropout must be float, got"):
        configure("dmf", {"dropout": True})
    with pytest.raises(ParameterError, match=r"method dmf has no setting 'depth': .*hidden"):
        configure("dmf", {"depth": 3})
    with pytest.raises(ParameterError, match="there is no method"):
        configure("dmff", {})


def test_a_preset_that_does_not_exist_is_refused_by_name():
    assert with_preset("dmf", "default") == "dmf"
    with pytest.raises(ParameterError, match=r"method dmf has no preset .*paper.*: default"):
        with_preset("dmf", "paper")


def test_a_public_key_lets_in_only_models_of_releases_that_it_signed(planted, tmp_path):
    (_, mine), (_, theirs) = create_keys(tmp_path / "mine"), create_keys(tmp_path / "theirs")
    model = EASE().fit(planted.target)
    signed_by = public_text(read_public_key(mine))
    of_release = replace(model.origin, release="0" * 64)
    saved = {
        "target": model.save(tmp_path / "target"),
        "unsigned": replace(model, origin=of_release).save(tmp_path / "unsigned"),
        "signed": replace(model, origin=replace(of_release, release_signed_by=signed_by)).save(tmp_path / "signed"),
    }
    for name in ("target", "signed"):
        assert FittedModel.load(saved[name], public_key=mine).origin.release_signed_by in (None, signed_by)
    assert FittedModel.load(saved["target"], public_key=theirs).origin.release is None
    with pytest.raises(VerificationError, match="signed with a key other than"):
        FittedModel.load(saved["signed"], public_key=theirs)
    with pytest.raises(VerificationError, match="was not signed, or that was not verified"):
        FittedModel.load(saved["unsigned"], public_key=mine)


def small_model():
    """Two users, three items and vectors of one number."""
    ratings = Ratings.from_triples(["a", "b"], ["x", "y"]).select(items=("x", "y", "z"))
    return FittedModel(
        method="bpr",
        users=ratings.users,
        items=ratings.items,
        user_vectors=np.array([[1.0], [2.0]], dtype=np.float32),
        item_vectors=np.array([[1.0], [2.0], [3.0]], dtype=np.float32),
        item_bias=np.array([10.0, 20.0, 30.0], dtype=np.float32),
        seen=ratings.matrix,
        in_release=np.zeros(2, dtype=bool),
    )


def test_counts_of_an_exported_model_must_be_finite_too():
    infinite = HistorySummary(np.full(3, np.inf, dtype=np.float32), np.ones(2, dtype=bool))
    with pytest.raises(InputError, match="finite"):
        replace(small_model(), summary=infinite)


@pytest.mark.parametrize(("dim", "narrow"), [(NARROW, True), (NARROW + 1, False)])
def test_a_release_of_up_to_32_numbers_is_narrow(planted, dim, narrow):
    rows = np.random.default_rng(0).standard_normal((60, dim))
    stage = source_stage(planted.target, release_with_rows(rows, planted.release.users))
    assert stage.narrow == narrow


@pytest.mark.parametrize(("left_out", "repeats"), [(0.0, True), (0.5, False)])
def test_entry_dropout_leaves_out_other_ratings_in_each_step(planted, left_out, repeats):
    method = replace(HETERO, config=replace(SMALL, dropout=0.0, entry_dropout=left_out))
    stage = method.target_stage(planted.target)
    first, second = (stage.step(torch.arange(48)).item() for _ in range(2))
    assert (first == second) == repeats
