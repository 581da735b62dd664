"""Recommending in blocks of any size gives the same result as scoring and sorting everything."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from pricdr import Ratings
from pricdr.errors import BusyError, InputError, OutputError, ParameterError
from pricdr.models import recommend as recommending
from pricdr.models.fitted import FittedModel
from pricdr.models.interaction import Interaction
from pricdr.models.methods.factorisation import NeuMF, NeuMFConfig
from pricdr.models.methods.linear import EASE, ItemKNN
from pricdr.models.recommend import BestItems, Recommendation, top_items
from pricdr.models.recommendation_files import kept_parts, parts_folder
from pricdr.testing.contracts import Planted
from pricdr.training.loop import TrainingOptions


def block_sizes(cells=1 << 23, items=1 << 13, rows=1 << 18):
    """Use other sizes: scores in a block, items in a block, recommendations in a part."""
    return patch.multiple(recommending, SCORES_AT_ONCE=cells, _ITEMS_AT_ONCE=items, ROWS_IN_A_PART=rows)


def whole_model(seed, users, items, interaction=False):
    """A model of small whole numbers: many ties, and products that are exact in any order."""
    rng = np.random.default_rng(seed)

    def numbers(*shape):
        return rng.integers(-2, 3, shape).astype(np.float32)

    seen = sp.csr_array((rng.random((users, items)) < rng.choice([0.1, 0.9, 1.0])).astype(np.float64))
    layers = ((numbers(3, 2), numbers(3)), (numbers(1, 3), numbers(1)))
    return FittedModel(
        method="bpr",
        users=tuple(f"u{at}" for at in range(users)),
        items=tuple(f"i{at}" for at in range(items)),
        user_vectors=numbers(users, 3),
        item_vectors=numbers(items, 3),
        item_bias=numbers(items),
        seen=seen,
        in_release=rng.random(users) < 0.5,
        interaction=Interaction(numbers(users, 2), numbers(items, 2), layers) if interaction else None,
    )


def by_sorting(model, users, k, seen=None):
    """The expected recommendations, computed the slow way: every score of every user, sorted."""
    at = {user: position for position, user in enumerate(model.users)}
    rated = {} if seen is None else {u: set(seen.matrix[[row]].indices) for row, u in enumerate(seen.users)}
    recommended = []
    for user in users:
        position = at.get(user)
        scores = model.popularity() if position is None else model.score(np.array([position]))[0]
        hidden = {model.items.index(seen.items[i]) for i in rated.get(user, ()) if seen.items[i] in model.items}
        hidden |= set() if position is None else set(model.seen[[position]].indices.tolist())
        order = sorted(set(range(len(model.items))) - hidden, key=lambda item: (-scores[item], item))[:k]
        basis = recommending.BASES[model.bases(np.array([-1 if position is None else position]))[0]]
        recommended += [
            Recommendation(user, model.items[i], float(scores[i]), rank, basis) for rank, i in enumerate(order, 1)
        ]
    return recommended


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    users=st.integers(1, 12),
    items=st.integers(1, 40),
    k=st.integers(1, 50),
    cells=st.integers(1, 200),
    at_once=st.integers(1, 40),
    rows=st.integers(1, 100),
    interaction=st.booleans(),
)
def test_no_block_size_changes_what_is_recommended(seed, users, items, k, cells, at_once, rows, interaction):
    model = whole_model(seed, users, items, interaction)
    rng = np.random.default_rng(seed)
    user_ids = [*rng.permutation(np.array(model.users))[: rng.integers(1, users + 1)], "stranger", model.users[0]]
    rated_elsewhere = Ratings.from_triples(["stranger", model.users[0], "nobody"], ["i0", "i0", "elsewhere"])
    for seen in (None, rated_elsewhere):
        with block_sizes(cells, at_once, rows):
            recommended = model.recommend(user_ids, k, seen=seen)
        assert list(recommended) == by_sorting(model, user_ids, k, seen)
        assert recommended.unknown_users == ("stranger",)


@given(st.integers(1, 6), st.integers(1, 3000), st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
@settings(deadline=None)
def test_the_best_of_blocks_are_the_best_of_all_by_sorting(blocks, width, k, seed, rising):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 50, (3, blocks * width)).astype(np.float32)
    if rising:  # every block displaces all earlier items
        scores += np.arange(blocks * width, dtype=np.float32) // 7
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    best = BestItems(3, k)
    for start in range(0, blocks * width, width):
        best.add(scores[:, start : start + width], start)
    for items, best_scores, row, at_once in zip(best.items, best.scores, scores, top_items(scores, k), strict=True):
        expected = np.argsort(-row, kind="stable")[:k]
        assert at_once.tolist() == expected.tolist()
        expected = expected[row[expected] > -np.inf]
        assert items[best_scores > -np.inf].tolist() == expected.tolist()
        assert best_scores[: len(expected)].tolist() == row[expected].tolist()


@pytest.mark.parametrize(
    "method", [ItemKNN(), EASE(), NeuMF(config=NeuMFConfig(width=4), options=TrainingOptions(epochs=1, device="cpu"))]
)
def test_block_sizes_do_not_change_sparse_vectors_and_networks_either(method):
    model = method.fit(Planted.pair().target)
    users = [*model.users, "stranger"]
    expected = model.recommend(users).to_frame()
    with block_sizes(cells=3000, items=50, rows=200):
        recommended = model.recommend(users).to_frame()
    assert recommended.drop("score").equals(expected.drop("score"))
    assert np.allclose(recommended["score"], expected["score"], rtol=1e-5)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("rows", [1 << 18, 35], ids=["in one part", "in many parts"])
def test_a_file_holds_what_is_recommended(tmp_path, suffix, rows):
    model = whole_model(1, 40, 60)
    reported = []
    with block_sizes(rows=rows):
        written = model.recommend_to(
            tmp_path / f"r{suffix}", [*model.users, "stranger"], 7, progress=lambda *report: reported.append(report[:3])
        )
    expected = model.recommend([*model.users, "stranger"], 7)
    assert written == (tmp_path / f"r{suffix}", len(expected), 41, 1)
    types = expected.to_frame().schema
    read = pl.read_parquet(written.path) if suffix == ".parquet" else pl.read_csv(written.path, schema=types)
    assert read.equals(expected.to_frame())
    assert reported[-1] == ("recommending to users", 41, 41)
    assert [path.name for path in tmp_path.iterdir()] == [f"r{suffix}"]


class StoppedError(Exception):
    pass


def stop_after(path, model, blocks, **options):
    """Start to write, and stop after some blocks of users."""
    left = iter(range(blocks))

    def stop(*_):
        if next(left, None) is None:
            raise StoppedError

    with pytest.raises(StoppedError):
        model.recommend_to(path, progress=stop, **options)


@pytest.fixture
def small_parts():
    with block_sizes(cells=300, items=30, rows=50):
        yield


@pytest.mark.usefixtures("small_parts")
def test_a_stopped_run_is_resumed_without_repeating_work_and_otherwise_starts_afresh(tmp_path):
    model, path = whole_model(4, 40, 60), tmp_path / "r.parquet"
    model.recommend_to(tmp_path / "whole.parquet", k=5)
    stop_after(path, model, 3, k=5)
    assert kept_parts(path) == 3
    assert not path.exists()
    assert parts_folder(path).stat().st_mode & 0o777 == 0o700
    blocks = []
    model.recommend_to(path, k=5, resume=True, progress=lambda *report: blocks.append(report[1]))
    assert blocks == [40]
    assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert sorted(left.name for left in tmp_path.iterdir()) == ["r.parquet", "whole.parquet"]
    other, path = whole_model(5, 40, 60), tmp_path / "other.parquet"
    stop_after(path, model, 2)
    other.recommend_to(path)
    assert pl.read_parquet(path).equals(other.recommend(other.users).to_frame())


@pytest.mark.usefixtures("small_parts")
def test_parts_of_another_run_are_not_resumed(tmp_path):
    model, path = whole_model(4, 40, 60), tmp_path / "r.parquet"
    stop_after(path, model, 2)
    for changed, options in (
        (whole_model(5, 40, 60), {}),
        (whole_model(4, 40, 60, interaction=True), {}),
        (replace(model, users=("x", *model.users[1:])), {"users": model.users}),
        (replace(model, item_bias=np.zeros(60, dtype=np.float32)), {}),
        (replace(model, uses_history=False), {}),
        (replace(model, seen=sp.csr_array((40, 60))), {}),
        (model.without_histories(), {}),
        (model, {"k": 9}),
        (model, {"users": model.users[::-1]}),
        (model, {"seen": Ratings.from_triples(["u1"], ["i1"])}),
    ):
        with pytest.raises(InputError, match=r"another model, users, -k, .*: recommend without"):
            changed.recommend_to(path, resume=True, **options)
    with patch("pricdr.__version__", "99"), pytest.raises(InputError, match="version of this software"):
        model.recommend_to(path, resume=True)
    assert kept_parts(path) == 2
    assert not path.exists()


def linked(part):
    part.rename(part.parents[1] / "elsewhere.parquet")
    part.symlink_to(part.parents[1] / "elsewhere.parquet")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(linked, "is not a plain file"), (lambda part: part.write_bytes(b"PAR1 but no more"), "is damaged: recommend")],
)
@pytest.mark.usefixtures("small_parts")
def test_a_part_that_is_none_of_ours_is_named_and_a_link_is_not_followed(tmp_path, spoil, says):
    model, path = whole_model(4, 40, 60), tmp_path / "r.parquet"
    stop_after(path, model, 2)
    spoil(parts_folder(path) / "part-00001.parquet")
    with pytest.raises(InputError, match=f"part-00001.parquet {says}"):
        model.recommend_to(path, resume=True)
    assert not path.exists()
    model.recommend_to(path)
    assert pl.read_parquet(path).equals(model.recommend(model.users).to_frame())
    assert (tmp_path / "elsewhere.parquet").exists() == (spoil is linked)


@pytest.mark.usefixtures("small_parts")
def test_two_runs_do_not_write_the_same_file(tmp_path):
    model, path = whole_model(4, 40, 60), tmp_path / "r.parquet"
    refusals = []

    def meanwhile(*_):
        for resume in (True, False):
            with pytest.raises(BusyError, match="is being written by another run") as refused:
                model.recommend_to(path, resume=resume)
            refusals.append(refused)

    model.recommend_to(path, progress=meanwhile)
    assert refusals
    assert pl.read_parquet(path).equals(model.recommend(model.users).to_frame())


def test_refusals_name_the_value_and_come_before_anything_is_written(tmp_path, monkeypatch):
    model, there = whole_model(4, 40, 60), tmp_path / "there.csv"
    there.touch()
    for name, k, error, says in (
        ("r.txt", 10, ParameterError, r"\.parquet or \.csv, got 'r.txt'"),
        ("r.csv", 0, ParameterError, "k must be"),
        ("there.csv", 10, OutputError, "exists already"),
    ):
        with pytest.raises(error, match=says):
            model.recommend_to(tmp_path / name, k=k)
    with block_sizes(rows=50), pytest.raises(OutputError, match="in parts: its name is not UTF-8"):
        model.recommend_to(tmp_path / "r\udcff.parquet")
    monkeypatch.setenv("PRICDR_MEMORY", "1MB")
    with pytest.raises(InputError, match=r"recommending 60 items to 40 users needs about .* MB of memory"):
        model.recommend_to(tmp_path / "r.parquet")
    assert list(tmp_path.iterdir()) == [there]


def test_sparse_models_score_candidates_of_some_users_at_a_time():
    model = ItemKNN().fit(Planted.pair().target)
    users = np.arange(20)
    candidates = np.random.default_rng(1).integers(0, len(model.items), (20, 5))
    expected = np.take_along_axis(model.score(users), candidates, axis=1)
    with patch("pricdr.models.fitted.SCORES_AT_ONCE", 3 * len(model.items)):
        assert np.array_equal(model.score_candidates(users, candidates), expected)


def test_a_loaded_model_holds_five_bytes_a_rating(tmp_path):
    model = ItemKNN().fit(Planted.pair().target)
    model.save(tmp_path / "model")
    seen = FittedModel.load(tmp_path / "model").seen
    assert (seen.data.itemsize, seen.indices.itemsize, seen.indptr.itemsize) == (1, 4, 4)
    assert np.array_equal(seen.toarray() != 0, model.seen.toarray() != 0)
