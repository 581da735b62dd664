"""The suite every model inherits: adding a method costs two lines of tests and cannot skip the awkward cases."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeVar

import numpy as np
import pytest
import torch

from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.models.base import PlaintextMethod
from pricdr.models.fitted import NOTHING_CHOSEN, Basis, FittedModel
from pricdr.models.methods.linear import Popularity
from pricdr.models.methods.networks import TrainingRun, train_run
from pricdr.release import Release
from pricdr.testing.releases import release_with_rows
from pricdr.training.checkpoints import CheckpointFiles
from pricdr.training.loop import TrainingOptions
from pricdr.training.run_log import NO_LOG, RunLog


@dataclass(frozen=True, eq=False)
class Planted:
    """Two tastes, obvious to anyone: user u likes item i when both are even or both are odd.

    The last users have no target rating, but a release row, and source ratings, that give their taste away.
    """

    target: Ratings
    release: Release
    source: Ratings
    validation: HeldOut
    cold: tuple[str, ...]

    @classmethod
    def pair(cls, n_users: int = 60, n_items: int = 40, n_cold: int = 12) -> "Planted":
        """The planted pair; every user has rated a third of what it likes."""
        rng = np.random.default_rng(0)
        users = tuple(f"u{u:02d}" for u in range(n_users))
        items = tuple(f"i{i:02d}" for i in range(n_items))
        rated = {
            (u, i)
            for u in range(n_users - n_cold)
            for i in rng.choice(np.arange(u % 2, n_items, 2), n_items // 6, replace=False)
        }
        target = Ratings.from_triples([users[u] for u, _ in rated], [items[i] for _, i in rated])
        target = target.select(users=users, items=items)
        taste = np.array([[1.0, -1.0] if u % 2 else [-1.0, 1.0] for u in range(n_users)])
        release = (taste @ rng.standard_normal((2, 8)) + 0.05 * rng.standard_normal((n_users, 8))).astype(np.float32)
        unrated = [next(i for i in range(u % 2, n_items, 2) if (u, i) not in rated) for u in range(n_users)]
        others = np.array([np.arange(1 - u % 2, n_items, 2) for u in range(n_users)])
        validation = HeldOut(np.arange(n_users), np.array(unrated), others)
        watched = [(u, i) for u in range(n_users) for i in rng.choice(np.arange(u % 2, 30, 2), 7, replace=False)]
        source = Ratings.from_triples([users[u] for u, _ in watched], [f"s{i:02d}" for _, i in watched])
        return cls(
            target, release_with_rows(release, users), source.select(users=users), validation, users[n_users - n_cold :]
        )

    @property
    def domains(self) -> DomainPair:
        """Both sides in plaintext."""
        return DomainPair(self.source, self.target)


class RecommenderContract:
    """Inherit, and set ``fit``: planted data to a fitted model, recorded where it is trained."""

    fit: ClassVar[Callable[..., FittedModel]]
    serves_warm_users: ClassVar[bool] = True
    """Whether users with a history get more than what is popular, by their history or otherwise."""
    serves_cold_users: ClassVar[bool] = False

    @pytest.fixture(scope="class")
    @classmethod
    def planted(cls) -> Planted:
        """Data whose right answer is obvious."""
        return Planted.pair()

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, planted: Planted) -> FittedModel:
        """The method fitted to it."""
        return cls.fit(planted)

    def test_the_same_seed_gives_the_same_scores(self, planted: Planted, model: FittedModel) -> None:
        """Runs repeat on one device."""
        again = type(self).fit(planted)
        everyone = np.arange(len(model.users))
        assert np.array_equal(model.score(everyone), again.score(everyone))

    def test_every_user_gets_finite_scores(self, planted: Planted, model: FittedModel) -> None:
        """Users without any rating too."""
        scores = model.score(np.arange(len(model.users)))
        assert scores.shape == (len(model.users), len(planted.target.items))
        assert np.isfinite(scores).all()

    def test_a_seen_item_is_never_recommended(self, planted: Planted, model: FittedModel) -> None:
        """Nor one item twice; ranks run from 1; scores never rise."""
        seen = planted.target.matrix
        for user in planted.target.users[:10]:
            at = planted.target.users.index(user)
            recommended = model.recommend([user], k=len(planted.target.items))
            items = [planted.target.items.index(r.item) for r in recommended]
            assert not set(items) & set(seen.indices[seen.indptr[at] : seen.indptr[at + 1]].tolist())
            assert len(set(items)) == len(items) == len(planted.target.items) - (seen.indptr[at + 1] - seen.indptr[at])
            assert [r.rank for r in recommended] == list(range(1, len(recommended) + 1))
            assert all(a.score >= b.score for a, b in pairwise(recommended))

    def test_unknown_users_get_what_is_popular_and_it_says_so(self, planted: Planted, model: FittedModel) -> None:
        """A user neither party knows is no reason to fail."""
        recommended = model.recommend(["never heard of"], k=3)
        counts = np.bincount(planted.target.matrix.indices, minlength=len(planted.target.items))
        assert [r.basis for r in recommended] == [Basis.POPULARITY] * 3
        assert [counts[planted.target.items.index(r.item)] for r in recommended] == sorted(counts)[::-1][:3]

    def test_a_saved_model_is_read_back_without_the_method(
        self, model: FittedModel, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """A folder holds numbers and a name: it scores alike wherever it is read."""
        again = FittedModel.load(model.save(tmp_path_factory.mktemp("saved") / "model"))
        everyone = np.arange(len(model.users))
        assert (again.method, again.chosen) == (model.method, model.chosen)
        assert np.array_equal(again.score(everyone), model.score(everyone))

    def test_the_planted_taste_is_found(self, planted: Planted, model: FittedModel) -> None:
        """Warm users by their history, cold users by their source row; whoever is not served so gets what is popular.

        Half of what is popular is to anybody's taste: a method that has no business knowing a taste must not know it.
        """
        warm, cold = planted.target.users[:20], planted.cold
        for users, known in ((warm, self.serves_warm_users), (cold, self.serves_cold_users)):
            recommended = model.recommend(users, k=5)
            right = [planted.target.items.index(r.item) % 2 == int(r.user[1:]) % 2 for r in recommended]
            if known:
                assert np.mean(right) > 0.9
            else:
                assert np.mean(right) < 0.8

    def test_it_is_better_than_popularity_by_far(self, planted: Planted, model: FittedModel) -> None:
        """Over the users it is made for; a method that is made for nobody is popularity itself."""
        everyone = np.arange(len(planted.target.users))
        if not self.serves_warm_users:
            popular = Popularity().fit(planted.target)
            assert np.array_equal(model.score(everyone), popular.score(everyone))
            counts = np.bincount(planted.target.matrix.indices, minlength=len(planted.target.items))
            assert np.array_equal(popular.score(everyone)[0], counts)
            return
        users = planted.validation.users
        warm = np.diff(planted.target.matrix.indptr)[users] > 0
        held_out = planted.validation.only(warm | self.serves_cold_users)
        own, popular = [
            per_user(sampled_ranks(fitted.score_candidates, held_out))["NDCG@10"].mean()
            for fitted in (model, Popularity().fit(planted.target))
        ]
        assert own > popular + 0.3


class KilledError(Exception):
    """A run that is killed."""


class TrainedContract(RecommenderContract):
    """For methods that are trained: set ``run`` too, planted data to a training that has not begun."""

    run: ClassVar[Callable[[Planted], TrainingRun]]

    def test_a_gradient_reaches_every_parameter(self, planted: Planted) -> None:
        """Nothing is left as it was drawn."""
        run = type(self).run(planted)
        run.network.train()
        run.step(torch.arange(len(planted.target.users))).backward()  # type: ignore[no-untyped-call]
        for name, parameter in run.network.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name

    def test_validation_and_the_model_score_alike(self, planted: Planted) -> None:
        """The epoch is picked by the scores that are given in the end."""
        run = type(self).run(planted)
        run.network.eval()
        everyone, items = torch.arange(len(planted.target.users)), torch.arange(len(planted.target.items))
        scores = run.scorer()(everyone, items.tile(len(everyone), 1)).detach().numpy()
        np.testing.assert_allclose(scores, run.fitted_model().score(everyone.numpy()), atol=1e-4)

    def test_a_killed_run_resumes_to_the_same_model(
        self, planted: Planted, model: FittedModel, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        """Stop after four epochs as a kill would, resume, and compare with a run that was never interrupted."""
        checkpoints = CheckpointFiles(tmp_path_factory.mktemp("run") / "checkpoint")

        def die(what: str, done: float, total: int, note: str = "") -> None:
            if done == 4:
                raise KilledError

        with pytest.raises(KilledError):
            type(self).fit(planted, RunLog(checkpoints=checkpoints, progress=die))
        assert list(checkpoints.path.parent.iterdir())
        resumed = type(self).fit(planted, RunLog(checkpoints=checkpoints))
        everyone = np.arange(len(model.users))
        assert np.array_equal(resumed.score(everyone), model.score(everyone))


Run = TypeVar("Run", bound=TrainingRun)


def trained(run: Run, options: TrainingOptions) -> Run:
    """Return ``run`` after every epoch of ``options``, without validation."""
    train_run(run, options, validation=None, chosen=NOTHING_CHOSEN, log=NO_LOG)
    return run


class PlaintextContract(TrainedContract):
    """For trained methods that read the source's ratings: set ``method`` in place of ``fit``."""

    method: ClassVar[PlaintextMethod]
    serves_cold_users = True

    @classmethod
    def fit(cls, planted: Planted, log: RunLog = NO_LOG) -> FittedModel:
        """Fit the method to both domains in plaintext."""
        return cls.method.fit_plaintext(planted.target, planted.source, validation=planted.validation, log=log)

    def test_a_user_without_any_rating_gets_the_item_bias(self, planted: Planted) -> None:
        """Neither side knows the last user."""
        counts = np.diff(planted.source.matrix.indptr)
        last = len(counts) - 1
        others = planted.source.only(np.repeat(np.arange(len(counts)), counts) != last)
        model = self.method.fit_plaintext(planted.target, others)
        assert not model.in_release[last]
        assert np.ptp(model.score(np.array([last]))[0] - model.item_bias) < 1e-5

    def test_an_empty_source_is_no_reason_to_fail(self, planted: Planted) -> None:
        """What is left is a method of the target alone."""
        empty = planted.source.only(np.zeros(len(planted.source), dtype=bool))
        model = self.method.fit_plaintext(planted.target, empty, validation=planted.validation)
        recommended = model.recommend(planted.target.users[:20], k=5)
        assert np.mean([int(r.item[1:]) % 2 == int(r.user[1:]) % 2 for r in recommended]) > 0.9
