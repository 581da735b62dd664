"""An exported model serves as the full one does, and holds none of the ratings it was trained on."""

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from safetensors.numpy import load_file

from pricdr.data.ratings import Ratings
from pricdr.errors import InputError
from pricdr.models.fitted import FittedModel
from pricdr.models.methods.dmf import DMF
from pricdr.models.methods.factorisation import BPR, BPRConfig, NeuMF, NeuMFConfig
from pricdr.models.methods.hetero import HeteroCDR
from pricdr.models.methods.linear import EASE, EASERelease, EASESource, ItemKNN, Popularity, RidgeRelease
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions

QUICK = TrainingOptions(epochs=1, batch=64, device="cpu")
PLANTED = Planted.pair()
SERVING = {
    "popularity": lambda: Popularity().fit(PLANTED.target),
    "dmf": lambda: DMF(options=QUICK).fit(PLANTED.target),
    "bpr": lambda: BPR(config=BPRConfig(width=4), options=QUICK).fit(PLANTED.target),
    "neumf": lambda: NeuMF(config=NeuMFConfig(product_width=4, width=8), options=QUICK).fit(PLANTED.target),
    "neumf of one layer": lambda: NeuMF(config=NeuMFConfig(width=4, layers=1), options=QUICK).fit(PLANTED.target),
    "hetero": lambda: HeteroCDR(options=QUICK).fit(PLANTED.target, PLANTED.release),
    "ridge-release": lambda: RidgeRelease().fit(PLANTED.target, PLANTED.release),
}


def exported(folder, model):
    return FittedModel.load(model.without_histories().save(folder))


@pytest.mark.parametrize("name", SERVING)
def test_an_export_with_histories_handed_in_recommends_as_the_full_model(tmp_path, name):
    full = SERVING[name]()
    served = exported(tmp_path / "export", full)
    items = len(full.items)  # without histories, rated items come back
    assert len(served.recommend(full.users[:1], k=items)) == items > len(full.recommend(full.users[:1], k=items))
    everyone = [*full.users, "never heard of"]
    assert served.recommend(everyone, k=7, seen=PLANTED.target) == full.recommend(everyone, k=7)
    positions = np.arange(len(full.users))
    assert np.array_equal(served.bases(positions), full.bases(positions))
    assert served.origin.trained_on is None
    again = exported(tmp_path / "again", served)
    assert again.recommend(everyone, k=7, seen=PLANTED.target) == full.recommend(everyone, k=7)


def test_histories_of_users_the_model_never_met_are_left_out_too():
    model = Popularity().fit(PLANTED.target)
    best = model.recommend(["somebody"], k=1)[0].item
    history = Ratings.from_triples(["somebody", "else"], [best, "no such item"])
    assert best not in {found.item for found in model.recommend(["somebody"], k=len(model.items), seen=history)}


def others(ratings: Ratings) -> Ratings:
    """As many ratings per user and per item, in other places: pairs of them have exchanged an item."""
    cells = ratings.matrix.toarray()
    for (u, v), (i, j) in product(pairwise(range(cells.shape[0])), pairwise(range(cells.shape[1]))):
        if cells[u, i] and cells[v, j] and not cells[u, j] and not cells[v, i]:
            cells[u, i] = cells[v, j] = 0
            cells[u, j] = cells[v, i] = 1
    rows, columns = np.nonzero(cells)
    return Ratings.from_codes(rows, columns, np.ones(len(rows)), ratings.users, ratings.items)


def test_no_rating_can_be_read_from_an_export(tmp_path):
    """Replace the histories behind fixed vectors by others: not a byte of the exported folder changes."""
    full = SERVING["bpr"]()
    changed = others(PLANTED.target)
    assert (changed.matrix != full.seen).nnz > 20
    exported(tmp_path / "one", full)
    exported(tmp_path / "other", replace(full, seen=changed.matrix))
    for file in sorted((tmp_path / "one").iterdir()):
        assert file.read_bytes() == (tmp_path / "other" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("name", SERVING)
def test_no_array_of_an_export_is_as_long_as_the_ratings_or_names_pairs(tmp_path, name):
    full, folder = SERVING[name](), tmp_path / "export"
    exported(folder, full)
    arrays = load_file(folder / "model.safetensors")
    users, items = len(full.users), len(full.items)
    assert not [name for name in arrays if "seen" in name]
    for array in arrays.values():
        assert array.dtype != np.int64
        assert array.size != full.seen.nnz
        assert array.shape not in {(users, items), (items, users)}
    assert (arrays["item_counts"].shape, arrays["has_history"].shape) == ((items,), (users,))
    assert set(np.unique(arrays["has_history"])) <= {0, 1}
    assert json.loads((folder / "model.json").read_text())["trained_on"] is None
    files = {"model.safetensors", "model.json", "users.txt", "items.txt"}
    assert {file.name for file in folder.iterdir()} - {"release.certificate.json"} == files  # a promise is no rating


@pytest.mark.parametrize(
    ("method", "source"),
    [
        *((ItemKNN(), {}), (EASE(), {})),
        (EASESource(), {"plaintext_source": PLANTED.source}),
        (EASERelease(), {"release": PLANTED.release}),
    ],
)
def test_models_that_score_by_the_ratings_are_not_exported(method, source):
    model = method.fit(PLANTED.target, **source)
    with pytest.raises(InputError, match=f"of method {method.name} scores by the ratings themselves"):
        model.without_histories()
