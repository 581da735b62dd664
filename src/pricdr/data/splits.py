"""``Split``: what the target trains on, what it is measured by, and which users have no history at all.

Holding a split in memory needs numpy and scipy alone; ``split_files`` reads and writes it.
"""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import IntArray, RatingMatrix, Ratings, RatingsLike
from pricdr.errors import InputError, ParameterError, require_seed
from pricdr.randomness import Simulation

BoolArray: TypeAlias = npt.NDArray[np.bool_]

NEGATIVES: Final = 99
FEWEST: Final = 3
"""Ratings a user needs to be evaluated: one to test, one to validate, one to train on."""
FEW: Final = 3
"""The most training ratings of a user who counts as having few."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One held-out item per evaluated user, and the unrated items it is ranked among."""

    users: IntArray
    items: IntArray
    negatives: IntArray
    """``len(users)`` x 99, items the user never rated."""

    def __len__(self) -> int:
        """Return how many users are evaluated."""
        return len(self.users)

    def __repr__(self) -> str:
        """Show sizes only: what was rated is private."""
        return f"HeldOut({len(self)} users, {self.negatives.shape[1]} negatives each)"

    def only(self, keep: BoolArray | slice) -> "HeldOut":
        """Return the part where ``keep`` is true, or a slice of it."""
        return HeldOut(self.users[keep], self.items[keep], self.negatives[keep])


@dataclass(frozen=True, eq=False)
class Split:
    """Ratings to train on, two held-out items per evaluated user, and the users whose history is hidden."""

    train: Ratings
    """Over all users and items; a cold user's row is empty."""
    validation: HeldOut
    test: HeldOut
    cold: BoolArray
    """Per user of ``train``: evaluated, but without any rating to train on."""
    seed: int | None
    """None for an official split."""
    not_evaluated: int = 0
    """Users with too few ratings to be evaluated; all of theirs are trained on."""

    def __post_init__(self) -> None:
        if np.diff(self.train.matrix.indptr)[self.cold].any():
            raise InputError("a cold user has ratings to train on")

    def __repr__(self) -> str:
        """Show sizes only: what was rated is private."""
        evaluated = f"{len(self.test)} users evaluated, {int(self.cold.sum())} of them cold"
        return f"Split({len(self.train)} ratings to train on, {evaluated})"

    def _repr_html_(self) -> str:
        """Show a notebook sizes only: what was rated is private."""
        from pricdr.notebook import summary_html

        facts = {"ratings to train on": f"{len(self.train):,}", "items": f"{len(self.train.items):,}"}
        for stratum, keep in self.strata().items():
            facts[f"test users, {stratum}"] = f"{int(keep.sum()):,}"
        facts["users not evaluated"] = f"{self.not_evaluated:,}"
        facts["seed"] = "none: an official split" if self.seed is None else str(self.seed)
        return summary_html("Split", facts)

    def strata(self) -> dict[str, BoolArray]:
        """Return which test items count for each kind of user, as masks over ``test``.

        ``warm`` users have ratings to train on and ``cold`` users have none. ``few`` users have 1 to 3: they are warm
        users too, counted once more because a source should help them most.
        """
        cold = self.cold[self.test.users]
        ratings = np.diff(self.train.matrix.indptr)[self.test.users]
        few = ~cold & (ratings > 0) & (ratings <= FEW)
        return {"all": np.ones(len(cold), dtype=bool), "warm": ~cold, "few": few, "cold": cold}


def split(ratings: RatingsLike, *, threshold: float | None = None, cold: float = 0.0, seed: int = 0) -> Split:
    """Hold out one item of each user for testing and one for validation, as ``pricdr split`` does.

    Each rated pair counts as 1, whatever its value. Users and items without any are left out, and users with fewer than
    three are trained on but not evaluated.

    Args:
        ratings: The target's ratings, or a data frame of them.
        threshold: Count only what is rated at least this.
        cold: Hide the whole history of this share of the evaluated users: they are what a newcomer looks like.
        seed: Another seed, another split.

    >>> others = [f"user {n}" for n in range(300)]
    >>> ratings = Ratings.from_triples(["alice"] * 5 + others, [f"item {n}" for n in range(305)])
    >>> split(ratings)
    Split(303 ratings to train on, 1 users evaluated, 0 of them cold)
    """
    return leave_one_out(Ratings.of(ratings).positives(threshold).rated(), seed=seed, cold=cold)


def leave_one_out(ratings: Ratings, *, seed: int, cold: float = 0.0) -> Split:
    """Hold out one item for testing and one for validation of every user with at least three ratings.

    Negatives for validation and for testing are drawn apart and share no item of a user. With ``cold``, that fraction
    of the evaluated users loses the rest of its history too: they are what a newcomer looks like.

    >>> r = Ratings.from_triples(["a"] * 4 + ["b"], ["i1", "i2", "i3", "i4", "i1"])
    >>> r = r.select(items=tuple(f"i{n}" for n in range(400)))
    >>> split = leave_one_out(r, seed=1)
    >>> len(split.train), len(split.test), split.not_evaluated
    (3, 1, 1)
    """
    require_seed(seed=seed)
    if not 0 <= cold < 1:
        raise ParameterError(f"cold must lie in [0, 1), got {cold!r}")
    counts = np.diff(ratings.matrix.indptr)
    evaluated = np.flatnonzero(counts >= FEWEST)
    if not len(evaluated):
        raise InputError(f"no user has {FEWEST} ratings or more: nothing can be held out")
    simulation = Simulation(seed)
    _require_negatives(ratings, int(counts[evaluated].max()), 2 * NEGATIVES)
    picks = simulation.generator("held-out items")
    first = picks.integers(0, counts[evaluated])
    # Another position, uniformly among the others.
    second = (first + picks.integers(1, counts[evaluated])) % counts[evaluated]
    starts = ratings.matrix.indptr[evaluated]
    hidden = _newcomers(len(ratings.users), evaluated, cold, simulation)
    keep = ~np.repeat(hidden, counts)
    keep[starts + first] = keep[starts + second] = False
    negatives = _draw_negatives(ratings.matrix, evaluated, 2 * NEGATIVES, simulation.generator("negatives"))
    indices = ratings.matrix.indices.astype(np.int64)
    return Split(
        train=_part_of(ratings, keep),
        validation=HeldOut(evaluated, indices[starts + second], negatives[:, :NEGATIVES]),
        test=HeldOut(evaluated, indices[starts + first], negatives[:, NEGATIVES:]),
        cold=hidden,
        seed=seed,
        not_evaluated=int((counts < FEWEST).sum()),
    )


def set_aside(
    ratings: Ratings, *, seed: int, cold: float = 0.0, among: BoolArray | None = None
) -> tuple[Ratings, HeldOut]:
    """Set aside one item of every user with two ratings or more, to choose by where nothing is measured.

    Returns the ratings without them, and them. With ``cold``, that fraction of the users ``among`` (of all without it)
    loses the rest of its history too.

    >>> r = Ratings.from_triples(["a"] * 4 + ["b"], ["i1", "i2", "i3", "i4", "i1"])
    >>> kept, chosen_by = set_aside(r.select(items=tuple(f"i{n}" for n in range(200))), seed=1)
    >>> len(kept), len(chosen_by)
    (4, 1)
    """
    counts = np.diff(ratings.matrix.indptr)
    chosen = np.flatnonzero(counts > 1)
    if not len(chosen):
        raise InputError("no user has two ratings or more: nothing can be set aside")
    require_seed(seed=seed)
    simulation = Simulation(seed)
    _require_negatives(ratings, int(counts[chosen].max()), NEGATIVES)
    at = ratings.matrix.indptr[chosen] + simulation.generator("items set aside").integers(0, counts[chosen])
    candidates = chosen if among is None else chosen[among[chosen]]
    keep = ~np.repeat(_newcomers(len(ratings.users), candidates, cold, simulation), counts)
    keep[at] = False
    negatives = _draw_negatives(ratings.matrix, chosen, NEGATIVES, simulation.generator("negatives"))
    return ratings.only(keep), HeldOut(chosen, ratings.matrix.indices[at].astype(np.int64), negatives)


def official(ratings: Ratings, validation: HeldOut, test: HeldOut) -> Split:
    """Make a split of given held-out pairs: they leave the training ratings, and everything else stays."""
    held = ratings.matrix.tocoo()
    codes = held.row.astype(np.int64) * len(ratings.items) + held.col
    out = np.concatenate([part.users * len(ratings.items) + part.items for part in (validation, test)])
    missing = ~np.isin(out, codes)
    if missing.any():
        user, item = divmod(int(out[missing][0]), len(ratings.items))
        raise InputError(f"the split holds out {ratings.items[item]!r} of {ratings.users[user]!r}, who never rated it")
    train = _part_of(ratings, ~np.isin(codes, out))
    empty = np.diff(train.matrix.indptr) == 0
    cold = np.zeros(len(ratings.users), dtype=bool)
    cold[test.users] = empty[test.users]
    return Split(train, validation, test, cold, seed=None, not_evaluated=len(ratings.users) - len(test))


def _part_of(ratings: Ratings, keep: BoolArray) -> Ratings:
    """Return the ratings to train on, marked as the part of a split.

    One rating more can deal the held-out items of others anew. So a release of the training part, a guide say, keeps
    its promise for that part as it was split, and its certificate says so.
    """
    rule = "the training part of a split"
    before = ratings.filtered_by
    return ratings.only(keep).disclosing(rule if before is None else f"{before}, {rule}")


def _newcomers(users: int, candidates: IntArray, cold: float, simulation: Simulation) -> BoolArray:
    """Choose a fraction of the candidates, who are to look like newcomers."""
    hidden = np.zeros(users, dtype=bool)
    count = math.floor(cold * len(candidates) + 0.5)
    hidden[simulation.generator("cold users").permutation(candidates)[:count]] = True
    return hidden


def _require_negatives(ratings: Ratings, most: int, count: int) -> None:
    if len(ratings.items) - most < count:
        raise InputError(
            f"{len(ratings.items):,} items are too few: a user who rated {most:,} of them leaves fewer than "
            f"{count} to be ranked among"
        )


def _draw_negatives(matrix: RatingMatrix, users: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw ``count`` distinct unrated items for each user, uniformly; those that collide are drawn again."""
    n_items = matrix.shape[1]
    # A pair as one sorted number, so that one search tells which drawn items were rated.
    codes = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr)) * n_items + matrix.indices
    offsets = users[:, None] * n_items
    drawn = rng.integers(0, n_items, (len(users), count))
    while True:
        order = np.argsort(drawn, axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, order, axis=1)
        again = np.zeros_like(drawn, dtype=bool)
        repeated = np.pad(ordered[:, 1:] == ordered[:, :-1], ((0, 0), (1, 0)))
        np.put_along_axis(again, order, repeated, axis=1)
        at = np.searchsorted(codes, drawn + offsets)
        # The minimum: a pair after the last rated one is found past the end.
        again |= codes[np.minimum(at, len(codes) - 1)] == drawn + offsets
        if not again.any():
            return drawn
        drawn[again] = rng.integers(0, n_items, int(again.sum()))
