"""Reconstruction: from a release and a regenerated projection back to the ratings."""

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pricdr.privacy.noise import DiscreteGaussian
from pricdr.randomness import Simulation
from tests.attacks.evidence import FloatArray
from tests.attacks.flawed import constant_seed_projection
from tests.attacks.target import Opened


def undo_constant_seed(published: FloatArray, *, n_items: int, w: float) -> FloatArray:
    """Return the ratings behind a release of the reference code: regenerate the projection, solve, remove the lift.

    Exact up to rounding errors where the release has at least as many columns as there are items.
    """
    dim = published.shape[1]
    projection = constant_seed_projection(n_items, dim)
    # normal equations: a Gaussian projection of more rows than columns is well enough conditioned
    lift = np.linalg.solve(projection.T @ projection, projection.T @ published.T * math.sqrt(dim)).T
    return remove_lift(lift.astype(np.float64, copy=False), w)


def remove_lift(lift: FloatArray, w: float) -> FloatArray:
    """Return ratings whose singular values, lifted to √(Σ² + w²), give ``lift``: w is public."""
    squares, directions = np.linalg.eigh(lift @ lift.T)
    shrink = np.sqrt(np.maximum(squares - w**2, 0) / np.maximum(squares, w**2))
    return (directions * shrink) @ (directions.T @ lift)


def solve_for_ratings(published: npt.ArrayLike, item_rows: npt.ArrayLike) -> FloatArray:
    return np.asarray(published, dtype=np.float64) @ np.linalg.pinv(np.asarray(item_rows, dtype=np.float64))


def undo_seed(published: npt.ArrayLike, opened: Opened, seed: int) -> FloatArray:
    """Return the ratings behind a release of ours drawn from a known seed: subtract its noise, then solve.

    Exact where the release has at least as many columns as there are items: what "not private" means.
    """
    steps = np.rint(np.asarray(published, dtype=np.float64) / opened.grid.step)
    noise = DiscreteGaussian(Simulation(seed), "noise", refinement=opened.grid.refinement)
    return solve_for_ratings(steps - noise.draw(0, steps.size).reshape(steps.shape), opened.item_rows)


def most_plausible_ratings(published: npt.ArrayLike, candidates: Iterable[npt.ArrayLike]) -> FloatArray:
    """Return the reconstruction closest to zeros and ones among those that guessed item rows give."""
    solved = (solve_for_ratings(published, item_rows) for item_rows in candidates)
    return min(solved, key=lambda ratings: float(np.mean(np.minimum(np.abs(ratings), np.abs(ratings - 1)))))
