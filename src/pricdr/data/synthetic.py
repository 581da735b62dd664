"""Two made-up domains over shared users with shared tastes: no download, any size, the demo's built-in data.

Every user has a mix of tastes and takes it into both domains, where taste of that domain's own may join it; every item
has one main taste and, within it, a popularity that falls as a power of its rank. A rating is high where user and item
match. Synthetic all the same: what helps here shows what is possible, never how much it would help elsewhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.arrays import Float64Array, IntArray
from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ratings
from pricdr.errors import ParameterError, require_count, require_positive

_ROUNDS = 40
"""Most times a pair that was drawn already is drawn again."""


@dataclass(frozen=True, kw_only=True)
class SyntheticConfig:
    """How large the two domains are and how their users behave."""

    users: int = 3000
    source_items: int = 1500
    target_items: int = 1200
    tastes: int = 12
    source_ratings_per_user: float = 25.0
    """The mean; activity is log-normal, at least one rating and at most half of the items."""
    target_ratings_per_user: float = 12.0
    focus: float = 4.0
    """How concentrated tastes are: a user's mix is Dirichlet with parameter ``1 / focus``."""
    popularity_exponent: float = 0.9
    """The item of rank r within its taste is drawn in proportion to ``r ** -popularity_exponent``."""
    off_taste: float = 0.15
    """The share of draws that ignore the user's tastes."""
    activity_spread: float = 0.8
    """Standard deviation of the logarithm of a user's activity; 0 makes all users equally active."""
    own_taste: float = 0.0
    """The share of a user's mix that each domain has to itself: at 0 taste is the same in both, at 1 unrelated."""

    def __post_init__(self) -> None:
        require_count(
            users=self.users, source_items=self.source_items, target_items=self.target_items, tastes=self.tastes
        )
        require_positive(focus=self.focus)
        for name, least, most in (
            *((name, 0, 1) for name in ("off_taste", "own_taste")),
            *((name, 0, 4) for name in ("popularity_exponent", "activity_spread")),
            *((name, self.tastes, math.inf) for name in ("source_items", "target_items")),
            ("source_ratings_per_user", 1, self.source_items / 4),
            ("target_ratings_per_user", 1, self.target_items / 4),
        ):
            if not least <= getattr(self, name) <= most:
                raise ParameterError(f"{name} must lie between {least:g} and {most:g}, got {getattr(self, name)!r}")


STRONGLY_SHARED: Final = SyntheticConfig(
    users=4000,
    source_items=400,
    target_items=600,
    tastes=8,
    source_ratings_per_user=50.0,
    target_ratings_per_user=15.0,
    focus=6.0,
    popularity_exponent=1.0,
    activity_spread=0.7,
    own_taste=0.15,
)
"""The demo's pair: taste that two domains share more than real ones do. Few items, many ratings per user and few tastes
are what lets a random projection carry taste through noise; long tails and draws off taste are as in real data."""


def synthetic_pair(config: SyntheticConfig | None = None, *, seed: int = 0) -> DomainPair:
    """Draw two domains; the same configuration and seed give the same pair.

    Ratings are whole numbers from 1 to 5. Every user has at least one in each domain; an unpopular item may have none.

    >>> small = SyntheticConfig(users=50, source_items=100, target_items=60)
    >>> pair = synthetic_pair(small)
    >>> pair.users[:2], pair.source.items[0], pair.target.items[-1]
    (('u0000001', 'u0000002'), 's00001', 't00060')
    """
    config = config or SyntheticConfig()
    # Own tastes have generators of their own, so that without them every draw is what it always was.
    tastes_rng, source_rng, target_rng, *own_rngs = np.random.default_rng(seed).spawn(5)
    prior = np.full(config.tastes, 1 / config.focus)
    shared = tastes_rng.dirichlet(prior, size=config.users)
    users, drawn = _names("u", config.users, 7), []
    for letter, n_items, mean, rng, own_rng in (
        ("s", config.source_items, config.source_ratings_per_user, source_rng, own_rngs[0]),
        ("t", config.target_items, config.target_ratings_per_user, target_rng, own_rngs[1]),
    ):
        tastes, main_taste = shared, np.arange(n_items) % config.tastes
        if config.own_taste:
            own = own_rng.dirichlet(prior, size=config.users)
            tastes = (1 - config.own_taste) * shared + config.own_taste * own
        # A random order, so that an id says nothing about popularity.
        choose = _chooser(config, tastes, main_taste, rng.permutation(n_items), rng)
        activity = _activity(config, mean, n_items // 2, rng)
        rows, columns = np.divmod(_distinct_pairs(choose, activity, n_items), n_items)
        # Whole numbers from 1 to 5: about 4.5 on the user's first taste, about 2.5 off it.
        match = tastes[rows, main_taste[columns]] / tastes.max(axis=1)[rows]
        values = np.clip(np.rint(2.5 + 2 * np.sqrt(match) + 0.8 * rng.standard_normal(len(rows))), 1, 5)
        items = _names(letter, n_items, 5)
        drawn.append(Ratings.from_codes(rows.astype(np.int32), columns.astype(np.int32), values, users, items))
    return DomainPair(*drawn)


def _chooser(
    config: SyntheticConfig, tastes: Float64Array, main_taste: IntArray, order: IntArray, rng: np.random.Generator
) -> Callable[[IntArray], IntArray]:
    """Return what draws an item for each user: a taste from the user's mix, then an item of it, early in ``order``.

    Both draws invert cumulative tables, which stand one after the other, the k-th shifted by k: one search serves all.
    """
    taste_table = (_cumulative(tastes) + np.arange(len(tastes))[:, None]).ravel()
    # Items by taste, in each by popularity.
    items = order[np.argsort(main_taste[order], kind="stable")]
    sizes = np.bincount(main_taste, minlength=config.tastes)
    weights = [np.arange(1, size + 1) ** -config.popularity_exponent for size in sizes]
    item_table = np.concatenate([_cumulative(weight[None])[0] + taste for taste, weight in enumerate(weights)])

    def choose(users: IntArray) -> IntArray:
        taste = _search(taste_table, users + rng.random(len(users))) - users * config.tastes
        taste = np.clip(taste, 0, config.tastes - 1)  # rounding may step over the end of a user's table
        off = rng.random(len(users)) < config.off_taste
        taste[off] = rng.integers(config.tastes, size=int(off.sum()))
        return items[_search(item_table, taste + rng.random(len(users)))]

    return choose


def _cumulative(weights: Float64Array) -> Float64Array:
    """Return the cumulative shares of every row; the last is exactly 1."""
    sums = np.cumsum(weights, axis=1)
    return np.asarray(sums / sums[:, -1:], dtype=np.float64)


def _search(table: Float64Array, at: Float64Array) -> IntArray:
    return np.minimum(np.searchsorted(table, at, side="right"), len(table) - 1)


def _activity(config: SyntheticConfig, mean: float, most: int, rng: np.random.Generator) -> IntArray:
    shape = np.exp(config.activity_spread * rng.standard_normal(config.users))
    scale = mean / float(shape.mean())
    for _ in range(20):  # rounding and both limits move the mean: correct for what they did
        counts = np.clip(np.rint(scale * shape), 1, most).astype(np.int64)
        scale *= mean / float(counts.mean())
    return counts


def _distinct_pairs(choose: Callable[[IntArray], IntArray], activity: IntArray, n_items: int) -> IntArray:
    """Draw ``activity`` different items, fewer where tastes run out, as sorted keys ``user * n_items + item``."""
    pairs, missing = np.zeros(0, dtype=np.int64), activity
    for _ in range(_ROUNDS):
        if not missing.any():
            break
        users = np.repeat(np.arange(len(activity)), missing)
        pairs = np.union1d(pairs, users * n_items + choose(users))
        missing = activity - np.bincount(pairs // n_items, minlength=len(activity))
    return pairs


def _names(letter: str, count: int, least_digits: int) -> tuple[str, ...]:
    digits = max(least_digits, math.ceil(math.log10(count + 1)))
    return tuple(f"{letter}{number:0{digits}d}" for number in range(1, count + 1))
