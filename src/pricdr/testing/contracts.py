"""The suite every model inherits: adding a method costs two lines of tests and cannot skip the awkward cases."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from pricdr._publish import publish
from pricdr.data.csr import sp
from pricdr.data.ratings import Ids, Ratings
from pricdr.data.splits import HeldOut
from pricdr.evaluation.metrics import per_user
from pricdr.evaluation.ranking import sampled_ranks
from pricdr.models.fitted import Basis, FittedModel
from pricdr.models.methods.linear import Popularity
from pricdr.models.training_data import TrainingData
from pricdr.privacy.accounting import Guarantee
from pricdr.release import Release
from pricdr.strategies import JLT


@dataclass(frozen=True, eq=False)
class Planted:
    """Two tastes: users like items of their own parity; the last ones have a release row and source ratings alone."""

    target: Ratings
    release: Release
    source: Ratings
    validation: HeldOut
    cold: tuple[str, ...]

    @classmethod
    def pair(cls, n_users: int = 60, n_items: int = 40, n_cold: int = 12) -> "Planted":
        """Return the pair; every user has rated a third of what it likes."""
        rng = np.random.default_rng(0)
        users = tuple(f"u{u:02d}" for u in range(n_users))
        rated, watched = np.zeros((n_users, n_items)), np.zeros((n_users, 30))
        for u in range(n_users - n_cold):
            rated[u, rng.choice(np.arange(u % 2, n_items, 2), n_items // 6, replace=False)] = 1
        taste = np.array([[1.0, -1.0] if u % 2 else [-1.0, 1.0] for u in range(n_users)])
        release = (taste @ rng.standard_normal((2, 8)) + 0.05 * rng.standard_normal((n_users, 8))).astype(np.float32)
        unrated = [next(i for i in range(u % 2, n_items, 2) if not rated[u, i]) for u in range(n_users)]
        others = np.array([np.arange(1 - u % 2, n_items, 2) for u in range(n_users)])
        for u in range(n_users):
            watched[u, rng.choice(np.arange(u % 2, 30, 2), 7, replace=False)] = 1
        return cls(
            target=Ratings(sp.csr_array(rated), users, tuple(f"i{i:02d}" for i in range(n_items)), has_values=False),
            release=release_with_rows(release, users),
            source=Ratings(sp.csr_array(watched), users, tuple(f"s{i:02d}" for i in range(30)), has_values=False),
            validation=HeldOut(np.arange(n_users), np.array(unrated), others),
            cold=users[n_users - n_cold :],
        )

    @property
    def plaintext(self) -> TrainingData:
        return TrainingData.plaintext(self.target, self.source)


def release_with_rows(rows: npt.NDArray[np.float32], users: Sequence[str]) -> Release:
    """Return a release of these rows. Its certificate is that of a private one, of no ratings; the rows are not its."""
    return replace(_release_of_nothing(tuple(users), rows.shape[1]), matrix=rows.astype(np.float32))


@lru_cache(maxsize=64)
def _release_of_nothing(users: Ids, dim: int) -> Release:
    nobody = Ratings.from_triples([users[0]], ["i"]).only(np.zeros(1, dtype=bool))
    return publish(nobody, Guarantee(epsilon=1, delta=1e-6), strategy=JLT(dim=dim), users=users)


class RecommenderContract:
    """Inherit, and set ``fit``: planted data to a fitted model, recorded where it is trained."""

    fit: ClassVar[Callable[..., FittedModel]]
    serves_warm_users: ClassVar[bool] = True
    """Whether users with a history get more than what is popular, by their history or otherwise."""
    serves_cold_users: ClassVar[bool] = False

    @pytest.fixture(scope="class")
    @classmethod
    def planted(cls) -> Planted:
        return Planted.pair()

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, planted: Planted) -> FittedModel:
        return cls.fit(planted)

    def test_the_same_seed_gives_the_same_scores(self, planted: Planted, model: FittedModel) -> None:
        again = type(self).fit(planted)
        everyone = np.arange(len(model.users))
        assert np.array_equal(model.score(everyone), again.score(everyone))

    def test_every_user_gets_finite_scores(self, planted: Planted, model: FittedModel) -> None:
        scores = model.score(np.arange(len(model.users)))
        assert scores.shape == (len(model.users), len(planted.target.items))
        assert np.isfinite(scores).all()

    def test_a_seen_item_is_never_recommended(self, planted: Planted, model: FittedModel) -> None:
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
        recommended = model.recommend(["never heard of"], k=3)
        counts = np.bincount(planted.target.matrix.indices, minlength=len(planted.target.items))
        assert [r.basis for r in recommended] == [Basis.POPULARITY] * 3
        assert [counts[planted.target.items.index(r.item)] for r in recommended] == sorted(counts)[::-1][:3]

    def test_a_saved_model_is_read_back_without_the_method(
        self, model: FittedModel, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        again = FittedModel.load(model.save(tmp_path_factory.mktemp("saved") / "model"))
        everyone = np.arange(len(model.users))
        for name in ("method", "users", "items", "chosen", "origin"):
            assert getattr(again, name) == getattr(model, name), name
        assert np.array_equal(again.score(everyone), model.score(everyone))
        assert np.array_equal(again.seen.toarray() != 0, model.seen.toarray() != 0)
        assert np.array_equal(again.bases(everyone), model.bases(everyone))

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
