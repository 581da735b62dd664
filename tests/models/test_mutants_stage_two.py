"""Tests that mutation testing asked for: each one fails under a change of the code that no other test noticed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

import pricdr.models.base
from pricdr.data.ratings import Ratings
from pricdr.data.splits import hold_out, set_aside
from pricdr.errors import InputError, ParameterError, VerificationError
from pricdr.models import SourceStageConfig
from pricdr.models.catalogue import MOST, configure, with_preset
from pricdr.models.fitted import NOTHING_CHOSEN, Chosen, FittedModel, HistorySummary, Trust
from pricdr.models.gates import p_value
from pricdr.models.methods.factorisation import BPR, BPRConfig
from pricdr.models.methods.hetero import HeteroCDR, SymmetricCDR
from pricdr.models.methods.linear import EASE, EASERelease, EASEReleaseConfig, EASESource, RidgeRelease
from pricdr.models.training_data import NARROW, TrainingData
from pricdr.signing import create_keys, public_text, read_public_key
from pricdr.testing.contracts import Planted, release_with_rows
from pricdr.training.checkpoints import Checkpoint
from pricdr.training.loop import TrainingError, TrainingOptions, require_trainable, train, train_network
from pricdr.training.run_log import NO_LOG, Epoch, RunLog

SMALL = SourceStageConfig(hidden=16, width=8, dropout=0.1, entry_dropout=0.2, release_dropout=0.0)
QUICK = TrainingOptions(epochs=3, patience=3, batch=16, learning_rate=1e-2, device="cpu")
HETERO = HeteroCDR(config=SMALL, options=QUICK)


@pytest.fixture(scope="module")
def planted():
    return Planted.pair()


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


def test_training_the_source_stage_leaves_the_target_network_without_gradients(planted):
    stage = source_stage(planted.target, planted.release)
    train_network(stage, HETERO.options, validation=None, epochs=1, log=NO_LOG)
    assert all(weights.grad is None for weights in stage.target_stage.network.parameters())
    assert any(weights.grad is not None for weights in stage.network.parameters())


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


@pytest.mark.parametrize("method", [HETERO, SymmetricCDR(config=SMALL, options=QUICK)], ids=lambda method: method.name)
def test_only_users_without_ratings_have_a_vector_of_zeros(planted, method):
    """They are left with what is popular."""
    stage = method.target_stage(planted.target)
    stage.network.eval()
    vectors = stage.history_vectors()
    assert vectors[:48].abs().sum(1).min() > 0
    assert not vectors[48:].any()
    assert not stage.user_vectors()[48:].any()


def test_shortening_a_far_row_does_not_depend_on_the_scale_of_the_release(planted):
    spoilt = planted.release.matrix.copy()
    spoilt[7] = 1e3
    large, small = (
        TrainingData.of(planted.target, release_with_rows(spoilt * np.float32(scale), planted.release.users)).source
        for scale in (1.0, 1e-3)
    )
    np.testing.assert_allclose(small, large, rtol=1e-3, atol=1e-5)


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


def test_every_trained_network_is_counted(monkeypatch):
    target = Ratings.from_triples([f"u{at}" for at in range(2000)], [f"i{at}" for at in range(2000)])
    monkeypatch.setenv("PRICDR_MEMORY", "16MB")  # 404,000 weights
    with pytest.raises(InputError, match=r"training a network of .* weights"):
        BPR(config=BPRConfig(width=100), options=QUICK).fit(target, chosen=NOTHING_CHOSEN)


@pytest.mark.parametrize("method", [EASE, EASESource, EASERelease])
def test_a_search_of_ease_tries_the_default_and_steps_evenly(method):
    """Each value once, in order, the default among them, and none more than about three times the one before it."""
    for name, values in method.space.items():
        assert getattr(method().config, name) in values
        ratios = np.array(values[1:]) / np.array(values[:-1])
        assert (ratios > 1).all()
        assert (ratios < 3.5).all()


def test_ease_on_a_release_trusts_it_fully_where_nothing_was_chosen(planted):
    method = EASERelease(config=EASEReleaseConfig(regularisation=5.0))
    assert method.fit(planted.target, planted.release, chosen=NOTHING_CHOSEN).chosen.trust == Trust(1.0, 1.0)
    assert method.fit(planted.target, planted.release, chosen=Chosen(trust=Trust(1.0, 0.0))).chosen.trust.cold == 0


def test_a_method_without_options_sets_aside_by_seed_zero(planted, monkeypatch):
    seeds = []

    def watched(ratings, *, seed, **others):
        seeds.append(seed)
        return set_aside(ratings, seed=seed, **others)

    monkeypatch.setattr(pricdr.models.base, "set_aside", watched)
    EASERelease().fit(planted.target, planted.release)
    assert seeds == [0]


def test_model_json_is_indented_by_two(planted, tmp_path):
    text = (EASE().fit(planted.target).save(tmp_path / "model") / "model.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    assert json.loads(text)["schema_version"] == 5


def linear():
    torch.random.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5))


def test_patience_counts_steps_where_an_epoch_is_a_single_step():
    """The first epoch is the best; seven steps without a gain are seven epochs here."""
    network, metrics = linear(), iter(range(100, 0, -1))
    options = TrainingOptions(epochs=50, patience=1, patience_steps=7, batch=16, device="cpu")
    x = torch.ones(16, 4)
    result = train(
        network, lambda rows: network(x[rows]).mean(), torch.arange(16), options, validate=lambda: float(next(metrics))
    )
    assert (result.epoch, result.best_epoch) == (8, 1)


def test_validation_sees_the_network_without_dropout_and_steps_see_it_with():
    network, validated, stepped = linear(), [], []
    x = torch.ones(16, 4)

    def step(rows):
        stepped.append(network.training)
        return network(x[rows]).mean()

    def validate():
        validated.append(network.training)
        return float(len(validated))

    train(network, step, torch.arange(16), QUICK, validate=validate)
    assert (stepped, validated) == ([True] * 3, [False] * 3)


def test_a_checkpoint_whose_second_moments_are_zero_resumes(tmp_path):
    """A unit that never fired has had no gradient but zero."""
    network = linear()
    x = torch.zeros(16, 4)
    checkpoint = Checkpoint(tmp_path / "run", fingerprint="mine")
    train(network, lambda rows: network(x[rows]).mean(), torch.arange(16), QUICK, checkpoint=checkpoint)
    fresh = linear()
    optimizer = torch.optim.AdamW(fresh.parameters())
    assert checkpoint.resume(fresh, optimizer).epoch == 3
    assert not optimizer.state_dict()["state"][0]["exp_avg_sq"].any()


def test_a_training_that_went_wrong_ends_the_command_like_any_failure():
    """Exit code 2 is for what the caller asked wrongly."""
    assert (TrainingError.exit_code, ParameterError.exit_code) == (1, 2)


def test_the_first_rating_of_a_user_can_be_set_aside_too():
    users = [f"u{at:02d}" for at in range(40) for _ in range(2)]
    names = tuple(f"i{at:03d}" for at in range(110))
    ratings = Ratings.from_triples(users, ["i000", "i001"] * 40).select(items=names)
    assert set(set_aside(ratings, seed=0)[1].items.tolist()) == {0, 1}


def test_a_split_without_any_warm_user_is_refused():
    ratings = Ratings.from_triples(["u"] * 3, ["i000", "i001", "i002"])
    ratings = ratings.select(items=tuple(f"i{at:03d}" for at in range(250)))
    with pytest.raises(ParameterError, match=r"cold must lie in \[0, 1\), got 1.0"):
        hold_out(ratings, seed=0, cold=1.0)


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


def test_scores_of_candidates_are_those_of_all_items():
    model = small_model()
    assert model.score(np.arange(2)).tolist() == [[11, 22, 33], [12, 24, 36]]
    assert model.score_candidates(np.array([1, 0]), np.array([[2, 0], [1, 1]])).tolist() == [[36, 12], [22, 22]]


@pytest.mark.parametrize(
    "change",
    [
        lambda model: {"in_release": np.zeros(3, dtype=bool)},
        lambda model: {"seen": model.seen[:1]},
        lambda model: {"summary": HistorySummary(np.zeros(3, dtype=np.float32), np.zeros(1, dtype=bool))},
        lambda model: {"summary": HistorySummary(np.zeros(2, dtype=np.float32), np.zeros(2, dtype=bool))},
        lambda model: {"item_vectors": model.item_vectors[:2]},
    ],
)
def test_one_array_that_does_not_fit_is_enough_to_refuse_a_model(change):
    model = small_model()
    with pytest.raises(InputError, match="do not fit 2 users and 3 items"):
        replace(model, **change(model))


def test_counts_of_an_exported_model_must_be_finite_too():
    infinite = HistorySummary(np.full(3, np.inf, dtype=np.float32), np.ones(2, dtype=bool))
    with pytest.raises(InputError, match="finite"):
        replace(small_model(), summary=infinite)


@pytest.mark.parametrize("side", ["user_vectors", "item_vectors"])
def test_a_model_with_sparse_vectors_on_either_side_has_nothing_to_export(side):
    model = small_model()
    sparse = replace(model, **{side: sp.csr_array(getattr(model, side))})
    with pytest.raises(InputError, match="scores by the ratings themselves"):
        sparse.without_histories()


@pytest.mark.parametrize(("dim", "narrow"), [(NARROW, True), (NARROW + 1, False)])
def test_a_release_of_up_to_32_numbers_is_narrow(planted, dim, narrow):
    rows = np.random.default_rng(0).standard_normal((60, dim))
    stage = source_stage(planted.target, release_with_rows(rows, planted.release.users))
    assert stage.narrow == narrow


def test_a_seed_always_deals_the_same_split():
    """What was published of a split is its seed: another version must hold out the same items."""
    names = tuple(f"i{at:03d}" for at in range(250))
    ratings = Ratings.from_triples([f"u{at}" for at in range(4) for _ in range(6)], names[:24]).select(items=names)
    split = hold_out(ratings, seed=7)
    assert split.test.items.tolist() == [1, 11, 14, 18]
    assert split.validation.items.tolist() == [3, 10, 15, 20]
    assert split.test.negatives[:, 0].tolist() == [211, 206, 73, 66]


def test_a_run_log_writes_and_reports_phase_network_and_metric(tmp_path):
    reported = []
    log = RunLog(file=tmp_path / "log", progress=lambda *progress: reported.append(progress))
    log.record(Epoch(1, 0.5, None, 2.0), 9, best=0.0, best_epoch=1)
    log.in_phase("choosing").of_network("source").record(Epoch(2, 0.25, 0.125, 2.0), 9, best=0.5, best_epoch=1)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert lines == [
        {"part": "training", "epoch": 1, "loss": 0.5, "metric": None, "seconds": 2.0},
        {"part": "choosing source", "epoch": 2, "loss": 0.25, "metric": 0.125, "seconds": 2.0},
    ]
    assert reported == [
        ("training", 1, 9, "loss 0.5"),
        (
            "choosing source",
            2,
            9,
            "loss 0.25, validation 0.1250 (best 0.5000 in epoch 1; ends after epoch 9 unless it gets better)",
        ),
    ]


@pytest.mark.parametrize(("left_out", "repeats"), [(0.0, True), (0.5, False)])
def test_entry_dropout_leaves_out_other_ratings_in_each_step(planted, left_out, repeats):
    method = replace(HETERO, config=replace(SMALL, dropout=0.0, entry_dropout=left_out))
    stage = method.target_stage(planted.target)
    first, second = (stage.step(torch.arange(48)).item() for _ in range(2))
    assert (first == second) == repeats


def test_every_epoch_is_recorded(tmp_path):
    network, x = linear(), torch.ones(16, 4)
    log = RunLog(file=tmp_path / "log")
    train(network, lambda rows: network(x[rows]).mean(), torch.arange(16), QUICK, log=log)
    assert [json.loads(line)["epoch"] for line in (tmp_path / "log").read_text().splitlines()] == [1, 2, 3]
