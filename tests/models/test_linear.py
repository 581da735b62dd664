"""Methods in closed form: EASE from every side, item-kNN, ridge regression on release rows."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf

from pricdr.data.ratings import Ratings
from pricdr.data.splits import HeldOut
from pricdr.errors import InputError, ParameterError
from pricdr.evaluation.verdict import Verdict
from pricdr.models.fitted import Basis
from pricdr.models.methods import linear
from pricdr.models.methods.linear import (
    EASE,
    EASEConfig,
    EASERelease,
    EASEReleaseConfig,
    EASESource,
    EASESourceConfig,
    ItemKNN,
    ItemKNNConfig,
    Popularity,
    RidgeRelease,
    RidgeReleaseConfig,
    compare_with_ridge,
    popularity_tie_break,
    solve_ease,
)
from pricdr.models.training_data import SourceRows, TrainingData
from pricdr.testing.contracts import RecommenderContract, release_with_rows
from tests.models.contracts import bases, of_release

USERS, ITEMS, OTHERS = 30, 20, 25
EVERYONE = np.arange(60)


def inputs(kind):
    """Random ratings whose values must not matter, with empty rows and an empty column, and a source of either kind."""
    rng = np.random.default_rng(0)
    rated = rng.random((USERS, ITEMS)) < 0.2
    rated[::5] = rated[:, 4] = False
    target = sp.csr_array(np.where(rated, 3.0, 0.0))
    source = {
        "nothing": None,
        "plaintext": sp.csr_array(np.where(rng.random((USERS, OTHERS)) < 0.3, 5.0, 0.0)),
        "release": rng.standard_normal((USERS, OTHERS)).astype(np.float32),
    }[kind]
    users, items = tuple(f"u{u}" for u in range(USERS)), tuple(f"i{i}" for i in range(ITEMS))
    return TrainingData(
        Ratings(target, users, items),
        source,
        () if source is None else (SourceRows(slice(0, source.shape[1]), np.ones(USERS, dtype=bool)),),
    )


def stacked(given, weight):
    own = (given.ratings.toarray() != 0).astype(float)
    if given.source is None:
        return own
    other = (given.source.toarray() != 0).astype(float) if sp.issparse(given.source) else given.source
    return np.hstack([own, weight * other])


def regressions(X, regularisation):
    """EASE by its definition: one ridge regression per item, on all columns but its own."""
    B = np.zeros((X.shape[1], ITEMS))
    for item in range(ITEMS):
        others = np.arange(X.shape[1]) != item
        Z = X[:, others]
        B[others, item] = np.linalg.solve(Z.T @ Z + regularisation * np.eye(Z.shape[1]), Z.T @ X[:, item])
    return B


@pytest.mark.parametrize("block", [7, 1024])
@pytest.mark.parametrize("solve", [linear.primal, linear.dual, linear.low_rank])  # the last with every direction
@pytest.mark.parametrize("kind", ["nothing", "plaintext", "release"])
def test_it_is_one_ridge_regression_per_item(monkeypatch, kind, solve, block):
    monkeypatch.setattr(linear, "BLOCK", block)
    given = inputs(kind)
    X = stacked(given, 0.4)
    unrated = X[:, :ITEMS] == 0  # of what is rated, vectors leave out that a user rated it
    scores = solve_ease("ease", given, regularisation=2.0, weight=0.4, solve=solve).score(np.arange(USERS))
    np.testing.assert_allclose(scores[unrated], (X @ regressions(X, 2.0))[unrated], atol=1e-4)
    if solve is not linear.low_rank:
        np.testing.assert_allclose(scores + X[:, :ITEMS], X @ regressions(X, 2.0), atol=1e-4)


def test_the_smaller_side_is_solved_and_neither_where_that_takes_hours(monkeypatch):
    """30 users: 20 columns are fewer, 45 are more. A dual has dense vectors for users, a primal for items."""
    few, many = (solve_ease("ease", inputs(kind), regularisation=1.0) for kind in ("nothing", "plaintext"))
    assert (sp.issparse(few.user_vectors), sp.issparse(few.item_vectors)) == (True, False)
    assert (sp.issparse(many.user_vectors), sp.issparse(many.item_vectors)) == (False, True)
    with_history = int((np.diff(inputs("plaintext").ratings.indptr) > 0).sum())
    assert many.user_vectors.shape == (30, with_history)  # the others predict nothing of the target
    assert with_history < 30
    assert {few.item_vectors.dtype, many.user_vectors.dtype} == {np.dtype(np.float32)}
    monkeypatch.setattr(linear, "invert", lambda *_: pytest.fail("inverted"))
    monkeypatch.setattr(linear, "MAX_INVERTED", ITEMS - 1)
    assert solve_ease("ease", inputs("nothing"), regularisation=2.0).user_vectors.shape[1] == ITEMS
    monkeypatch.setattr(linear, "MAX_INVERTED", ITEMS)
    with pytest.raises(pytest.fail.Exception):
        solve_ease("ease", inputs("nothing"), regularisation=2.0)


@pytest.mark.parametrize("size", [1, 6, 7, 8, 40])
def test_the_inverse_never_hands_lapack_more_than_a_block(monkeypatch, size):
    """With several threads OpenBLAS 0.3.30 crashes on n = 16,000, which would take minutes to show here."""
    seen = []

    def watched(matrix, **options):
        seen.append(matrix.shape)
        return dpotrf(matrix, **options)

    monkeypatch.setattr(linear, "dpotrf", watched)
    monkeypatch.setattr(linear, "BLOCK", 7)
    root = np.random.default_rng(2).standard_normal((size, size))
    whole = root @ root.T
    gram = np.asfortranarray(np.tril(whole))
    inverse = linear.invert(gram, 0.5)
    assert np.shares_memory(inverse, gram)  # and takes no memory of its own
    np.testing.assert_allclose(inverse, np.linalg.inv(whole + 0.5 * np.eye(size)), atol=1e-10)
    assert len(seen) == -(-size // 7)
    assert max(seen) <= (7, 7)


def test_the_inverse_is_exact_at_the_smallest_regularisation(monkeypatch):
    """Where most eigenvalues are λ alone: an inverse by elimination loses all digits there."""
    monkeypatch.setattr(linear, "BLOCK", 64)
    vectors, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((300, 60)))
    gram = vectors @ vectors.T
    ridge = 2 * linear.MIN_REGULARISATION * gram.diagonal().max()
    wanted = (np.eye(300) - gram / (1 + ridge)) / ridge
    inverse = linear.invert(np.asfortranarray(np.tril(gram)), ridge)
    np.testing.assert_allclose(inverse, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("gram", "regularisation"), [(np.ones((2, 2)), 1e-30), (np.ones((2, 2)), 1e-10), (np.diag([1.0, -1.0]), 0.5)]
)
def test_a_regularisation_that_leaves_no_inverse_is_refused(gram, regularisation):
    with pytest.raises(ParameterError, match=f"regularisation {regularisation!r} is too small"):
        linear.invert(np.asfortranarray(gram), regularisation)


def test_popularity_breaks_ties_and_nothing_else():
    bias = popularity_tie_break(inputs("nothing").ratings, 1e-6)
    counts = np.bincount(inputs("nothing").ratings.indices, minlength=ITEMS)
    assert np.array_equal(np.argsort(bias, kind="stable"), np.argsort(counts, kind="stable"))
    assert bias.max() == np.float32(1e-6)
    assert bias[4] == 0
    assert not popularity_tie_break(sp.csr_array((3, 2)), 1.0).any()


def test_low_rank_takes_the_directions_that_explain_most(monkeypatch):
    monkeypatch.setattr(linear, "RANK", 3)
    monkeypatch.setattr(linear, "_ROUNDS", 500)  # random ratings have no leading directions to speak of
    given = inputs("plaintext")
    found = solve_ease("ease", given, regularisation=2.0, weight=0.4, solve=linear.low_rank)
    X = stacked(given, 0.4)
    _, s, directions = np.linalg.svd(X, full_matrices=False)
    gram = directions[:3].T * s[:3] ** 2 @ directions[:3]
    P = np.linalg.inv(gram + 2.0 * np.eye(len(gram)))
    expected = -(X @ P)[:, :ITEMS] / np.diag(P)[:ITEMS]
    unrated = found.seen.toarray() == 0
    np.testing.assert_allclose((found.score(np.arange(USERS)) - found.item_bias)[unrated], expected[unrated], atol=1e-3)


def test_low_rank_says_what_it_needs_before_it_starts(monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "1MB")
    monkeypatch.setattr(linear, "RANK", 10**6)
    wide = replace(inputs("nothing"), source=np.zeros((USERS, 9000), np.float32))
    with pytest.raises(InputError, match=r"EASE of rank 1,000,000 on 30 users and 9,020 columns needs about .* MB"):
        solve_ease("ease", wide, regularisation=2.0, solve=linear.low_rank)


EASE_METHOD = EASE(config=EASEConfig(regularisation=5.0))
EASESOURCE_METHOD = EASESource(config=EASESourceConfig(regularisation=5.0, weight=0.5))
EASERELEASE_METHOD = EASERelease(config=EASEReleaseConfig(regularisation=5.0, weight=1.0))
ITEMKNN_METHOD = ItemKNN(config=ItemKNNConfig(neighbours=10, shrinkage=1.0))


class TestEASE(RecommenderContract):
    fit = staticmethod(lambda p: EASE_METHOD.fit(p.target))


class TestItemKNN(RecommenderContract):
    fit = staticmethod(lambda p: ITEMKNN_METHOD.fit(p.target))


class TestEASESource(RecommenderContract):
    fit = staticmethod(lambda p: EASESOURCE_METHOD.fit(p.target, plaintext_source=p.source))
    serves_cold_users = True


class TestEASERelease(RecommenderContract):
    fit = staticmethod(lambda p: EASERELEASE_METHOD.fit(p.target, p.release))
    serves_cold_users = True


TestRidge = of_release(RidgeRelease())


def best_items(model, users, k=40):
    return [r.item for r in model.recommend(list(users), k=k)]


@pytest.mark.parametrize("method", [EASE_METHOD, ITEMKNN_METHOD], ids=lambda method: method.name)
def test_users_without_ratings_get_exactly_what_is_popular(planted, method):
    found, popular = (best_items(one.fit(planted.target), planted.cold[:1]) for one in (method, Popularity()))
    assert found == popular


def test_a_source_that_weighs_nothing_leaves_ease(planted):
    light = EASESource(config=EASESourceConfig(regularisation=5.0, weight=1e-6))
    scores = light.fit(planted.target, plaintext_source=planted.source).score(EVERYONE)
    np.testing.assert_allclose(scores, EASE_METHOD.fit(planted.target).score(EVERYONE), atol=1e-4)


def test_easesource_says_what_a_recommendation_rests_on(planted):
    """User 0 has a history only, user 50 a source row only, user 51 nothing."""
    coo = planted.source.matrix.tocoo()
    model = EASESOURCE_METHOD.fit(planted.target, plaintext_source=planted.source.only(~np.isin(coo.row, [0, 51])))
    expected = {0: Basis.HISTORY, 1: Basis.BOTH, 50: Basis.RELEASE, 51: Basis.POPULARITY}
    assert {at: bases(model, [at]) for at in expected} == {at: {basis} for at, basis in expected.items()}
    assert best_items(model, ["u51"]) == best_items(Popularity().fit(planted.target), ["u51"])


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (50.0, 100.0)])
def test_easerelease_is_the_printed_closed_form_on_target_and_centred_scaled_release(planted, scale, shift):
    rows = planted.release.matrix - planted.release.matrix.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1).mean()
    X = np.hstack([planted.target.matrix.toarray(), 2.0 * rows])
    P = np.linalg.inv(X.T @ X + 5.0 * np.eye(X.shape[1]))
    B = np.eye(X.shape[1]) - P / np.diag(P)
    moved = release_with_rows((scale * planted.release.matrix + shift).astype(np.float32), planted.release.users)
    method = EASERelease(config=EASEReleaseConfig(regularisation=5.0, weight=2.0))
    np.testing.assert_allclose(
        method.fit(planted.target, moved).score(EVERYONE) + X[:, :40], (X @ B)[:, :40], atol=1e-4
    )


def with_misleading_rows(planted):
    """A release in which the rows of cold users say the opposite of what they like."""
    spoilt = planted.release.matrix.copy()
    spoilt[48:] = -spoilt[48:]
    return release_with_rows(spoilt, planted.release.users)


@pytest.mark.parametrize("items", [40, 30], ids=["dense", "sparse"])
def test_easerelease_gives_cold_users_what_is_popular_where_their_rows_mislead(planted, items):
    target = planted.target.select(items=planted.target.items[:items])
    held_out = HeldOut(planted.validation.users, planted.validation.items, planted.validation.negatives[:, :10])
    model = EASERELEASE_METHOD.fit(target, with_misleading_rows(planted), validation=held_out)
    ungated = EASERELEASE_METHOD.fit(target, with_misleading_rows(planted))
    assert bases(model, range(48, 60)) == {Basis.POPULARITY}
    np.testing.assert_allclose(model.score(np.arange(48)), ungated.score(np.arange(48)), atol=1e-6)
    assert best_items(model, planted.cold) == best_items(Popularity().fit(target), planted.cold)
    kept = EASERELEASE_METHOD.fit(target, planted.release, validation=held_out)
    assert bases(kept, range(48, 60)) == {Basis.RELEASE}


@pytest.mark.parametrize("cells", [1, 100, 1 << 22], ids=["item by item", "three items at once", "one block"])
@pytest.mark.parametrize(("neighbours", "shrinkage"), [(1, 0.0), (4, 5.0), (1000, 20.0)])
def test_itemknn_is_the_brute_force_version(monkeypatch, cells, neighbours, shrinkage):
    """Ratings from 1 to 5, whose values must not matter, and an item nobody rated."""
    monkeypatch.setattr(linear, "CELLS", cells)
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(rng.random((50, 32)) < 0.2)
    ids = tuple(f"u{u:02d}" for u in range(50)), tuple(f"i{i:02d}" for i in range(33))
    ratings = Ratings.from_codes(rows, columns, rng.integers(1, 6, len(rows)).astype(float), *ids)
    X = (ratings.matrix.toarray() != 0).astype(float)
    counts = X.sum(axis=0)
    similar = (X.T @ X) / np.maximum(np.sqrt(np.outer(counts, counts)) + shrinkage, 1e-12)
    np.fill_diagonal(similar, 0)
    for row in similar:
        row[np.argsort(-row, kind="stable")[neighbours:]] = 0
    model = ItemKNN(config=ItemKNNConfig(neighbours=neighbours, shrinkage=shrinkage)).fit(ratings)
    np.testing.assert_allclose(model.item_vectors.toarray(), similar, atol=1e-6)
    np.testing.assert_allclose(model.score(np.arange(50)), X @ similar.T, atol=1e-5)
    assert np.diff(model.item_vectors.indptr).max() <= neighbours


def test_ridge_is_the_printed_ridge_regression(planted):
    """The rows of users with both, of length 1 and centred, against centred ratings over √popularity."""
    model = RidgeRelease(config=RidgeReleaseConfig(regularisation=7.0, scale=0.3)).fit(planted.target, planted.release)
    rows = planted.release.matrix - planted.release.matrix.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows -= rows[:48].mean(axis=0)
    ratings = planted.target.matrix.toarray()[:48]
    wanted = (ratings - ratings.mean(axis=0)) / np.sqrt(ratings.sum(axis=0) + 1)
    added = rows @ np.linalg.solve(rows[:48].T @ rows[:48] + 7.0 * np.eye(8), rows[:48].T @ wanted)
    added *= 0.3 / np.sqrt((added[:48] ** 2).mean())
    share = (ratings.sum(axis=0) + 0.5) / 49
    np.testing.assert_allclose(model.score(EVERYONE), added + np.log(share / (1 - share)), atol=1e-4)


def test_ridge_says_that_no_history_was_used(planted):
    model = RidgeRelease().fit(
        planted.target, release_with_rows(planted.release.matrix[10:], planted.release.users[10:])
    )
    assert bases(model, range(10)) == {Basis.POPULARITY}
    assert bases(model, range(10, 60)) == {Basis.RELEASE}


def test_ridge_rows_that_mislead_cold_users_leave_what_is_popular(planted):
    """There is evidence for users with history, but validation shows no gain for those without."""
    model = RidgeRelease().fit(planted.target, with_misleading_rows(planted), validation=planted.validation)
    popular = Popularity().fit(planted.target)
    for own, everybodys in zip(model.score(EVERYONE), popular.score(EVERYONE), strict=True):
        assert np.array_equal(np.argsort(-own, kind="stable"), np.argsort(-everybodys, kind="stable"))


def test_ridge_a_badly_trained_model_is_compared_with_ridge_on_validation(planted):
    """For warm and cold users apart: what is popular leaves unused what the rows hold, and ridge itself does not."""
    for model, helps in (
        (Popularity().fit(planted.target), Verdict.HELPS),
        (RidgeRelease().fit(planted.target, planted.release, validation=planted.validation), Verdict.UNCLEAR),
    ):
        found = compare_with_ridge(model, planted.target, planted.release, planted.validation)
        assert [(one.stratum, one.users, one.ridge_helps) for one in found] == [
            ("warm", 48, helps),
            ("cold", 12, helps),
        ]
        assert all((one.ridge > one.model + 0.2) == (helps is Verdict.HELPS) for one in found)
    warm_alone = planted.validation.only(slice(48))
    assert [one.stratum for one in compare_with_ridge(model, planted.target, planted.release, warm_alone)] == ["warm"]


def test_a_plaintext_source_of_other_people_is_refused(planted):
    strangers = Ratings.from_triples(["x1", "x2"], ["s1", "s2"])
    with pytest.raises(InputError, match="none of the source's 2 users is among the target's 60"):
        EASESource().fit(planted.target, plaintext_source=strangers)
