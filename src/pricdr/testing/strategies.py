"""What every strategy must keep, ours and yours: a suite to inherit, and the checks it is made of.

A strategy is trusted that its steps move no further than they claim, and that it draws the noise it is given.
"""

from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from pricdr._publish import publish
from pricdr.arrays import Float64Array
from pricdr.data.csr import sp
from pricdr.data.ratings import Ids, Ratings
from pricdr.privacy.accounting import Guarantee, Unit
from pricdr.privacy.audit import Subject, audit_likelihood_ratio
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.steps import Bounds, Declared, calibrate
from pricdr.privacy.strategies import BY_NAME
from pricdr.privacy.strategies.base import Strategy
from pricdr.randomness import Simulation
from pricdr.release import Release, verify

_SINGLE: Final = 1 + 1e-6
"""Published numbers are in single precision."""
ALPHA: Final = 1e-6
"""Every test of a law compares a p-value with it: a correct sampler fails one once in 10^6 runs, on any seed."""
Promised: TypeAlias = tuple[Guarantee, Bounds]


class StrategyContract:
    """The suite to inherit: set ``strategy``, with all that it needs to run. Every test runs in both units.

    It proves no sensitivity: of one step it looks for neighbours that refute it; several steps need tests of their own.
    """

    strategy: ClassVar[Strategy]
    items: ClassVar[Ids] = tuple(f"item {number}" for number in range(12))
    """The items that are rated in the tests: set it where the strategy knows items by name."""
    users: ClassVar[Ids] = tuple(f"user {number}" for number in range(5_000))
    """So many that noise of the stated size is told from a tenth more or less: 8,000 numbers in all."""
    clip: ClassVar[float] = 2.0

    @pytest.fixture(autouse=True)
    def known(self) -> None:
        """A class in a file of its own is known from here on; one of an installed package was before."""
        BY_NAME.register(type(self.strategy))

    @pytest.fixture(params=[Unit.RATING, Unit.USER], ids=lambda unit: unit.value)
    def promised(self, request: pytest.FixtureRequest) -> Promised:
        clip = None if request.param is Unit.RATING else self.clip
        return Guarantee(epsilon=4, delta=1e-6, unit=request.param), Bounds(clip=clip)

    @pytest.fixture
    def ratings(self) -> Ratings:
        return random_ratings(self.users[:40], self.items, seed=1)

    def test_the_steps_follow_from_what_is_declared(self, promised: Promised) -> None:
        kind, (guarantee, bounds) = type(self.strategy), promised
        assert BY_NAME.get(kind.name) is kind, "the registry holds it under its own name"
        resolved = self.strategy.resolved(guarantee, self.users)
        declared = Declared(bounds=bounds, unit=guarantee.unit, users=len(self.users))
        steps = resolved.steps(declared)
        names = [step.name for step in steps]
        assert len(set(names)) == len(names), "noise is drawn by the name of a step"
        assert names[-1] == "rows"
        assert resolved.dim is not None
        assert (steps[-1].rows, steps[-1].numbers) == (len(self.users), resolved.dim)
        again = kind.described(resolved.dim, resolved.parameters())
        assert again.steps(declared) == steps, "an auditor lays out the same steps"
        calibrate(steps, guarantee, bounds)  # refuses shares that do not add up

    def test_a_release_verifies_and_states_nothing_that_was_rated(
        self, promised: Promised, ratings: Ratings, tmp_path: Path
    ) -> None:
        fewer = ratings.only(np.arange(len(ratings)) < len(ratings) - 1)
        release, other = (self._published(given, ratings.users, *promised) for given in (ratings, fewer))
        assert release.certificate == other.certificate, "nothing in a certificate is read off the ratings"
        np.testing.assert_array_equal(verify(release.save(tmp_path / "release")).matrix, release.matrix)

    def test_the_noise_has_the_stated_size(self, promised: Promised) -> None:
        """Not nine tenths of it, and not eleven, in the rows of users without ratings."""
        unlisted = Ratings.from_triples(["somebody who is not listed"] * len(self.items), self.items)
        release = self._published(unlisted, self.users, *promised)
        assert has_scale(release.matrix, release.certificate.sigma)

    def test_no_neighbours_are_further_apart_than_stated(self, promised: Promised, ratings: Ratings) -> None:
        """Of random ratings: a worse pair may exist."""
        if self.strategy.learns:
            pytest.skip("several steps: each needs a proof, and a test of its own")
        assert 0 < sensitivity_ratio(self.strategy, *promised, ratings, seed=1) <= 1

    def test_an_audit_does_not_refute_the_promise(self, promised: Promised) -> None:
        """And comes near it: one that finds nothing would show nothing."""
        guarantee, bounds = promised
        subject = Subject.of(guarantee, self.strategy.resolved(guarantee, self.users), bounds)
        found = audit_likelihood_ratio(subject, draws=20_000, confidence=1 - 1e-6)
        assert not found.refutes, f"the claim is {found.claimed_epsilon:g}, at least {found.lower_bound:g} was found"
        assert found.share > 0.5

    def _published(self, ratings: Ratings, users: Ids, guarantee: Guarantee, bounds: Bounds) -> Release:
        return publish(ratings, guarantee, strategy=self.strategy, bounds=bounds, users=users, items=self.items)


def sensitivity_ratio(
    strategy: Strategy, guarantee: Guarantee, bounds: Bounds, ratings: Ratings, *, seed: int
) -> float:
    """Return how far neighbours of ``ratings`` are apart at most, over what a strategy of one step claims.

    Each user in turn loses its first rating, or all; random rows are the same, without noise.
    """
    strategy = strategy.resolved(guarantee, ratings.users)
    declared = Declared(bounds=bounds, unit=guarantee.unit, users=len(ratings.users))
    (calibrated,) = calibrate(strategy.steps(declared), guarantee, bounds)

    def exact(ratings: Ratings) -> Float64Array:
        entries = Entries.of(ratings, bounds, summed=strategy.learns)
        return strategy.publish(entries, Run((calibrated,), Simulation(seed), noisy=False)).astype(np.float64)

    def neighbour(user: int) -> Ratings:
        if guarantee.unit is Unit.RATING:
            return ratings.only(np.arange(len(ratings)) != ratings.matrix.indptr[user])
        starts = ratings.matrix.indptr
        at = np.arange(len(ratings))
        return ratings.only((at < starts[user]) | (at >= starts[user + 1]))

    before = exact(ratings)
    most = max(float(np.linalg.norm(exact(neighbour(user)) - before)) for user in range(len(ratings.users)))
    return most / (calibrated.step.sensitivity * _SINGLE)


def random_ratings(users: Ids, items: Ids, *, seed: int) -> Ratings:
    """Return ratings in which every user rated about three in ten items, and at least one."""
    rng = np.random.default_rng(seed)
    rated = rng.random((len(users), len(items))) < 0.3
    rated[np.arange(len(users)), rng.integers(len(items), size=len(users))] = True
    return Ratings(sp.csr_array(rated.astype(np.float64)), users, items)


def scale_p_value(sample: npt.NDArray[Any], scale: float) -> float:
    """Return the two-sided p-value that a centred Gaussian sample has this standard deviation (chi-square, exact)."""
    statistic = float(np.sum((np.asarray(sample, dtype=np.float64) / scale) ** 2))
    law = stats.chi2(np.size(sample))
    return float(min(1.0, 2 * min(law.cdf(statistic), law.sf(statistic))))


def scale_power(size: int, ratio: float) -> float:
    """Return the chance that :func:`scale_p_value` is below :data:`ALPHA` if the true scale is ``ratio`` times claimed.

    >>> scale_power(100_000, 0.9) > 1 - 1e-9, scale_power(100_000, 1.1) > 1 - 1e-9
    (True, True)
    >>> f"{scale_power(100_000, 1.0):.1e}"
    '1.0e-06'
    """
    law = stats.chi2(size)
    low, high = law.ppf(ALPHA / 2), law.isf(ALPHA / 2)
    return float(law.cdf(low / ratio**2) + law.sf(high / ratio**2))


def has_scale(sample: npt.NDArray[Any], scale: float) -> bool:
    """Return whether the sample is consistent with this scale **and** rules out 0.9 and 1.1 times it."""
    if min(scale_power(np.size(sample), ratio) for ratio in (0.9, 1.1)) < 1 - 1e-6:
        raise ValueError(f"a sample of {np.size(sample)} cannot tell a scale from 0.9 or 1.1 times it")
    wrong = max(scale_p_value(sample, 0.9 * scale), scale_p_value(sample, 1.1 * scale))
    return scale_p_value(sample, scale) > ALPHA > wrong
