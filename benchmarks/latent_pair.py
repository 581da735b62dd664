"""A synthetic pair whose items have vectors: tastes of falling strength, shared in part by two domains; any size.

``pricdr.data.synthetic`` gives every item one of several equally strong tastes. Real catalogues have a few strong
directions and many weak ones, and how many of them can be learnt is the question here, so items are points: a user who
is about to rate looks at a few items, drawn by popularity, and picks one of them by a logit of the inner product of
their vectors. Time and memory grow with the number of ratings.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pricdr.arrays import Float32Array, IntArray
from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ids, Ratings

_SLOTS: Final = 1 << 18
"""Popularity is a table of so many slots, of which every item has its share."""
_BLOCK: Final = 1 << 17


@dataclass(frozen=True, kw_only=True)
class LatentConfig:
    """Sizes, and how strong shared taste is."""

    users: int = 10_000
    source_items: int = 3000
    target_items: int = 2500
    source_ratings_per_user: float = 13.0
    """The mean before repeats are dropped; activity is log-normal."""
    target_ratings_per_user: float = 9.0
    fewest: int = 4
    tastes: int = 8
    strength: float = 2.5
    """Standard deviation of what the first taste adds to a logit."""
    decay: float = 0.8
    """Each taste is so much weaker than the one before."""
    shared: float = 0.85
    """Correlation of a user's tastes in the two domains."""
    looked_at: int = 24
    """Items that a user picks one of."""
    popularity_exponent: float = 0.75
    activity_spread: float = 0.6


@dataclass(frozen=True, eq=False)
class LatentPair:
    """The ratings, and what only the generator knows."""

    pair: DomainPair
    source_vectors: Float32Array
    """Source items x tastes: the true directions."""


def latent_pair(config: LatentConfig, *, seed: int) -> LatentPair:
    """Draw a pair; the same configuration and seed give the same one."""
    tastes, source_rng, target_rng = np.random.default_rng(seed).spawn(3)
    shape = (config.users, config.tastes)
    source = tastes.standard_normal(shape, dtype=np.float32)
    target = config.shared * source
    target += np.float32(np.sqrt(1 - config.shared**2)) * tastes.standard_normal(shape, dtype=np.float32)
    users = tuple(f"u{number:07d}" for number in range(config.users))
    source_ratings, vectors = _domain(
        config, "s", config.source_items, config.source_ratings_per_user, source, users, source_rng
    )
    target_ratings, _ = _domain(
        config, "t", config.target_items, config.target_ratings_per_user, target, users, target_rng
    )
    return LatentPair(DomainPair(source_ratings, target_ratings), vectors)


def _domain(
    config: LatentConfig,
    letter: str,
    n_items: int,
    mean: float,
    user_vectors: Float32Array,
    users: Ids,
    rng: np.random.Generator,
) -> tuple[Ratings, Float32Array]:
    strengths = config.strength * config.decay ** np.arange(config.tastes)
    vectors = (rng.standard_normal((n_items, config.tastes)) * strengths).astype(np.float32)
    # Positions say nothing about popularity, so that a prefix of the catalogue is like any other part.
    popularity = rng.permutation(np.arange(1, n_items + 1) ** -config.popularity_exponent)
    share = np.maximum(np.rint(popularity / popularity.sum() * _SLOTS), 1).astype(np.int64)
    table = np.repeat(np.arange(n_items, dtype=np.int32), share)
    activity = np.exp(config.activity_spread * rng.standard_normal(len(users)))
    activity = np.maximum(np.rint(activity * (mean / activity.mean())), config.fewest).astype(np.int64)
    raters = np.repeat(np.arange(len(users)), np.minimum(activity, n_items // 8))
    cells = np.empty(len(raters), dtype=np.int64)
    for start in range(0, len(raters), _BLOCK):
        part = raters[start : start + _BLOCK]
        cells[start : start + _BLOCK] = part * n_items + _picked(part, user_vectors, vectors, table, config, rng)
    rows, columns = np.divmod(np.unique(cells), n_items)
    items = tuple(f"{letter}{number:05d}" for number in range(n_items))
    return Ratings.from_codes(rows, columns, np.ones(len(rows)), users, items, has_values=False), vectors


def _picked(
    raters: IntArray,
    user_vectors: Float32Array,
    vectors: Float32Array,
    table: npt.NDArray[np.int32],
    config: LatentConfig,
    rng: np.random.Generator,
) -> IntArray:
    """One item for each rater: the best of a few by inner product and Gumbel noise, which is a draw by the logit."""
    offered = table[rng.integers(0, len(table), (len(raters), config.looked_at))]
    appeal = np.matmul(vectors[offered], user_vectors[raters][:, :, None])[:, :, 0]
    appeal -= np.log(rng.standard_exponential(appeal.shape, dtype=np.float32) + np.float32(1e-30))
    best = appeal.argmax(axis=1)
    return np.asarray(offered[np.arange(len(raters)), best], dtype=np.int64)
