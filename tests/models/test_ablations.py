"""HeteroCDR and PriCDR-SYM without what we added to the paper: gates, and training one network after the other."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pricdr.errors import InputError
from pricdr.models import method_of
from pricdr.models.fitted import Chosen, FittedModel, Trust
from pricdr.models.methods.dmf import DMF
from pricdr.models.methods.hetero import JointStage, SymmetricCDR
from pricdr.models.training_data import TrainingData
from pricdr.testing.contracts import RecommenderContract, release_with_rows
from pricdr.training.checkpoints import Checkpoints
from pricdr.training.loop import train_network
from pricdr.training.run_log import NO_LOG, RunLog
from tests.models.contracts import (
    HETERO,
    PAPER,
    QUICK,
    SMALL,
    assert_a_gradient_reaches_every_parameter,
    assert_resumes,
    keeping,
    of_release,
    same,
    source_stage,
    wide,
)

UNGATED = replace(HETERO, config=replace(SMALL, gated=False))
JOINT = replace(HETERO, config=replace(SMALL, joint=True))
BARE = replace(HETERO, config=replace(SMALL, joint=True, gated=False))
SYMMETRIC = SymmetricCDR(config=replace(SMALL, joint=True, gated=False), options=QUICK)
PRINTED = replace(PAPER, config=replace(PAPER.config, gated=False))


TestUngated, TestJoint, TestBareSymmetric, TestThePaperAsPrinted = map(of_release, (UNGATED, JOINT, SYMMETRIC, PRINTED))


class TestJointOnPlaintext(RecommenderContract):
    fit = staticmethod(lambda p: JOINT.fit(p.target, plaintext_source=p.source, validation=p.validation))
    serves_cold_users = True


@pytest.fixture(scope="module")
def noise(planted):
    rows = np.random.default_rng(1).standard_normal(planted.release.matrix.shape).astype(np.float32)
    return release_with_rows(rows, planted.release.users)


@pytest.mark.parametrize(
    "method", [UNGATED, BARE, SYMMETRIC, PRINTED], ids=["two stages", "joint", "symmetric", "paper"]
)
@pytest.mark.parametrize("validated", [True, False])
def test_without_gates_even_noise_is_trusted_fully(planted, noise, method, validated, monkeypatch):
    monkeypatch.setattr("pricdr.models.gates.p_value", lambda inputs: pytest.fail("evidence was asked for"))
    model = method.fit(planted.target, noise, validation=planted.validation if validated else None)
    assert model.chosen.trust == Trust(1.0, 1.0)
    assert model.in_release.all()


def test_without_gates_noise_moves_users_in_two_stages_and_items_too_in_a_joint_training(planted, noise):
    alone = DMF(config=SMALL, options=QUICK).fit(planted.target, validation=planted.validation)
    ungated, bare = (method.fit(planted.target, noise, validation=planted.validation) for method in (UNGATED, BARE))
    assert np.array_equal(ungated.item_vectors, alone.item_vectors)  # the target's network is frozen all the same
    assert not np.array_equal(ungated.user_vectors[:48], alone.user_vectors[:48])
    assert not np.array_equal(bare.item_vectors, alone.item_vectors)


@pytest.mark.parametrize("method", [UNGATED, PRINTED], ids=["two stages", "paper"])
def test_an_earlier_choice_to_refuse_is_no_gate_either(planted, method):
    chosen = Chosen(epochs={"target": 2, "source": 2, "training": 2}, trust=Trust(0.0, 0.0))
    assert method.fit(planted.target, planted.release, chosen=chosen).chosen.trust == Trust(1.0, 1.0)


def test_gates_come_after_the_networks_and_a_joint_training_shares_none_with_one_in_two_stages(planted, tmp_path):
    log, trained = keeping(tmp_path)
    models = {}
    for method, networks in ((HETERO, {"target", "source"}), (UNGATED, set()), (JOINT, {"joint"}), (BARE, set())):
        trained.clear()
        models[method] = method.fit(planted.target, planted.release, validation=planted.validation, log=log)
        assert set(trained) == networks
    for method in (JOINT, HETERO, UNGATED):
        assert same(models[method], method.fit(planted.target, planted.release, validation=planted.validation))
    assert not np.array_equal(models[JOINT].item_vectors, models[HETERO].item_vectors)
    assert models[JOINT].chosen.epochs.keys() == {"joint"}
    assert np.array_equal(models[BARE].item_vectors, models[JOINT].item_vectors)
    assert (JOINT.starts_others, HETERO.starts_others) == ((), ("target",))


def joint_stage(data, method=JOINT):
    return JointStage(source_stage(data, method))


@pytest.mark.parametrize("kind", ["narrow", "wide", "plaintext", "symmetric"])
def test_a_gradient_reaches_every_parameter_of_both_networks(planted, kind):
    release = planted.release if kind == "narrow" else wide(planted)
    inputs = planted.plaintext if kind == "plaintext" else TrainingData.of(planted.target, release)
    stage = joint_stage(inputs, SYMMETRIC if kind == "symmetric" else JOINT)
    assert_a_gradient_reaches_every_parameter(stage)


def test_the_source_moves_items_and_alignment_moves_histories(planted):
    """Each in addition to what the target's own loss does."""

    def gradients(*, joint=True, **changes):
        config = replace(SMALL, joint=True, dropout=0.0, entry_dropout=0.0, **changes)
        stage = joint_stage(TrainingData.of(planted.target, wide(planted)), replace(JOINT, config=config))
        torch.manual_seed(0)
        (stage if joint else stage.target_stage).step(torch.arange(40)).backward()
        return {name: weights.grad for name, weights in stage.target_stage.network.named_parameters()}

    both, aligned, alone = (
        gradients(joint=joint, alignment=alignment, reconstruction=0.0)
        for joint, alignment in ((True, 0.0), (True, 10.0), (False, 0.0))
    )
    for name in both:
        moved, drawn = (not torch.allclose(one[name], both[name], rtol=1e-3, atol=1e-7) for one in (alone, aligned))
        assert drawn == name.startswith("user_tower") == (not moved), name


def test_users_without_a_row_are_trained_on_their_history_alone(planted):
    some = release_with_rows(planted.release.matrix[20:], planted.release.users[20:])
    stage = joint_stage(TrainingData.of(planted.target, some))
    assert stage.examples.tolist() == list(range(48))
    stage.network.eval()
    without = stage.step(torch.arange(20))
    without.backward()
    assert all(weights.grad is None for weights in stage.source_stage.network.parameters())
    torch.manual_seed(0)
    alone = stage.target_stage.step(torch.arange(30))
    torch.manual_seed(0)
    both = stage.step(torch.arange(30))
    users, sample = torch.arange(20, 30), stage.target_stage.training_pass(torch.arange(30))
    loss = stage.source_stage.loss(
        users,
        stage.source_stage.training_vectors(users),
        sample.sample._replace(labels=sample.sample.labels[20:]),
        sample.items,
        sample.histories[20:],
    )
    assert both.item() == pytest.approx(alone.item() + loss.item() / 3, rel=1e-3)


def test_a_joint_model_scores_as_validation_did(planted):
    stage = joint_stage(TrainingData.of(planted.target, planted.release))
    train_network(stage, JOINT.options, validation=planted.validation)
    stage.source_stage.take_target_vectors()
    everyone, items = torch.arange(60), torch.arange(40).expand(60, 40)
    model = stage.source_stage.fitted_model("hetero", Trust(0.0, 1.0))
    np.testing.assert_allclose(
        stage.scorer()(everyone, items).detach().numpy(), model.score(everyone.numpy()), atol=1e-5
    )


@pytest.mark.parametrize("method", [JOINT, SYMMETRIC], ids=lambda method: method.name)
def test_a_killed_joint_run_resumes_to_the_same_model(planted, tmp_path, method):
    def fit(log=NO_LOG):
        return method.fit(planted.target, wide(planted), validation=planted.validation, log=log)

    assert_resumes(fit, fit(), tmp_path)


def test_a_checkpoint_of_a_joint_run_is_of_no_other(planted, tmp_path):
    log = RunLog(checkpoints=Checkpoints(running=tmp_path / "run"))
    method = replace(BARE, options=replace(QUICK, epochs=2))
    method.fit(planted.target, wide(planted), validation=planted.validation, log=log)
    other = replace(method, config=replace(BARE.config, alignment=9.0))
    with pytest.raises(InputError, match="another run"):
        other.fit(planted.target, wide(planted), validation=planted.validation, log=log)


def test_a_joint_model_can_be_repeated_by_what_it_records(planted, tmp_path):
    """On everything, without validation: as many epochs as were chosen, and the trust that was."""
    measured = JOINT.fit(planted.target, planted.release, validation=planted.validation)
    read = FittedModel.load(measured.save(tmp_path / "model"))
    assert method_of(read) == JOINT
    assert read.chosen == measured.chosen
    epochs = []
    log = RunLog(progress=lambda what, done, *_: epochs.append((what, done)) if done else None)
    again = method_of(read).fit(planted.target, planted.release, chosen=read.chosen, log=log)
    assert epochs[-1] == ("joint", read.chosen.epochs["joint"])
    assert again.chosen == read.chosen
