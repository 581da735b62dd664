"""A snapshot answers what ``pricdr recommend`` writes, whatever the model."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st

from pricdr.errors import InputError
from pricdr.models.fitted import Basis, FittedModel
from pricdr.serving.snapshot import MAX_K, ItemsQuery, Snapshot
from tests.models.test_recommending import whole_model
from tests.serving.conftest import answer_of, small_model


def recommended(model, user, k):
    return [(item.item, item.score, item.rank, item.basis) for item in model.recommend([user], k)]


def similar(snapshot, item, k):
    return snapshot.similar_to([ItemsQuery(item, k)])[0]


def answered(snapshot, user, k):
    answer = answer_of(snapshot, user, k)
    assert answer.user == user
    return [(item.item, item.score, item.rank, answer.basis) for item in answer.items]


@given(
    seed=st.integers(0, 2**32 - 1),
    users=st.integers(1, 12),
    items=st.integers(1, 40),
    k=st.integers(1, 50),
    interaction=st.booleans(),
)
def test_it_answers_what_recommend_writes(seed, users, items, k, interaction):
    """Whole numbers, so that every order of additions gives the same score, and ties are everywhere."""
    model = whole_model(seed, users, items, interaction)
    snapshot = Snapshot(model)
    for user in (*model.users, "stranger"):
        assert answered(snapshot, user, k) == recommended(model, user, k)


@pytest.mark.parametrize("sparse", ["users", "both"])
def test_it_answers_what_recommend_writes_where_vectors_are_sparse(sparse):
    rng = np.random.default_rng(3)
    model = whole_model(3, 12, 30)
    weights = rng.integers(-2, 3, (30, 30)).astype(np.float32)
    model = replace(
        model,
        user_vectors=sp.csr_array(model.seen.astype(np.float32)),
        item_vectors=sp.csr_array(weights) if sparse == "both" else np.asfortranarray(weights),
    )
    snapshot = Snapshot(model)
    for user in model.users:
        assert answered(snapshot, user, 7) == recommended(model, user, 7)
    assert similar(snapshot, "i3", 5)


def test_the_basis_of_every_kind_of_user():
    snapshot = Snapshot(small_model())
    expected = {"u0": "release", "u10": "popularity", "u38": "both", "u39": "history", "stranger": "popularity"}
    assert {user: answer_of(snapshot, user, 1).basis.value for user in expected} == expected


def test_a_model_without_items_answers_with_nothing():
    empty = np.zeros((0, 2), dtype=np.float32)
    model = FittedModel(
        "bpr", ("u",), (), np.zeros((1, 2), np.float32), empty, empty[:, 0], sp.csr_array((1, 0)), np.zeros(1, bool)
    )
    snapshot = Snapshot(model)
    assert answer_of(snapshot, "u", 5).items == [] == answer_of(snapshot, "stranger", 5).items
    assert snapshot.answers([]) == []


def test_a_history_is_what_the_user_rated_and_an_exported_model_answers_without():
    model = small_model()
    snapshot, exported = Snapshot(model), Snapshot(model.without_histories())
    assert set(snapshot.history("u39")) == {model.items[at] for at in model.seen[[39]].indices}
    assert snapshot.history("u0") == snapshot.history("stranger") == exported.history("u39") == []
    assert not set(snapshot.history("u39")) & {item.item for item in answer_of(snapshot, "u39", MAX_K).items}
    assert answer_of(exported, "u39", 3).basis is Basis.HISTORY
    assert answered(exported, "stranger", 5) == recommended(model, "stranger", 5)


def test_similar_items_are_those_with_the_largest_cosine():
    model = small_model()
    vectors = model.item_vectors / np.linalg.norm(model.item_vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors[4]
    order = [at for at in np.argsort(-cosines, kind="stable") if at != 4][:6]
    found = similar(Snapshot(model), "i4", 6)
    assert [item.item for item in found] == [model.items[at] for at in order]
    np.testing.assert_allclose([item.score for item in found], cosines[order], rtol=1e-5)
    assert [item.rank for item in found] == [1, 2, 3, 4, 5, 6]
    large = Snapshot(replace(model, item_vectors=(model.item_vectors * 1e25).astype(np.float32)))
    assert [item.item for item in similar(large, "i4", 6)] == [item.item for item in found]  # nothing overflows
    vectors = model.item_vectors.copy()
    vectors[4] = vectors[9] = 0
    snapshot = Snapshot(replace(model, item_vectors=vectors))
    assert similar(snapshot, "i4", 5) == []
    assert len(similar(snapshot, "i5", MAX_K)) == len(model.items) - 3


def test_unknown_items_and_models_without_vectors_say_so():
    model = small_model()
    assert Snapshot(model).similar_to([ItemsQuery("nowhere", 5)]) == [None]
    many = Snapshot(model).similar_to([ItemsQuery("i4", 5), ItemsQuery("nowhere", 3), ItemsQuery("i7", 2)])
    assert many == [similar(Snapshot(model), *query) for query in (("i4", 5), ("nowhere", 3), ("i7", 2))]
    popularity = replace(
        model, user_vectors=np.zeros((40, 0), dtype=np.float32), item_vectors=np.zeros((60, 0), dtype=np.float32)
    )
    assert not Snapshot(popularity).compares_items
    assert similar(Snapshot(popularity), "i4", 5) is None


def test_a_fingerprint_covers_every_file_and_no_model_is_refused(saved, tmp_path, folder):
    one, two = Snapshot.load(saved / "one"), Snapshot.load(saved / "two")
    assert one.fingerprint == Snapshot.load(folder).fingerprint != two.fingerprint
    assert (folder / "model.json").read_bytes() == (saved / "two" / "model.json").read_bytes()
    with pytest.raises(InputError, match="no such folder"):
        Snapshot.load(tmp_path / "nowhere")
    (folder / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match="holds no model that can be read"):
        Snapshot.load(folder)
