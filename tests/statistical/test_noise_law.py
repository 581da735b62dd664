"""The noise has the claimed law, and the tests would notice another one."""

import numpy as np
import pytest
from scipy import stats

from pricdr.privacy.accounting import GRID_STEPS, grid_steps
from pricdr.privacy.noise import DiscreteGaussian, probabilities
from pricdr.randomness import Secret, Simulation
from tests.laws import ALPHA, has_scale, scale_p_value, scale_power, shape_p_value

pytestmark = pytest.mark.statistical
N = 400_000


@pytest.fixture(params=["secret", "seeded"])
def draws(request, any_seed):
    randomness = Secret() if request.param == "secret" else Simulation(any_seed)
    return DiscreteGaussian(randomness, "noise").draw(0, N).astype(np.float64)


@pytest.mark.parametrize("refinement", [2, 32, 256])
def test_refined_noise_has_its_own_scale_and_no_other(refinement, rng):
    draws = DiscreteGaussian(Secret(), "noise", refinement=refinement).draw(0, N).astype(np.float64)
    assert has_scale(draws, grid_steps(refinement))
    assert shape_p_value(draws + rng.uniform(-0.5, 0.5, N), grid_steps(refinement)) > ALPHA


def test_the_scale_is_the_claimed_one_and_the_shape_gaussian_and_no_other(draws, rng):
    assert has_scale(draws, GRID_STEPS)
    jittered = draws + rng.uniform(-0.5, 0.5, N)  # the lattice step is 1/1024 of a standard deviation
    assert shape_p_value(jittered, GRID_STEPS) > ALPHA
    for wrong in (0.9, 1.1):
        assert shape_p_value(jittered, wrong * GRID_STEPS) < ALPHA


def test_single_values_have_their_exact_probabilities(draws):
    """Chi-square over bins of single lattice values in the centre and of growing stretches outside."""
    edges = np.concatenate([np.arange(-4096, -64, 64), np.arange(-64, 65), np.arange(128, 4097, 64)])
    weight = np.array(probabilities(), dtype=object) / 2**768
    both = np.concatenate([weight[:0:-1], weight]).astype(float)
    cumulative = np.concatenate([[0.0], np.cumsum(both)])
    at = edges + len(weight) - 1
    expected = np.concatenate([[cumulative[at[0]]], np.diff(cumulative[at]), [1 - cumulative[at[-1]]]]) * N
    counts = np.histogram(draws, bins=np.concatenate([[-np.inf], edges - 0.5, [np.inf]]))[0]
    assert counts.sum() == N
    keep = expected > 10
    p = stats.chisquare(counts[keep], expected[keep] * counts[keep].sum() / expected[keep].sum()).pvalue
    assert p > ALPHA


def test_even_and_odd_values_are_equally_likely_and_neighbouring_draws_uncorrelated(draws):
    odd = int((draws.astype(np.int64) & 1).sum())
    assert stats.binomtest(odd, N, 0.5).pvalue > ALPHA
    for lag in (1, 2, 4, 200, 16384):
        r = np.corrcoef(draws[:-lag], draws[lag:])[0, 1]
        assert abs(r) * np.sqrt(N - lag) < stats.norm.isf(ALPHA / 2)


def test_the_scale_test_itself_accepts_and_rejects_as_often_as_it_says(rng):
    """The helper's own error rates: no false alarm in 50 runs, every wrong scale is caught, and no power is no test."""
    for _ in range(50):
        sample = rng.normal(0, 3.0, 20_000)
        assert has_scale(sample, 3.0)
        assert not has_scale(sample * 0.9, 3.0)
        assert not has_scale(sample * 1.1, 3.0)
    level = np.mean([scale_p_value(rng.normal(0, 1, 500), 1.0) < 0.05 for _ in range(2000)])
    assert 0.025 < level < 0.075
    caught = np.mean([scale_p_value(rng.normal(0, 1.1, 2_000), 1.0) < ALPHA for _ in range(1000)])
    assert caught == pytest.approx(scale_power(2_000, 1.1), abs=0.08)
    with pytest.raises(ValueError, match="cannot tell"):
        has_scale(rng.normal(0, 1, 500), 1.0)


def test_opendp_draws_from_the_same_law():
    """An independent exact sampler, slow but trusted: two-sample comparison at small n."""
    draws = DiscreteGaussian(Secret(), "noise").draw(0, N)
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=float(GRID_STEPS))([0] * 50_000), dtype=np.float64)
    assert stats.ks_2samp(theirs, draws).pvalue > ALPHA
    assert has_scale(theirs, GRID_STEPS)
    assert stats.ks_2samp(theirs * 0.9, draws).pvalue < ALPHA
