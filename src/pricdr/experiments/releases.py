"""Releases for experiments: the steps, the σ and the law of real ones, with bits that repeat. NOT PRIVATE."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids, Ratings
from pricdr.experiments.spec import Guide, ReleaseSpec, Rows
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.guarantee import Guarantee
from pricdr.privacy.run import Entries, Run, without_ratings
from pricdr.privacy.steps import Declared, noiseless, settle
from pricdr.privacy.strategies import JLT, SJLT, Guided, Spectral, Strategy
from pricdr.privacy.strategies.dims import auto_dim
from pricdr.randomness import Simulation

GUIDE_DIM: Final = 8
"""Columns of a release that serves as a guide: the rounds that follow choose among its directions."""


@dataclass(frozen=True, eq=False)
class SimulatedRelease:
    """Rows as a target would receive them; drawn from a seed, so never private."""

    matrix: npt.NDArray[np.float32]
    users: Ids
    sigma: float
    """Of the noise in it."""


def simulate(source: Ratings, spec: ReleaseSpec, seed: int, *, target: Ratings | None = None) -> SimulatedRelease:
    """The release that ``publish`` would make of ``source`` (unit: one rating counted as 1), or a control.

    Args:
        source: the ratings to release.
        spec: strategy, budget, and which control it is, if any.
        seed: everything drawn follows from it.
        target: what the other party trains on, of which a guide is a release at the same ε and δ.
    """
    guarantee = Guarantee(epsilon=spec.epsilon, delta=spec.delta)
    learns = spec.strategy not in (JLT.name, SJLT.name)
    noisy = spec.rows in (Rows.PRIVATE, Rows.NOISE) or (learns and spec.rows is Rows.SHUFFLED)
    if learns and spec.rows is Rows.SHUFFLED:
        # Before anything is learnt: a guide tells rows apart that were only moved afterwards.
        given, taken = _cycle(len(source.users), seed)
        places = np.empty_like(given)
        places[given] = taken
        source = replace(source, matrix=source.matrix[places])
    strategy = _strategy(source, spec, seed, target).resolved(guarantee, source.users)
    release = _published(source, strategy, guarantee, seed, noisy=noisy, rated=spec.rows is not Rows.NOISE)
    if spec.rows is Rows.SHUFFLED and not strategy.learns:
        given, taken = _cycle(len(source.users), seed)
        release.matrix[given] = release.matrix[taken]
    return release


def _cycle(n_users: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Who is given whose row: along one cycle through all users, so that nobody keeps one."""
    order = Simulation(seed).generator("shuffled rows").permutation(n_users)
    return order, np.roll(order, 1)


def _strategy(source: Ratings, spec: ReleaseSpec, seed: int, target: Ratings | None) -> Strategy:
    if spec.strategy == JLT.name:
        return JLT(dim=spec.dim)
    if spec.strategy == SJLT.name:
        return SJLT(dim=spec.dim)
    guarantee = Guarantee(epsilon=spec.epsilon, delta=spec.delta)
    dim = auto_dim(guarantee) if spec.dim is None else spec.dim
    if spec.strategy == Spectral.name:
        return Spectral(dim=dim)
    assert target is not None, "a guide is a release of the other party"
    # Bits of their own: the two parties share no seed.
    theirs, own_bits = target.select(users=source.users), 1_000_000 + seed
    noisy = spec.guide is not Guide.CLEAR
    release = _published(theirs, Spectral(dim=GUIDE_DIM), guarantee, own_bits, noisy=noisy)
    return Guided(guide=release, dim=dim, refine=spec.refine)


def _published(
    ratings: Ratings, strategy: Strategy, guarantee: Guarantee, seed: int, *, noisy: bool, rated: bool = True
) -> SimulatedRelease:
    """What :func:`pricdr.publish` computes between the plan and the certificate; the catalogue is declared."""
    bounds = Bounds()
    declared = Declared(bounds=bounds, unit=guarantee.unit, users=len(ratings.users), items=len(ratings.items))
    steps = strategy.steps(declared)
    settled = settle(steps, guarantee, bounds) if noisy else noiseless(steps, bounds)
    entries = Entries.of(ratings, bounds, summed=strategy.learns, universe_declared=True)
    run = Run(settled, Simulation(seed), noisy=noisy)
    matrix = strategy.publish(entries if rated else without_ratings(entries), run)
    return SimulatedRelease(matrix, ratings.users, settled[-1].grid.sigma)
