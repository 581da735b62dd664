import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf

from pricdr.errors import InputError, ParameterError
from pricdr.models.methods import linear
from pricdr.models.methods.linear import Side, popularity_tie_break, solve_ease
from pricdr.models.training_data import TrainingData

USERS, ITEMS, OTHERS = 30, 20, 25
EXACT = (Side.COLUMNS, Side.USERS)


def inputs(kind, seed=0):
    """Random ratings whose values must not matter, with empty rows and an empty column, and a source of either kind."""
    rng = np.random.default_rng(seed)
    rated = rng.random((USERS, ITEMS)) < 0.2
    rated[::5] = rated[:, 4] = False
    target = sp.csr_array(np.where(rated, 3.0, 0.0))
    source = {
        "nothing": None,
        "plaintext": sp.csr_array(np.where(rng.random((USERS, OTHERS)) < 0.3, 5.0, 0.0)),
        "release": rng.standard_normal((USERS, OTHERS)).astype(np.float32),
    }[kind]
    users, items = tuple(f"u{u}" for u in range(USERS)), tuple(f"i{i}" for i in range(ITEMS))
    return TrainingData(users, items, target, source, np.full(USERS, source is not None))


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
@pytest.mark.parametrize("side", EXACT)
@pytest.mark.parametrize("kind", ["nothing", "plaintext", "release"])
def test_it_is_one_ridge_regression_per_item(kind, side, block):
    given = inputs(kind)
    X = stacked(given, 0.4)
    model = solve_ease("ease", given, regularisation=2.0, weight=0.4, side=side, block=block)
    own = X[:, :ITEMS]  # vectors leave a user's own row out
    np.testing.assert_allclose(model.score(np.arange(USERS)) + own, X @ regressions(X, 2.0), atol=1e-4)


@pytest.mark.parametrize("regularisation", [0.1, 3.0, 300.0])
@pytest.mark.parametrize("kind", ["nothing", "plaintext", "release"])
def test_both_sides_agree(kind, regularisation):
    primal, dual = (
        solve_ease("ease", inputs(kind), regularisation=regularisation, weight=0.7, side=side).score(np.arange(USERS))
        for side in EXACT
    )
    assert np.abs(primal).max() > 1e-3
    np.testing.assert_allclose(primal, dual, atol=1e-4 * np.abs(primal).max())


def test_the_smaller_side_is_solved():
    """30 users: 20 columns are fewer, 45 are more. A dual has dense vectors for users, a primal for items."""
    few, many = (solve_ease("ease", inputs(kind), regularisation=1.0) for kind in ("nothing", "plaintext"))
    assert (sp.issparse(few.user_vectors), sp.issparse(few.item_vectors)) == (True, False)
    assert (sp.issparse(many.user_vectors), sp.issparse(many.item_vectors)) == (False, True)
    with_history = int((np.diff(inputs("plaintext").ratings.indptr) > 0).sum())
    assert many.user_vectors.shape == (30, with_history)  # the others predict nothing of the target
    assert with_history < 30
    assert {few.item_vectors.dtype, many.user_vectors.dtype} == {np.dtype(np.float32)}


def test_the_inverse_takes_no_memory_of_its_own():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((40, 40))
    gram = np.asfortranarray(np.tril(root @ root.T))
    wanted = np.linalg.inv(root @ root.T + 0.5 * np.eye(40))
    inverse = linear.invert(gram, 0.5)
    assert np.shares_memory(inverse, gram)
    np.testing.assert_allclose(inverse, wanted, atol=1e-10)


@pytest.mark.parametrize("size", [1, 6, 7, 8, 40])
def test_the_inverse_never_hands_lapack_more_than_a_block(monkeypatch, size):
    """With several threads OpenBLAS 0.3.30 crashes on n = 16,000, which would take minutes to show here."""
    seen = []

    def watched(matrix, **options):
        seen.append(matrix.shape)
        return dpotrf(matrix, **options)

    monkeypatch.setattr(linear, "dpotrf", watched)
    root = np.random.default_rng(2).standard_normal((size, size))
    whole = root @ root.T
    inverse = linear.invert(np.asfortranarray(np.tril(whole)), 0.5, block=7)
    np.testing.assert_allclose(inverse, np.linalg.inv(whole + 0.5 * np.eye(size)), atol=1e-10)
    assert len(seen) == -(-size // 7)
    assert max(seen) <= (7, 7)


def test_the_inverse_is_exact_at_the_smallest_regularisation():
    """Where most eigenvalues are λ alone: an inverse by elimination loses all digits there."""
    vectors, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((300, 60)))
    gram = vectors @ vectors.T
    ridge = 2 * linear.SMALLEST_REGULARISATION * gram.diagonal().max()
    wanted = (np.eye(300) - gram / (1 + ridge)) / ridge
    inverse = linear.invert(np.asfortranarray(np.tril(gram)), ridge, block=64)
    np.testing.assert_allclose(inverse, wanted, atol=1e-5 * np.abs(wanted).max())


def test_a_regularisation_that_rounding_swallows_is_refused():
    with pytest.raises(ParameterError, match="regularisation 1e-30 is too small"):
        linear.invert(np.asfortranarray(np.ones((40, 40))), 1e-30)


def test_a_matrix_without_a_cholesky_factor_is_refused():
    """As rounding may leave one: large enough a λ by its size, and still not positive definite."""
    with pytest.raises(ParameterError, match=r"regularisation 0\.5 is too small"):
        linear.invert(np.asfortranarray(np.diag([1.0, -1.0])), 0.5, block=1)


def test_the_own_row_only_shifts_what_was_rated():
    """So leaving it out changes nothing that is recommended or ranked."""
    given = inputs("plaintext")
    X = stacked(given, 1.0)
    full = X @ regressions(X, 2.0)
    unrated = X[:, :ITEMS] == 0
    found = solve_ease("ease", given, regularisation=2.0).score(np.arange(USERS))
    np.testing.assert_allclose(found[unrated], full[unrated], atol=1e-4)


def test_popularity_breaks_ties_and_nothing_else():
    bias = popularity_tie_break(inputs("nothing").ratings, 1e-6)
    counts = np.bincount(inputs("nothing").ratings.indices, minlength=ITEMS)
    assert np.array_equal(np.argsort(bias, kind="stable"), np.argsort(counts, kind="stable"))
    assert bias.max() == np.float32(1e-6)
    assert bias[4] == 0
    assert not popularity_tie_break(sp.csr_array((3, 2)), 1.0).any()


@pytest.mark.parametrize("regularisation", [1e-30, 1e-10])
def test_a_hopeless_regularisation_is_refused(regularisation):
    twins = TrainingData(("a", "b"), ("x", "y"), sp.csr_array(np.ones((2, 2))), None, np.zeros(2, dtype=bool))
    with pytest.raises(ParameterError, match="too small"):
        solve_ease("ease", twins, regularisation=regularisation)


@pytest.mark.parametrize("kind", ["nothing", "plaintext", "release"])
def test_with_every_direction_low_rank_is_ease_itself(kind):
    exact, found = (
        solve_ease("ease", inputs(kind), regularisation=2.0, weight=0.4, side=side)
        for side in (Side.COLUMNS, Side.LOW_RANK)
    )
    unrated = exact.seen.toarray() == 0
    left, right = (model.score(np.arange(USERS))[unrated] for model in (exact, found))
    np.testing.assert_allclose(left, right, atol=2e-5)


def test_low_rank_takes_the_directions_that_explain_most(monkeypatch):
    monkeypatch.setattr(linear, "RANK", 3)
    monkeypatch.setattr(linear, "_ROUNDS", 500)  # random ratings have no leading directions to speak of
    given = inputs("plaintext")
    found = solve_ease("ease", given, regularisation=2.0, weight=0.4, side=Side.LOW_RANK)
    X = stacked(given, 0.4)
    _, s, directions = np.linalg.svd(X, full_matrices=False)
    gram = directions[:3].T * s[:3] ** 2 @ directions[:3]
    P = np.linalg.inv(gram + 2.0 * np.eye(len(gram)))
    expected = -(X @ P)[:, :ITEMS] / np.diag(P)[:ITEMS]
    unrated = found.seen.toarray() == 0
    np.testing.assert_allclose((found.score(np.arange(USERS)) - found.item_bias)[unrated], expected[unrated], atol=1e-3)


def test_a_matrix_that_takes_hours_to_invert_is_not_inverted(monkeypatch):
    monkeypatch.setattr(linear, "LARGEST_INVERTED", ITEMS - 1)
    monkeypatch.setattr(linear, "invert", lambda *_: pytest.fail("inverted"))
    assert solve_ease("ease", inputs("nothing"), regularisation=2.0).user_vectors.shape[1] == ITEMS
    monkeypatch.setattr(linear, "LARGEST_INVERTED", ITEMS)
    with pytest.raises(pytest.fail.Exception):
        solve_ease("ease", inputs("nothing"), regularisation=2.0)


def test_low_rank_says_what_it_needs_before_it_starts(monkeypatch):
    monkeypatch.setenv("PRICDR_MEMORY", "1MB")
    monkeypatch.setattr(linear, "RANK", 10**6)
    given = inputs("nothing")
    wide = TrainingData(given.users, given.items, given.ratings, np.zeros((USERS, 9000), np.float32), given.present)
    with pytest.raises(InputError, match=r"EASE of rank 1,000,000 on 30 users and 9,020 columns needs about .* MB"):
        solve_ease("ease", wide, regularisation=2.0, side=Side.LOW_RANK)
