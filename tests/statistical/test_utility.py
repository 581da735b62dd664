"""What the target may expect of a release: the statements of docs/mathematics.md, section 6, measured."""

import numpy as np
import pytest
from scipy import stats

from pricdr import Guarantee, Ratings, publish
from pricdr.privacy.strategies.random_projections import walsh_hadamard
from pricdr.progress import silent
from pricdr.randomness import Simulation
from pricdr.strategies import JLT, SJLT
from tests.laws import ALPHA, has_scale, mean_p_value

pytestmark = pytest.mark.statistical

USERS = tuple(f"u{i:03d}" for i in range(60))
STRATEGIES = [JLT(dim=64), SJLT(dim=64), SJLT(dim=64, density=0.05)]


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(5)
    pairs = [(u, f"i{i}") for u in USERS for i in rng.choice(300, 20, replace=False)]
    return Ratings.from_triples(*zip(*pairs, strict=True))


def _releases(ratings, strategy, count, seed, epsilon=8.0):
    guarantee = Guarantee(epsilon=epsilon, delta=1e-6)
    for k in range(count):
        yield publish(ratings, guarantee, strategy=strategy, users=USERS, insecure_seed=seed * 1000 + k)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_inner_products_are_unbiased(ratings, strategy, any_seed):
    """E[Y Yᵀ] = A Aᵀ + σ²k I, summed up in three numbers per release: off-diagonal agreement, trace, one pair."""
    gram = (ratings.matrix @ ratings.matrix.T).toarray()
    off = gram - np.diag(np.diag(gram))
    agreement, trace, pair = [], [], []
    for release in _releases(ratings, strategy, 150, any_seed):
        y = release.matrix.astype(np.float64)
        product, c = y @ y.T, release.certificate
        agreement.append((product * off).sum() / (off**2).sum())
        trace.append(np.trace(product) - c.sigma**2 * c.dim * len(USERS))
        pair.append(product[0, 1] - gram[0, 1])
    # quantising E to the grid shortens it by about a step in a thousand: allow for that much, no more
    for values, mean, slack in ((agreement, 1.0, 0.004), (trace, gram.trace(), 0.004 * gram.trace()), (pair, 0.0, 0.0)):
        values = np.array(values)
        nearest = mean + np.clip(values.mean() - mean, -slack, slack)
        assert mean_p_value(values, nearest) > ALPHA
    assert mean_p_value(0.9**2 * np.array(agreement), 0.996) < ALPHA  # rows 10 % short would be noticed


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_the_frobenius_norm_concentrates(ratings, strategy, any_seed):
    """‖AE‖²_F has variance at most 2 Σ_{i≠j} (AᵀA)²_ij / k, so a relative deviation of at most √(2/k)."""
    dim, total = strategy.dim, float(len(ratings))
    cross = (ratings.matrix.T @ ratings.matrix).toarray()
    np.fill_diagonal(cross, 0)
    deviation = np.sqrt(2 * (cross**2).sum() / dim) / total
    assert deviation <= np.sqrt(2 / dim)
    seen = []
    for k in range(200):
        rows = strategy.item_rows(ratings.items, Simulation(any_seed * 1000 + k), silent).astype(np.float64)
        seen.append(np.linalg.norm(ratings.matrix @ rows) ** 2 / total - 1)
    # unit rows concentrate at least as well as Gaussian ones; sparse P somewhat less, by 3(1/q − 1)/n at most
    assert np.std(seen) < 1.35 * deviation
    assert mean_p_value(np.array(seen), np.clip(np.mean(seen), -0.002, 0.002)) > ALPHA


def test_user_norms_stay_inside_the_stated_band(ratings, any_seed):
    """All m users deviate by at most 2√(ℓ/k) + 2ℓ/k relative, ℓ = ln(2m/β), with probability 1 − β."""
    beta, dim, failures, runs = 0.05, 128, 0, 100
    log_term = np.log(2 * len(USERS) / beta)
    band = 2 * np.sqrt(log_term / dim) + 2 * log_term / dim
    squares = np.asarray(ratings.matrix.sum(axis=1)).ravel()
    for release in _releases(ratings, JLT(dim=dim), runs, any_seed):
        expected = squares + release.certificate.sigma**2 * dim
        relative = (release.matrix.astype(float) ** 2).sum(axis=1) / expected - 1
        failures += bool((np.abs(relative) > band).any())
    assert stats.binomtest(failures, runs, beta, alternative="greater").pvalue > ALPHA


def test_the_hadamard_transform_flattens_sparse_vectors(rng):
    """max_x ‖HDx‖_∞ <= √(2 ln(40 m n)/n) ‖x‖₂ over m vectors with probability at least 19/20."""
    n, m, runs, failures = 512, 40, 300, 0
    bound = np.sqrt(2 * np.log(40 * m * n) / n)
    for _ in range(runs):
        vectors = np.zeros((m, n), dtype=np.float32)
        for row in vectors:
            row[rng.choice(n, rng.integers(1, 12), replace=False)] = 1
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        signs = rng.choice([-1, 1], n).astype(np.float32)
        failures += bool(np.abs(walsh_hadamard(vectors * signs)).max() > bound)
    assert stats.binomtest(failures, runs, 0.05, alternative="greater").pvalue > ALPHA
    assert np.abs(np.eye(1, n)).max() > bound  # without it a one-sparse vector is not flat


@pytest.mark.parametrize("strategy", [JLT(dim=400), SJLT(dim=400)], ids=str)
def test_noise_on_rated_users_has_the_certified_scale_too(ratings, strategy, any_seed):
    """The same seed with and without noise has the same E: what differs is the noise, on top of real ratings."""
    guarantee, how = Guarantee(epsilon=2, delta=1e-6), {"strategy": strategy, "users": USERS, "insecure_seed": any_seed}
    noisy, plain = (publish(ratings, guarantee, insecure_no_noise=no_noise, **how) for no_noise in (False, True))
    np.testing.assert_allclose(np.median(np.linalg.norm(plain.matrix, axis=1)), np.sqrt(20), rtol=0.15)
    assert has_scale((noisy.matrix - plain.matrix).ravel(), noisy.certificate.sigma)
