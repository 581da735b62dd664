"""Releases for experiments: the mechanism, the σ and the law of a real one, with bits that repeat. NOT PRIVATE."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids, Ratings
from pricdr.experiments.spec import ReleaseSpec, Rows
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import sigma_for
from pricdr.privacy.mechanism import Grid, draw
from pricdr.privacy.strategies import BY_NAME
from pricdr.randomness import Simulation


@dataclass(frozen=True, eq=False)
class SimulatedRelease:
    """Rows as a target would receive them; drawn from a seed, so never private."""

    matrix: npt.NDArray[np.float32]
    users: Ids


def simulate(source: Ratings, spec: ReleaseSpec, seed: int) -> SimulatedRelease:
    """The release that ``publish`` would make of ``source`` (unit: one rating counted as 1), or a control."""
    bounds, randomness = Bounds(), Simulation(seed)
    sigma = sigma_for(spec.epsilon, spec.delta, sensitivity=1.0, dim=spec.dim)
    noisy = spec.rows in (Rows.PRIVATE, Rows.NOISE)
    entries = bounds.entries(source)
    if spec.rows is Rows.NOISE:
        entries = entries * 0
    matrix = draw(
        entries,
        source.items,
        BY_NAME[spec.strategy](dim=spec.dim),
        grid=Grid.for_noise(sigma, bounds=bounds, dim=spec.dim) if noisy else Grid.noiseless(bounds),
        bounds=bounds,
        randomness=randomness,
        noisy=noisy,
    )
    if spec.rows is Rows.SHUFFLED:
        # Along one cycle through all users, so that nobody keeps a row.
        order = randomness.generator("shuffled rows").permutation(len(matrix))
        shuffled = np.empty_like(matrix)
        shuffled[order] = matrix[np.roll(order, 1)]
        matrix = shuffled
    return SimulatedRelease(matrix, source.users)
