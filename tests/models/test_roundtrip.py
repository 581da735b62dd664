import numpy as np
import pytest
import scipy.sparse as sp

from pricdr.models.fitted import FittedModel
from pricdr.models.methods.factorisation import NeuMF, NeuMFConfig
from pricdr.models.methods.hetero import HeteroCDR
from pricdr.models.methods.linear import EASE, EASESource, ItemKNN, RidgeRelease
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions

QUICK = TrainingOptions(epochs=1, batch=64, device="cpu")
DEEP = NeuMF(config=NeuMFConfig(product_width=4, width=8), options=QUICK)
HETERO = HeteroCDR(options=QUICK)
SHALLOW = NeuMF(config=NeuMFConfig(product_width=4, width=8, layers=1), options=QUICK)
KINDS = {
    "both sparse": lambda p: ItemKNN().fit(p.target),
    "sparse users": lambda p: EASE().fit(p.target),
    "sparse items": lambda p: EASESource().fit_plaintext(p.target, p.source),
    "no history": lambda p: RidgeRelease().fit(p.target, p.release),
    "interaction": lambda p: DEEP.fit(p.target),
    "chosen by validation": lambda p: DEEP.fit(p.target, validation=p.validation),
    "a trusted release": lambda p: HETERO.fit(p.target, p.release, validation=p.validation),
    "interaction of one layer": lambda p: SHALLOW.fit(p.target),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_comes_back_as_it_was_saved(tmp_path, kind):
    planted = Planted.pair()
    model = KINDS[kind](planted)
    assert model.save(tmp_path / "model") == tmp_path / "model"
    loaded = FittedModel.load(tmp_path / "model")
    assert loaded.origin == model.origin
    assert loaded.chosen == model.chosen
    assert (loaded.method, loaded.users, loaded.items) == (model.method, model.users, model.items)
    for name in ("user_vectors", "item_vectors"):
        left, right = getattr(loaded, name), getattr(model, name)
        assert sp.issparse(left) == sp.issparse(right)
        assert left.shape == right.shape
        assert left.dtype == right.dtype == np.float32
    assert (loaded.interaction is None) == (model.interaction is None)
    everyone = np.arange(len(model.users))
    # the order in memory may differ, and with it the last bit of a sum
    np.testing.assert_allclose(loaded.score(everyone), model.score(everyone), rtol=1e-5, atol=1e-7)
    assert np.array_equal(loaded.in_release, model.in_release)
    assert np.array_equal(loaded.seen.toarray() != 0, model.seen.toarray() != 0)
    some = [*model.users[:3], planted.cold[0], "never heard of"]
    assert [(r.item, r.basis) for r in loaded.recommend(some, k=3)] == [
        (r.item, r.basis) for r in model.recommend(some, k=3)
    ]
