from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.data.ratings import Ratings
from pricdr.errors import InputError
from pricdr.models import TargetStageConfig
from pricdr.models.fitted import Basis, HistorySummary, Trust
from pricdr.models.gates import p_value
from pricdr.models.methods.dmf import DMF
from pricdr.models.methods.hetero import SymmetricCDR
from pricdr.models.methods.linear import Popularity
from pricdr.models.training_data import NARROW, TrainingData
from pricdr.testing.contracts import RecommenderContract, release_with_rows
from pricdr.training.checkpoints import Checkpoints
from pricdr.training.loop import require_trainable, train_network
from pricdr.training.run_log import RunLog
from tests.models.contracts import (
    HETERO,
    PAPER,
    QUICK,
    SMALL,
    TrainedContract,
    assert_a_gradient_reaches_every_parameter,
    bases,
    keeping,
    of_release,
    same,
    source_stage,
    target_stage,
    wide,
)

TARGET_ONLY = DMF(config=TargetStageConfig(hidden=16, width=8, dropout=0.1, entry_dropout=0.2), options=QUICK)


class TestPopularity(RecommenderContract):
    fit = staticmethod(lambda p: Popularity().fit(p.target))
    serves_warm_users = False


class TestTargetOnly(TrainedContract):
    method = TARGET_ONLY


SYMMETRIC = SymmetricCDR(config=SMALL, options=QUICK)
TestHetero, TestSymmetric, TestPaperPreset = map(of_release, (HETERO, SYMMETRIC, PAPER))


class TestHeteroOnPlaintext(RecommenderContract):
    fit = staticmethod(lambda p: HETERO.fit(p.target, plaintext_source=p.source, validation=p.validation))
    serves_cold_users = True


RUNS = {
    "symmetric": lambda p: target_stage(TrainingData.of(p.target), SYMMETRIC),
    "release": lambda p: source_stage(TrainingData.of(p.target, p.release)),
    "wide release": lambda p: source_stage(TrainingData.of(p.target, wide(p))),
    "plaintext": lambda p: source_stage(p.plaintext),
    "paper": lambda p: PAPER.training_run(TrainingData.of(p.target, p.release)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_gradient_reaches_every_parameter(planted, name):
    assert_a_gradient_reaches_every_parameter(RUNS[name](planted))


def test_an_item_nobody_rated_is_scored_like_any_other(planted):
    """Held-out items can lose their last training rating."""
    target = planted.target.select(items=(*planted.target.items, "nobody rated it"))
    for model in (TARGET_ONLY.fit(target), HETERO.fit(target, planted.release), PAPER.fit(target, planted.release)):
        assert np.isfinite(model.score(np.arange(60))[:, -1]).all()
        assert "nobody rated it" in {r.item for r in model.recommend(["u00"], k=41)}


def test_a_target_without_ratings_is_refused(planted):
    nothing = planted.target.only(np.zeros(len(planted.target), dtype=bool))
    with pytest.raises(InputError, match="nothing to train on"):
        TARGET_ONLY.fit(nothing)


def test_users_missing_from_the_release_are_served_by_their_history(planted):
    model = HETERO.fit(planted.target, release_with_rows(planted.release.matrix[10:], planted.release.users[10:]))
    found = model.recommend(list(planted.target.users[:10]), k=5)
    assert {r.basis for r in found} == {Basis.HISTORY}
    assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in found]) > 0.9
    # without validation warm users keep to their own history, whatever the release says
    assert {r.basis for r in model.recommend(["u12"], k=5)} == {Basis.HISTORY}


def test_what_a_recommendation_rests_on_follows_the_trust(planted):
    stage = source_stage(TrainingData.of(planted.target, planted.release))
    for trust, expected in ((Trust(0.0, 0.0), "history popularity"), (Trust(0.5, 0.5), "both release")):
        model = stage.fitted_model("hetero", trust)
        assert {basis.value for basis in bases(model, range(60))} == set(expected.split())


def test_a_release_of_users_without_history_alone_is_refused_before_training(planted):
    cold = release_with_rows(planted.release.matrix[48:], planted.release.users[48:])
    reported = []
    log = RunLog(progress=lambda what, *_: reported.append(what))
    with pytest.raises(InputError, match="no user has both"):
        HETERO.fit(planted.target, cold, log=log)
    assert set(reported) == {"choosing hetero", "fitting hetero"}


def test_the_plaintext_source_needs_no_evidence(planted, monkeypatch):
    monkeypatch.setattr("pricdr.models.gates.p_value", lambda inputs: 1.0)
    assert HETERO.fit(planted.target, plaintext_source=planted.source, validation=planted.validation).in_release.any()
    assert not HETERO.fit(planted.target, planted.release, validation=planted.validation).in_release.any()


def test_narrow_releases_have_settings_of_their_own_and_wide_ones_keep_theirs(planted):
    def vectors(release, config):
        method = replace(HETERO, config=config, options=replace(QUICK, epochs=1))
        stage = source_stage(TrainingData.of(planted.target, release), method)
        train_network(stage, method.options)
        return stage.fitted_model("hetero", Trust(1.0, 1.0)).user_vectors

    changes = (("release_dropout", 0.5), ("reconstruction", 9.0), ("alignment", 9.0), ("narrow_dropout", 0.5))
    for release, narrow in ((planted.release, True), (wide(planted), False)):
        usual = vectors(release, SMALL)
        for name, value in changes:
            unchanged = np.array_equal(vectors(release, replace(SMALL, **{name: value})), usual)
            assert unchanged == (narrow != (name == "narrow_dropout")), name


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_one_far_row_does_not_flatten_the_others(planted, far):
    spoilt, others = planted.release.matrix.copy(), np.arange(60) != 7
    spoilt[7] = far
    found = TrainingData.of(planted.target, release_with_rows(spoilt, planted.release.users)).source
    straight = TrainingData.of(planted.target, planted.release).source
    lengths = np.linalg.norm(found, axis=1)
    assert lengths[7] < 12 * np.median(lengths)
    assert lengths[others].mean() > 0.7
    assert np.corrcoef(found[others].ravel(), straight[others].ravel())[0, 1] > 0.9


def test_release_rows_are_lined_up_by_user_whatever_their_order(planted):
    order = np.random.default_rng(2).permutation(60)
    users = tuple(planted.release.users[i] for i in order)
    shuffled = TrainingData.of(planted.target, release_with_rows(planted.release.matrix[order], users))
    straight = TrainingData.of(planted.target, planted.release)
    np.testing.assert_allclose(shuffled.source, straight.source, rtol=1e-5)
    assert shuffled.users == straight.users


def test_a_finished_network_is_found_again_and_only_by_the_same_training(planted, tmp_path):
    log, parts = keeping(tmp_path)
    noise = release_with_rows(planted.release.matrix[::-1].copy(), planted.release.users)
    models = []
    for release, trained in ((planted.release, {"target", "source"}), (noise, {"source"}), (planted.release, set())):
        parts.clear()
        models.append(HETERO.fit(planted.target, release, validation=planted.validation, log=log))
        assert set(parts) == trained
    assert models[0].chosen == models[2].chosen  # a finished network tells its epoch
    assert same(models[0], models[2])


def test_a_checkpoint_of_another_run_is_refused(planted, tmp_path):
    target, validation, release = planted.target, planted.validation, planted.release
    log = RunLog(checkpoints=Checkpoints(running=tmp_path / "run"))
    alone, hetero = (replace(method, options=replace(QUICK, epochs=2)) for method in (TARGET_ONLY, HETERO))
    alone.fit(target, log=log)
    hetero.fit(target, release, log=log)
    redrawn = release_with_rows(release.matrix + np.float32(0.1) * release.matrix[::-1], release.users)
    for other in (
        lambda: replace(alone, config=replace(alone.config, hidden=20)).fit(target, log=log),
        lambda: alone.fit(target, validation=validation, log=log),
        lambda: alone.fit(target.only(np.arange(len(target)) > 0), log=log),
        lambda: hetero.fit(target, redrawn, log=log),
    ):
        with pytest.raises(InputError, match="another run"):
            other()
    (tmp_path / "run.training").write_bytes(b"junk")
    with pytest.raises(InputError, match="checkpoint"):
        alone.fit(target, log=log)


def test_a_model_of_impossible_arrays_is_refused():
    good, bad = Popularity().fit(Ratings.from_triples(["a"], ["x"])), np.array([np.nan], dtype=np.float32)
    assert repr(replace(good, method="m\x1b[31m\n")).isprintable()
    for wrong, says in (
        ({"users": ("a", "b")}, "do not fit"),
        ({"item_bias": bad}, "finite"),
        ({"summary": HistorySummary(bad, np.ones(1, dtype=bool))}, "finite"),
    ):
        with pytest.raises(InputError, match=says):
            replace(good, **wrong)


def test_rows_too_large_to_square_are_scaled_like_any_others():
    target = Ratings.from_triples(["a", "b", "c", "d"], ["x", "x", "y", "y"])
    rows = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    plain, huge = (
        TrainingData.of(target, release_with_rows(rows * np.float32(scale), target.users)).source
        for scale in (1.0, 1e25)
    )
    assert np.isfinite(huge).all()
    np.testing.assert_allclose(huge, plain, rtol=1e-4, atol=1e-5)


def test_validation_scores_cold_users_as_a_fully_trusted_source_does(planted):
    stage = source_stage(TrainingData.of(planted.target, planted.release))
    stage.network.eval()
    cold, items = torch.arange(48, 60), torch.arange(40).expand(12, 40)
    model = stage.fitted_model("hetero", Trust(1.0, 1.0))
    np.testing.assert_allclose(stage.scorer()(cold, items).detach().numpy(), model.score(cold.numpy()), atol=1e-5)


def test_training_is_counted_as_ten_copies_of_the_weights_in_single_precision(monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "39MB")
    with pytest.raises(InputError, match=r"needs about 40\.0 MB of memory"):
        require_trainable(1_000_000)
    monkeypatch.setenv("PRICDR_MEMORY", "40MB")
    require_trainable(1_000_000)


@pytest.mark.parametrize(("left_out", "repeats"), [(0.0, True), (0.5, False)])
def test_entry_dropout_leaves_out_other_ratings_in_each_step(planted, left_out, repeats):
    method = replace(HETERO, config=replace(SMALL, dropout=0.0, entry_dropout=left_out))
    stage = target_stage(TrainingData.of(planted.target), method)
    first, second = (stage.step(torch.arange(48)).item() for _ in range(2))
    assert (first == second) == repeats


def test_the_source_stage_learns_from_users_with_a_row_and_a_history_be_it_one_rating(planted):
    """One is a history for the evidence test too."""
    some = release_with_rows(planted.release.matrix[10:], planted.release.users[10:])
    keep = np.zeros(len(planted.target), dtype=bool)
    keep[planted.target.matrix.indptr[:48]] = True
    stage = source_stage(TrainingData.of(planted.target.only(keep), some))
    assert stage.examples.tolist() == list(range(10, 48))
    assert p_value(stage.data, permutations=19) < 1


@pytest.mark.parametrize(("dim", "narrow"), [(NARROW, True), (NARROW + 1, False)])
def test_a_release_of_up_to_32_numbers_is_narrow(planted, dim, narrow):
    rows = np.random.default_rng(0).standard_normal((60, dim))
    stage = source_stage(TrainingData.of(planted.target, release_with_rows(rows, planted.release.users)))
    assert stage.narrow == narrow
