"""The paper's Algorithm 1 in its own words (dense SVD), corrected, as a reference for small matrices.

The printed form lifts only the singular values that a thin SVD returns; with fewer items than users that leaves user
directions without noise. Here the matrix is padded so that all of them are lifted. Centring is left out: it is
post-processing on the target's side.
"""

import numpy as np

from pricdr.arrays import Float64Array


def lifted(ratings: Float64Array, w: float) -> Float64Array:
    """Return R̃ with R̃ᵀR̃ = A Aᵀ + w² I for ratings A, users x items: singular values lifted to √(Σ² + w²)."""
    n_users, n_items = ratings.shape
    padded = np.zeros((max(n_items, n_users), n_users))
    padded[:n_items] = ratings.T
    left, singular, right = np.linalg.svd(padded, full_matrices=False)
    lift: Float64Array = (left * np.sqrt(singular**2 + w**2)) @ right
    return lift


def svd_form(ratings: Float64Array, *, w: float, dim: int, rng: np.random.Generator) -> Float64Array:
    """Return Algorithm 1 with JLT: M R̃ / √dim, transposed to users x dim."""
    lift = lifted(ratings, w)
    published: Float64Array = (rng.standard_normal((dim, lift.shape[0])) @ lift).T / np.sqrt(dim)
    return published


def additive_form(ratings: Float64Array, *, w: float, dim: int, rng: np.random.Generator) -> Float64Array:
    """Return the same law without a decomposition: (A Mᵀ + w N) / √dim."""
    n_users, n_items = ratings.shape
    signal = ratings @ rng.standard_normal((n_items, dim))
    published: Float64Array = (signal + w * rng.standard_normal((n_users, dim))) / np.sqrt(dim)
    return published
