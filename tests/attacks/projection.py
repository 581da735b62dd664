"""Attacks on the published matrix as a whole, by an adversary who knows both candidate inputs but not the projection.

Each function takes the two candidates and returns a distinguisher: released matrix → score, positive for the second
candidate. What is expensive is computed once, when the distinguisher is made.
"""

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from pricdr.arrays import Float64Array
from tests.attacks.flawed import fjlt_spacing, orthonormal_hadamard, thin_lift

Distinguisher: TypeAlias = Callable[[Float64Array], float]
Worlds: TypeAlias = tuple[Float64Array, Float64Array]
"""Two neighbouring ratings matrices, users x items."""

_TINY: Final = 1e-18


def row_space_residual(worlds: Worlds) -> Distinguisher:
    """Return an attack: which candidate's column space (the row space of the paper's R) holds more of the release?"""
    bases = [np.linalg.svd(ratings, full_matrices=False)[0] for ratings in worlds]

    def score(published: Float64Array) -> float:
        outside = [np.linalg.norm(published - basis @ (basis.T @ published)) for basis in bases]
        size = float(np.linalg.norm(published))
        return math.log10(outside[0] / size + _TINY) - math.log10(outside[1] / size + _TINY)

    return score


def one_sparse(worlds: Worlds, w: float) -> Distinguisher:
    """Return an attack: does a column come from a single row of H D R̃? Then the projection is ± one constant."""

    def implausible(projection: Float64Array) -> float:
        sizes = np.abs(projection[:, np.abs(projection).max(axis=0) > 0])
        if sizes.size == 0:
            return 0.0
        return math.log10(float(np.min(sizes.std(axis=0) / sizes.mean(axis=0))) + _TINY)

    return _by_projection(worlds, w, implausible)


def walsh_sparsity(worlds: Worlds, w: float, *, signs: Float64Array | None = None) -> Distinguisher:
    """Return an attack: is the projection P H D with a sparse P, whatever the signs D? Items must be a power of two.

    Squaring the entries of a row of P H D removes D, and the Walsh transform of the squares is p convolved with
    itself (over exclusive or): r non-zeros leave at most 1 + r(r−1)/2 of the n coefficients non-zero. It works while
    r² is not much larger than n. Who knows ``signs`` needs no squares and sees any zero in P.
    """
    transform = orthonormal_hadamard(worlds[0].shape[1])

    def implausible(projection: Float64Array) -> float:
        unsigned = projection**2 if signs is None else signs[:, None] * projection
        coefficients = np.abs(transform @ unsigned)
        coefficients /= np.sqrt(np.mean(coefficients**2)) + _TINY
        return float(np.mean(np.log10(coefficients + _TINY)))

    return _by_projection(worlds, w, implausible)


def lattice(worlds: Worlds, w: float, *, dim: int, density: float) -> Distinguisher:
    """Return an attack: is every entry of the projection 0 or ± the one value of the reference code's "FJLT"?"""
    spacing = fjlt_spacing(dim, density)

    def implausible(projection: Float64Array) -> float:
        sizes = np.abs(projection) / spacing
        return math.log10(float(np.mean(np.minimum(sizes, np.abs(sizes - 1)))) + _TINY)

    return _by_projection(worlds, w, implausible)


def _by_projection(worlds: Worlds, w: float, implausible: Callable[[Float64Array], float]) -> Distinguisher:
    """Solve for the projection that each candidate needs, and prefer the candidate whose projection is plausible."""
    inverses = [np.linalg.pinv(thin_lift(ratings, w)) for ratings in worlds]

    def score(published: Float64Array) -> float:
        needed = [math.sqrt(published.shape[1]) * (inverse @ published) for inverse in inverses]
        return implausible(needed[0]) - implausible(needed[1])

    return score
