"""Releases of RQ4 and RQ5: both calibrations, every dimension and density, and a share of the source's ratings."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pricdr.data.ratings import Ratings
from pricdr.experiments.arms import ReleaseSpec, RowContent
from pricdr.experiments.runner import sampled_source, seeded_release
from pricdr.privacy.accounting import Calibration, composed_epsilon, paper_sigma, sigma_for
from pricdr.privacy.strategies import BY_NAME
from pricdr.randomness import Simulation

EPSILONS = (0.5, 1, 2, 4, 8, 16, 32, 64)


@pytest.fixture(scope="module")
def source():
    rng = np.random.default_rng(0)
    pairs = [(f"u{u:02d}", f"i{i:02d}") for u in range(40) for i in rng.choice(90, 10, replace=False)]
    ratings = Ratings.from_triples(*zip(*pairs, strict=True))
    return ratings.select(items=(*ratings.items, "nobody rated it"))


@pytest.mark.parametrize(("strategy", "delta", "dim"), [("jlt", 1e-6, 800), ("sjlt", 1 / 924, 100)])
def test_every_epsilon_of_the_paper_is_published_with_either_noise(source, strategy, delta, dim):
    """The certificate states what the noise delivers: the ε that was asked for, or the far smaller one of w."""
    found = [0.0]
    for epsilon in EPSILONS:
        spec = ReleaseSpec(strategy=strategy, dim=dim, epsilon=epsilon, delta=delta)
        exact = seeded_release(source, spec, 1).certificate
        assert exact.epsilon == pytest.approx(epsilon)
        assert exact.sigma == pytest.approx(sigma_for(epsilon, delta, sensitivity=1, dim=dim), rel=0.01)
        release = seeded_release(source, replace(spec, calibration=Calibration.PAPER), 1)
        printed = release.certificate
        assert printed.nominal_epsilon == epsilon
        assert printed.sigma == pytest.approx(paper_sigma(epsilon, delta, dim=dim), rel=0.01)
        assert printed.epsilon == pytest.approx(composed_epsilon([(1 / printed.sigma, dim)], delta), abs=1e-9)
        assert found[-1] <= printed.epsilon < epsilon / 50
        assert release.matrix.std() == pytest.approx(printed.sigma, rel=0.1)
        found.append(printed.epsilon)
    assert found[-1] > 0.5
    # A large δ alone covers all there is to tell at the first: charts on a logarithmic axis have to know.
    assert (found[1] == 0) == (delta > 1e-3)


@pytest.mark.parametrize("density", [0.1, 0.5, 0.9])
def test_a_density_is_that_of_the_projection(source, density):
    spec = ReleaseSpec(strategy="sjlt", dim=64, density=density, rows=RowContent.NOISELESS)
    release = seeded_release(source, spec, 3)
    assert release.certificate.strategy.parameters == {"density": density}
    rows = BY_NAME["sjlt"](dim=64, density=density).item_rows(source.items, Simulation(3), lambda *told: None)
    assert np.allclose(release.matrix, source.matrix @ rows, atol=0.01)
    default = seeded_release(source, replace(spec, density=None), 3).matrix
    assert np.array_equal(default, release.matrix) == (density == 0.5)


def test_a_share_of_the_source_is_exact_and_nested(source):
    shares = (1, 1 / 2, 1 / 4, 1 / 8)
    samples = [sampled_source(source, share, 1) for share in shares]
    assert [len(sample) for sample in samples] == [round(share * len(source)) for share in shares]
    for larger, smaller in pairwise(samples):
        assert (smaller.users, smaller.items) == (source.users, source.items)
        assert smaller.matrix.multiply(larger.matrix).nnz == len(smaller) < len(larger)
