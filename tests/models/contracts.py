"""The suites of our own trained methods, on top of what every method must keep."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
import torch

from pricdr.models.fitted import BASES, Basis, FittedModel
from pricdr.models.methods.dmf import TargetStage
from pricdr.models.methods.hetero import HeteroCDR, SourceStage, SourceStageConfig, TwoStageMethod
from pricdr.models.methods.networks import TrainingRun
from pricdr.models.methods.paper import PaperCDR, PaperConfig
from pricdr.models.training_data import NARROW, TrainingData
from pricdr.release import Release
from pricdr.testing.contracts import Planted, RecommenderContract, release_with_rows
from pricdr.training.checkpoints import Checkpoints
from pricdr.training.loop import TrainingOptions, train_network
from pricdr.training.run_log import NO_LOG, RunLog

SMALL = SourceStageConfig(
    base="dmf", hidden=16, width=8, dropout=0.1, entry_dropout=0.2, release_dropout=0.0, plaintext_dropout=0.3
)
QUICK = TrainingOptions(epochs=30, patience=30, batch=16, learning_rate=1e-2, device="cpu")
HETERO = HeteroCDR(config=SMALL, options=QUICK)
PAPER = PaperCDR(config=PaperConfig(hidden=16, width=8, alignment=1.0), options=QUICK)


def wide(planted: Planted, dim: int = NARROW + 8) -> Release:
    """Return the release with more numbers per row, none of which says anything new."""
    return release_with_rows(np.tile(planted.release.matrix, (1, dim // 8)), planted.release.users)


def target_stage(data: TrainingData, method: TwoStageMethod = HETERO) -> TargetStage:
    """Return the untrained target stage of a method."""
    return TargetStage(method._target_network, data, method.config, method.options)


def source_stage(data: TrainingData, method: TwoStageMethod = HETERO) -> SourceStage:
    """Return the untrained source stage of a method, over an untrained target stage."""
    return SourceStage(target_stage(data, method), method.config)


def bases(model: FittedModel, users: Iterable[int]) -> set[Basis]:
    """Return what the recommendations of users, by position, are based on."""
    return {BASES[at] for at in model.bases(np.array(list(users)))}


def keeping(folder: Path) -> tuple[RunLog, list[str]]:
    """Return a run log that keeps finished networks in a folder, and a list of those that are being trained."""
    trained: list[str] = []
    log = RunLog(progress=lambda what, done, *_: trained.append(what) if done else None)
    return replace(log, checkpoints=Checkpoints(finished=folder)), trained


def same(left: FittedModel, right: FittedModel) -> bool:
    """Return whether two models are the same, number for number."""
    names = ("user_vectors", "item_vectors", "item_bias", "in_release")
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def of_release(method: Any) -> type[RecommenderContract]:
    """Return the suite of a method that reads a release, and serves cold users by it."""

    def fit(planted: Planted) -> FittedModel:
        model: FittedModel = method.fit(planted.target, planted.release, validation=planted.validation)
        return model

    return type("OfRelease", (RecommenderContract,), {"fit": staticmethod(fit), "serves_cold_users": True})


class KilledError(Exception):
    """A run that is killed."""


def assert_resumes(fit: Callable[[RunLog], FittedModel], straight: FittedModel, folder: Path, part: str = "") -> None:
    """Stop after four epochs of a network as a kill would, resume, and compare with a run left alone."""
    log, resumed_at = RunLog(checkpoints=Checkpoints(running=folder / "run")), []

    def die(what: str, done: float, *_: object) -> None:
        if done == 4 and what.endswith(part):
            raise KilledError

    with pytest.raises(KilledError):
        fit(replace(log, progress=die))
    assert list(folder.iterdir())
    again = fit(replace(log, progress=lambda what, done, *_: resumed_at.append(done) if what.endswith(part) else None))
    assert min(done for done in resumed_at if done) > 4
    assert np.array_equal(again.score(np.arange(len(again.users))), straight.score(np.arange(len(again.users))))


def assert_a_gradient_reaches_every_parameter(run: Any) -> None:
    """Nothing is left as it was drawn."""
    run.network.train()
    run.step(run.examples).backward()
    for name, parameter in run.network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


class TrainedContract(RecommenderContract):
    """For methods of the target with one network: set ``method`` in place of ``fit``."""

    method: ClassVar[Any]

    @classmethod
    def fit(cls, planted: Planted, log: RunLog = NO_LOG) -> FittedModel:
        """Fit the method to the target."""
        return cls.method.fit(planted.target, validation=planted.validation, log=log)

    @classmethod
    def run(cls, planted: Planted) -> TrainingRun:
        """Return its training, not begun yet."""
        return cls.method.training_run(TrainingData.of(planted.target))

    def test_a_gradient_reaches_every_parameter(self, planted: Planted) -> None:
        """Every part of the network has a purpose."""
        assert_a_gradient_reaches_every_parameter(type(self).run(planted))

    def test_validation_and_the_model_score_alike(self, planted: Planted) -> None:
        """The epoch is picked by the scores that are given in the end."""
        run = type(self).run(planted)
        run.network.eval()
        everyone, items = torch.arange(len(planted.target.users)), torch.arange(len(planted.target.items))
        scores = run.scorer()(everyone, items.tile(len(everyone), 1)).detach().numpy()
        np.testing.assert_allclose(scores, run.fitted_model().score(everyone.numpy()), atol=1e-4)

    def test_the_same_seed_gives_the_same_scores(self, planted: Planted, model: FittedModel) -> None:
        """Also where a run was killed and resumed: whatever was drawn before the kill is drawn again."""
        with TemporaryDirectory() as folder:
            assert_resumes(lambda log: type(self).fit(planted, log), model, Path(folder))


Run = TypeVar("Run", bound=TrainingRun)


def trained(run: Run, options: TrainingOptions) -> Run:
    """Return ``run`` after every epoch of ``options``, without validation."""
    train_network(run, options)
    return run


class PlaintextContract(TrainedContract):
    """For those that read the source's ratings too."""

    serves_cold_users = True

    @classmethod
    def run(cls, planted: Planted) -> TrainingRun:
        """Return its training, not begun yet."""
        return cls.method.training_run(planted.plaintext)

    @classmethod
    def fit(cls, planted: Planted, log: RunLog = NO_LOG) -> FittedModel:
        """Fit the method to both domains in plaintext."""
        return cls.method.fit(planted.target, plaintext_source=planted.source, validation=planted.validation, log=log)

    def test_a_user_without_any_rating_gets_the_item_bias(self, planted: Planted) -> None:
        """Neither side knows the last user."""
        counts = np.diff(planted.source.matrix.indptr)
        last = len(counts) - 1
        others = planted.source.only(np.repeat(np.arange(len(counts)), counts) != last)
        method = replace(self.method, options=replace(self.method.options, epochs=3))
        model = method.fit(planted.target, plaintext_source=others)
        assert not model.in_release[last]
        assert np.ptp(model.score(np.array([last]))[0] - model.item_bias) < 1e-5

    def test_an_empty_source_is_no_reason_to_fail(self, planted: Planted) -> None:
        """What is left is a method of the target alone."""
        empty = planted.source.only(np.zeros(len(planted.source), dtype=bool))
        model = self.method.fit(planted.target, plaintext_source=empty, validation=planted.validation)
        recommended = model.recommend(planted.target.users[:20], k=5)
        assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in recommended]) > 0.9
