import numpy as np
import pytest
import scipy.sparse as sp

from pricdr.errors import InputError
from pricdr.model_files import About, load_model, save_model
from pricdr.models.factorisation.neumf import NeuMF, NeuMFConfig
from pricdr.models.linear.ease import EASE
from pricdr.models.linear.ease_source import EASESource
from pricdr.models.linear.itemknn import ItemKNN
from pricdr.models.linear.ridge_release import RidgeRelease
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions

QUICK = TrainingOptions(epochs=1, batch=64, device="cpu")
DEEP = NeuMF(config=NeuMFConfig(product_width=4, width=8), options=QUICK)
SHALLOW = NeuMF(config=NeuMFConfig(product_width=4, width=8, layers=1), options=QUICK)
KINDS = {
    "both sparse": (ItemKNN().fit, "target"),
    "sparse users": (EASE().fit, "target"),
    "sparse items": (EASESource().fit_plaintext, "domains"),
    "no history": (lambda release: RidgeRelease().fit(Planted.pair().target, release), "release"),
    "interaction": (DEEP.fit, "target"),
    "interaction of one layer": (SHALLOW.fit, "target"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_comes_back_as_it_was_saved(tmp_path, kind):
    planted = Planted.pair()
    fit, what = KINDS[kind]
    model = fit(getattr(planted, what))
    about = About(model.method, {"weight": 0.3}, "fingerprint", None, plaintext_source=what == "domains")
    save_model(tmp_path, model, about)
    loaded, told = load_model(tmp_path)
    assert told == about
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


@pytest.mark.parametrize("kind", ["both sparse", "interaction"])
def test_a_damaged_model_is_refused(tmp_path, kind):
    planted = Planted.pair()
    fit, what = KINDS[kind]
    model = fit(getattr(planted, what))
    save_model(tmp_path, model, About(model.method, {}, "fingerprint", None))
    arrays = tmp_path / "model.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-100])
    with pytest.raises(InputError, match="no model that can be read"):
        load_model(tmp_path)
