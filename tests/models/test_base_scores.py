"""A base's scores are added for users with a history, as far as validation shows a gain."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from pricdr import FittedModel
from pricdr.errors import ParameterError
from pricdr.models import BPR, DMF, HeteroCDR, SourceStageConfig, register
from pricdr.models.base import TargetMethod
from pricdr.models.base_scores import WEIGHT, best_weight, with_base
from pricdr.models.catalogue import METHODS
from pricdr.models.fitted import Chosen
from pricdr.models.gates import ndcg_of
from pricdr.models.methods.dmf import TargetStageConfig
from tests.models.contracts import QUICK

SMALL = SourceStageConfig(hidden=16, width=8, dropout=0.0, entry_dropout=0.3)


TINY = TargetStageConfig(hidden=16, width=8)
BARELY_TRAINED = replace(QUICK, epochs=1)
"""So that a base has something to add."""


def hetero(base):
    return HeteroCDR(config=replace(SMALL, base=base), options=BARELY_TRAINED)


@dataclass(frozen=True, kw_only=True)
class Clairvoyant(TargetMethod):
    """Knows the planted tastes: what a perfect base would be."""

    name = "clairvoyant"
    summary = "even users like even items"

    def _train(self, data, *, validation, chosen, log):
        def parity(ids):
            return np.array([[1.0, 0.0] if int(name[1:]) % 2 else [0.0, 1.0] for name in ids], dtype=np.float32)

        bias = np.zeros(len(data.items), dtype=np.float32)
        return data.model(self.name, parity(data.users), parity(data.items), bias), Chosen()


@pytest.fixture(scope="module", autouse=True)
def known():
    if Clairvoyant.name not in METHODS:
        register(Clairvoyant)


def test_scores_are_added_for_users_with_a_history_and_for_nobody_else(planted):
    model, base = (
        method.fit(planted.target, validation=planted.validation)
        for method in (DMF(config=TINY, options=BARELY_TRAINED), BPR(options=BARELY_TRAINED))
    )
    users, warm = np.arange(len(model.users)), np.diff(model.seen.indptr) > 0
    scores = with_base(model, base, 0.5).score(users)
    np.testing.assert_allclose(scores[warm], (model.score(users) + 0.5 * base.score(users))[warm], rtol=1e-4, atol=1e-4)
    assert np.array_equal(scores[~warm], model.score(users)[~warm])
    assert with_base(model, base, 0.0) is model


def test_a_base_that_knows_more_is_used_and_one_that_knows_nothing_is_not(planted):
    own = DMF(config=TINY, options=BARELY_TRAINED).fit(planted.target, validation=planted.validation)
    perfect = Clairvoyant().fit(planted.target)
    noise = np.random.default_rng(0).standard_normal(perfect.user_vectors.shape).astype(np.float32)
    assert best_weight(own, perfect, planted.validation) > 0
    assert best_weight(perfect, replace(perfect, user_vectors=noise), planted.validation) == 0


def test_a_plug_in_can_be_the_base_with_a_release_and_without(planted, tmp_path):
    warm = planted.validation.only(planted.validation.users < 48)
    for release in (None, planted.release):
        alone, together = (
            hetero(base).fit(planted.target, release, validation=planted.validation) for base in ("dmf", "clairvoyant")
        )
        assert together.chosen.settings[WEIGHT] > 0
        assert ndcg_of(together, warm).mean() >= ndcg_of(alone, warm).mean()
        cold = np.arange(48, 60)
        assert np.array_equal(together.score(cold), alone.score(cold))
        loaded = FittedModel.load(together.save(tmp_path / f"{release is None}"))
        assert loaded.chosen == together.chosen


def test_the_weight_is_carried_over_and_a_base_without_one_is_not_trained(planted):
    measured = hetero("clairvoyant").fit(planted.target, planted.release, validation=planted.validation)
    followed = hetero("clairvoyant").fit(planted.target, planted.release, chosen=measured.chosen)
    assert followed.chosen.settings == measured.chosen.settings
    assert followed.user_vectors.shape == measured.user_vectors.shape
    unused = replace(measured.chosen, settings={WEIGHT: 0.0})
    assert hetero("clairvoyant").fit(planted.target, planted.release, chosen=unused).user_vectors.shape[1] == 8


@pytest.mark.parametrize(
    ("base", "rule"),
    [
        ("neumf", "with a vector for each user and item, to put beside others: neumf has none"),
        ("itemknn", "with a vector for each user and item, to put beside others: itemknn has none"),
        ("popularity", "with a vector for each user and item, to put beside others: popularity has none"),
        ("ridge-release", "of the target's ratings alone, and ridge-release is not"),
        ("hetero", "of the target's ratings alone, and hetero is not"),
        ("nothing", "nothing"),
    ],
)
def test_what_cannot_be_a_base_is_refused_in_one_line(planted, refused, base, rule):
    method = hetero(base)
    assert rule in refused(lambda: method.fit(planted.target, validation=planted.validation), ParameterError)
