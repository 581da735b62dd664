"""Publishers with one known flaw each, for attacks to succeed on. Never use any of them on ratings of real people.

They come from two places: the algorithm as the paper prints it, and the public reference code (its projection module),
rewritten here in a few lines on plain arrays. Ratings are users x items and releases users x dim, as everywhere.
Centring is left out: it changes none of the attacks, and the adversary could repeat it.
"""

import hashlib
import json
import math
from typing import Final, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import hadamard

from pricdr.arrays import Float64Array

Leak: TypeAlias = Literal["counts", "hash"]

CONSTANT_SEED: Final = 234
"""What the reference code seeds its generator with when it is imported."""


def thin_lift(ratings: Float64Array, w: float) -> Float64Array:
    """Return singular values lifted to √(Σ² + w²), but only the min(users, items) that a thin SVD returns."""
    left, singular, right = np.linalg.svd(ratings, full_matrices=False)
    return (left * np.sqrt(singular**2 + w**2)) @ right


def thin_svd_release(ratings: Float64Array, *, w: float, dim: int, rng: np.random.Generator) -> Float64Array:
    """Algorithm 1 with JLT as printed, its SVD taken as thin as the reference code takes it.

    Wrong for fewer items than users: only ``items`` directions get noise, so every published column lies in the
    column space of the ratings, whatever w is. :mod:`tests.attacks.algorithm_one` is the corrected form.
    """
    return _projected(thin_lift(ratings, w), rng.standard_normal((dim, ratings.shape[1])))


def printed_sjlt_release(
    ratings: Float64Array,
    *,
    w: float,
    dim: int,
    nonzeros: float,
    rng: np.random.Generator,
    signs: Float64Array | None = None,
) -> Float64Array:
    """Algorithm 1 with SJLT as printed: P H D times the lifted ratings, nothing added; items a power of two.

    Wrong because P is sparse: a published column combines only some ``nonzeros`` of the n rows of H D R̃, so
    neighbouring inputs put it on different subspaces, however large w is. The paper's q = O(1/m) is
    ``nonzeros`` = n/m, about one. ``signs``, the diagonal of D, are drawn unless given.
    """
    n_items = ratings.shape[1]
    density = nonzeros / n_items
    kept = rng.random((dim, n_items)) < density
    sparse = kept * rng.standard_normal((dim, n_items)) / math.sqrt(density)
    signs = rng.choice([-1.0, 1.0], n_items) if signs is None else signs
    return _projected(thin_lift(ratings, w), sparse @ orthonormal_hadamard(n_items) * signs)


def reference_fjlt_release(
    ratings: Float64Array, *, w: float, dim: int, density: float, rng: np.random.Generator
) -> Float64Array:
    """Return the reference code's "FJLT": a sparse projection of ±1 and 0, no Hadamard matrix, no signs, no Gaussians.

    Wrong because the projection is discrete: the release lies in a finite set that the ratings determine, and
    neighbouring inputs have different ones.
    """
    signs = rng.choice([-1.0, 1.0], (dim, ratings.shape[1]))
    kept = rng.random(signs.shape) < density
    return _projected(thin_lift(ratings, w), fjlt_spacing(dim, density) * signs * kept)


def fjlt_spacing(dim: int, density: float) -> float:
    """Return the one non-zero absolute value in the reference code's sparse projection."""
    return 1 / math.sqrt(density * dim)


def constant_seed_projection(n_items: int, dim: int) -> Float64Array:
    """Return the "random" projection of a generator seeded with a constant: everybody who reads the code has it."""
    return np.random.default_rng(CONSTANT_SEED).standard_normal((dim, n_items))


def constant_seed_release(ratings: Float64Array, *, w: float, dim: int) -> Float64Array:
    """Return the reference code's JLT: correct noise in law, drawn after seeding with a constant at import.

    Wrong because the projection is the only randomness there is, and it is public: with dim >= items the lifted
    ratings follow from the release, and the ratings from them.
    """
    return _projected(thin_lift(ratings, w), constant_seed_projection(ratings.shape[1], dim))


def per_column_w(epsilon: float, delta: float, *, dim: int) -> float:
    """Return the reference code's w: its ε is spent on each of the ``dim`` published columns, but named for all."""
    return 1 / (math.sqrt(epsilon / (2 * math.log(8 * dim / delta)) + 0.25) - 0.5)


def float_noise_release(
    ratings: Float64Array, item_rows: Float64Array, *, sigma: float, rng: np.random.Generator
) -> Float64Array:
    """Return A E + σN in double precision, as textbooks have it.

    Wrong in its lowest bits: the noise is σ times a double, not every double is, and adding the unrounded signal
    moves it off that set. The product is a sparse one because its order of additions, hence its last bit, is the
    same for everybody who repeats it.
    """
    noise = sigma * rng.standard_normal((ratings.shape[0], item_rows.shape[1]))
    signal: Float64Array = np.asarray(sp.csr_array(ratings) @ item_rows)
    return signal + noise


def leaky_folder(ratings: Float64Array, *, leak: Leak) -> dict[str, bytes]:
    """Return the files beside a release whose certificate describes its input, as well-meant provenance does.

    Wrong because they are read off the ratings without noise: a count moves with one rating, a hash with any bit.
    """
    certificate: dict[str, object] = {"epsilon": 4.0, "delta": 1e-6, "users": ratings.shape[0]}
    if leak == "counts":
        certificate["ratings"] = int(np.count_nonzero(ratings))
    else:
        certificate["input_sha256"] = hashlib.sha256(ratings.tobytes()).hexdigest()
    readme = "\n".join(f"{name}: {value}" for name, value in certificate.items())
    return {"certificate.json": json.dumps(certificate).encode(), "README.md": readme.encode()}


def orthonormal_hadamard(size: int) -> Float64Array:
    """Return the Walsh-Hadamard matrix with rows of norm 1; ``size`` must be a power of two."""
    return hadamard(size) / math.sqrt(size)


def _projected(lift: Float64Array, projection: Float64Array) -> Float64Array:
    """Return the last line of Algorithm 1, transposed: lifted ratings times the projection, over √dim."""
    return lift @ projection.T / math.sqrt(len(projection))
