"""A search for neighbouring inputs farther apart than claimed: families that come close, and a climb from any start.

Two things are searched. ``Formula``: the theorem of :mod:`pricdr.privacy.sums` in double precision, and variants of it
with one flaw each, to show that the search would find a violation. ``tests.attacks.integer_reference`` has the real
integer code on a calibrated grid. A ratio above 1 is a broken promise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from pricdr.arrays import Float64Array

_FIRST_STRIDE: Final = 0.5
_LAST_STRIDE: Final = 1e-4
_COUNT_WEIGHT: Final = 0.3
"""c, the weight of a column that counts ratings."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two inputs, users x items, and the guide both are summed along: a row per user."""

    guide: Float64Array
    before: Float64Array
    after: Float64Array
    prior: float = 5.0
    bound: float = 1.0
    """The most one rating counts."""
    longest: float = 1.0
    """Guide rows are kept within this norm; above 1 is a flaw."""

    @property
    def change(self) -> float:
        return float(np.abs(self.after - self.before).sum())


Formula: TypeAlias = Callable[[Float64Array, Float64Array, float], Float64Array]
"""(guide, ratings, prior) → sums, before noise."""


def learnt_sums(guide: Float64Array, ratings: Float64Array, prior: float) -> Float64Array:
    """Return the sums of the theorem: directions Q/√(‖Q‖² + Σa² + prior), added up for every user.

    >>> learnt_sums(np.array([[1.0]]), np.array([[1.0]]), 2.0).tolist()
    [[0.5]]
    """
    return _sums(guide, ratings, (ratings**2).sum(axis=0) + prior)


def centre_sums(guide: Float64Array, ratings: Float64Array, prior: float) -> Float64Array:
    """Return the sum of the guide over all ratings, and their number; claimed to move by √(1 + c²) times the change."""
    totals = ratings.sum(axis=1)
    return np.append(totals @ guide, _COUNT_WEIGHT * totals.sum()) / np.hypot(1, _COUNT_WEIGHT)


def unit_norm_sums(guide: Float64Array, ratings: Float64Array, prior: float) -> Float64Array:
    """FLAWED: plain unit directions Q/‖Q‖. Raters who cancel leave a direction that one more rating turns round."""
    return _sums(guide, ratings, np.zeros(ratings.shape[1]))


def without_squares_sums(guide: Float64Array, ratings: Float64Array, prior: float) -> Float64Array:
    """FLAWED: Q/√(‖Q‖² + prior), the sum of squares forgotten: many raters who cancel are all moved by one more."""
    return _sums(guide, ratings, np.full(ratings.shape[1], prior))


def self_guided_sums(guide: Float64Array, ratings: Float64Array, prior: float) -> Float64Array:
    """FLAWED: each user's guide row is computed inside from its own ratings; ``guide`` has a row per *item* here.

    One rating then turns the user's guide row, and with it the direction of every item the user rated.
    """
    own_guide = ratings @ guide
    norms = np.linalg.norm(own_guide, axis=1, keepdims=True)
    return learnt_sums(own_guide / np.where(norms > 0, norms, 1.0), ratings, prior)


def distance_ratio(formula: Formula, pair: Neighbours) -> float:
    one, two = (formula(pair.guide, ratings, pair.prior) for ratings in (pair.before, pair.after))
    return float(np.linalg.norm(two - one)) / pair.change if pair.change else 0.0


def climb(
    ratio: Callable[[Neighbours], float], start: Neighbours, *, steps: int, rng: np.random.Generator
) -> tuple[float, Neighbours]:
    """Small random changes of guide, ratings and prior, kept where the ratio grows; the best and what attains it.

    Where ``before`` and ``after`` are both whole numbers they stay so; the entries in which they differ stay different.
    """
    best, at = ratio(start), start
    for stride in np.geomspace(_FIRST_STRIDE, _LAST_STRIDE, steps):
        tried = _nearby(at, float(stride), rng)
        reached = ratio(tried)
        if reached > best:
            best, at = reached, tried
    return best, at


def _nearby(pair: Neighbours, stride: float, rng: np.random.Generator) -> Neighbours:
    kind = rng.integers(4)
    if kind == 0:  # all of the guide
        return replace(pair, guide=_short(pair.guide + stride * rng.standard_normal(pair.guide.shape), pair.longest))
    if kind == 1:  # one row of it
        guide = pair.guide.copy()
        guide[rng.integers(len(guide))] += stride * rng.standard_normal(guide.shape[1])
        return replace(pair, guide=_short(guide, pair.longest))
    if kind == 2:
        return replace(pair, prior=float(max(0.0, pair.prior * np.exp(stride * rng.standard_normal()) - 1e-3 * stride)))
    return _other_ratings(pair, stride, rng)


def _other_ratings(pair: Neighbours, stride: float, rng: np.random.Generator) -> Neighbours:
    """Return one entry of the ratings that both inputs share, or one of those that differ, moved within [0, bound]."""
    row, column = (int(rng.integers(size)) for size in pair.before.shape)
    before, after = pair.before.copy(), pair.after.copy()
    whole = bool((before % 1 == 0).all() and (after % 1 == 0).all())
    shared = before[row, column] == after[row, column]
    if whole and not shared:
        return pair
    value = (
        float(rng.integers(0, int(pair.bound) + 1)) if whole else before[row, column] + stride * rng.standard_normal()
    )
    before[row, column] = min(max(value, 0.0), pair.bound)
    if shared:
        after[row, column] = before[row, column]
    return replace(pair, before=before, after=after)


def _short(rows: Float64Array, longest: float) -> Float64Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, longest / np.where(norms > 0, norms, 1.0))


def _sums(guide: Float64Array, ratings: Float64Array, added: Float64Array) -> Float64Array:
    totals = ratings.T @ guide
    below = (totals**2).sum(axis=1) + added
    directions = totals / np.sqrt(np.where(below > 0, below, 1.0))[:, None]
    return ratings @ directions


def sharing(raters: int, *, bound: float = 1.0, before: float = 0.0) -> Neighbours:
    """Return raters who share one guide row, and one of them whose rating goes from ``before`` to ``bound``."""
    guide = np.zeros((raters, 2))
    guide[:, 0] = 1.0
    return _one_item(guide, np.full(raters, bound), before, bound)


def cancelling(raters: int, *, bound: float = 1.0, before: float = 0.0) -> Neighbours:
    """Return raters of opposite guide rows, and one rating more: it moves the rows of all the others a little."""
    guide = np.zeros((raters, 2))
    guide[:, 0] = np.where(np.arange(raters) % 2, 1.0, -1.0)
    guide[-1] = 0
    guide[-1, -1] = 1.0
    return _one_item(guide, np.full(raters, bound), before, bound)


def random_item(
    raters: int, dim: int, rng: np.random.Generator, *, bound: float = 1.0, whole: bool = True
) -> Neighbours:
    """Return one item, raters of random guide rows and random ratings; one rating is new."""
    guide = _short(rng.standard_normal((raters, dim)), 1.0)
    ratings = rng.integers(1, int(bound) + 1, raters).astype(np.float64) if whole else bound * rng.random(raters)
    ratings[-1] = bound
    return _one_item(guide, ratings, 0.0, bound)


def replaced_user(items: int, followers: int, clip: float) -> Neighbours:
    """Return a user whose ratings sum to ``clip`` in both inputs, on items whose followers point opposite ways."""
    users = 2 * followers + 1
    guide, before = np.zeros((users, 2)), np.zeros((users, 2 * items))
    guide[:followers, 0], guide[followers:-1, 0] = 1.0, -1.0
    before[:followers, :items] = before[followers:-1, items:] = clip / items
    after = before.copy()
    before[-1, :items] = after[-1, items:] = clip / items
    return Neighbours(guide, before, after, bound=clip)


def added_user(items: int, followers: int, clip: float) -> Neighbours:
    """Return a user with no ratings, or with ratings that sum to ``clip``, on items whose followers point one way."""
    pair = replaced_user(items, followers, clip)
    before = pair.before.copy()
    before[-1] = 0
    return replace(pair, before=before)


def own_taste(ratings: int) -> Neighbours:
    """Return a user whose tastes nearly balance, and one rating that tips them (for guides computed inside).

    The guide has a row per item: half of the user's items point one way, half the other, and the last one tips it.
    """
    guide = np.zeros((ratings + 1, 2))
    guide[:ratings, 0] = np.where(np.arange(ratings) % 2, 1.0, -1.0)
    guide[-1, 1] = 1.0
    if ratings % 2:
        guide[0] = 0
    before = np.zeros((2, ratings + 1))
    before[0, :ratings] = 1
    after = before.copy()
    after[0, -1] = 1
    return Neighbours(guide, before, after)


def _one_item(guide: Float64Array, ratings: Float64Array, before: float, bound: float) -> Neighbours:
    after = ratings[:, None].astype(np.float64)
    earlier = after.copy()
    earlier[-1] = before
    return Neighbours(guide, earlier, after, bound=bound)
