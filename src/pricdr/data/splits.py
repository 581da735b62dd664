"""``Split``: what the target trains on, what it is measured by, and which users have no history at all.

Holding a split in memory needs numpy alone; ``split_files`` reads and writes it.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np

from pricdr.data.csr import row_counts
from pricdr.data.hold_out_rules import (
    FEWEST,
    OFFICIAL,
    ONE_AT_RANDOM,
    Float64Array,
    choose_at_random,
    choose_latest,
    choose_newcomers,
    choose_one_of_each,
    described,
    draw_negatives,
    items_to_test,
    pair_codes,
    require_negatives,
    require_times,
    rows_of,
    united,
)
from pricdr.data.hold_out_rules import NEGATIVES as NEGATIVES
from pricdr.data.hold_out_rules import BoolArray as BoolArray
from pricdr.data.ratings import IntArray, Ratings, RatingsLike
from pricdr.errors import InputError, require_count, require_seed, require_share
from pricdr.randomness import Simulation

FEW: Final = 3
"""The most training ratings of a user who counts as having few."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out items, one or several per evaluated user, and the unrated items that each is ranked among."""

    users: IntArray
    """Of each held-out item; those of a user are adjacent."""
    items: IntArray
    negatives: IntArray
    """``len(users)`` x 99, items the user never rated."""

    def __post_init__(self) -> None:
        if len(self.starts) != len(np.unique(self.users)):
            raise InputError("the held-out items of a user must follow one another")
        pairs = self.users.astype(np.int64) * (int(self.items.max(initial=0)) + 1) + self.items
        if len(np.unique(pairs)) != len(pairs):
            raise InputError("the same item of a user is held out twice")

    def __len__(self) -> int:
        """Return how many items are held out."""
        return len(self.users)

    def __repr__(self) -> str:
        """Show sizes only: what was rated is private."""
        users = len(self.starts)
        held_out = f"{users} users" if users == len(self) else f"{len(self)} items of {users} users"
        return f"HeldOut({held_out}, {self.negatives.shape[1]} negatives each)"

    @cached_property
    def starts(self) -> IntArray:
        """Where the rows of each user begin."""
        return np.flatnonzero(np.diff(self.users, prepend=-1))

    @property
    def evaluated(self) -> IntArray:
        """Each user once, in the order of the rows."""
        return self.users[self.starts]

    @property
    def user_of_row(self) -> IntArray:
        """The position in ``evaluated`` of each row's user."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self)))

    def only(self, keep: BoolArray | slice) -> "HeldOut":
        """Return the part where ``keep`` is true, or a slice of it."""
        return HeldOut(self.users[keep], self.items[keep], self.negatives[keep])


@dataclass(frozen=True, eq=False)
class Split:
    """Ratings to train on, held-out items to validate and to test by, and the users whose history is hidden."""

    train: Ratings
    """Over all users and items; a cold user's row is empty."""
    validation: HeldOut
    test: HeldOut
    cold: BoolArray
    """Per user of ``train``: evaluated, but without any rating to train on."""
    seed: int | None
    """None for an official split."""
    not_evaluated: int = 0
    """Users without a test item; all of their ratings are trained on, or validated by."""
    protocol: str = ONE_AT_RANDOM
    """What is tested by, in words."""

    def __post_init__(self) -> None:
        if row_counts(self.train.matrix)[self.cold].any():
            raise InputError("a cold user has ratings to train on")

    @classmethod
    def of(
        cls,
        train: RatingsLike,
        test: RatingsLike,
        validation: RatingsLike | None = None,
        *,
        cold: float = 0.0,
        seed: int = 0,
    ) -> "Split":
        """Make a split of ratings that somebody divided already, as ``pricdr split --train --test`` does.

        Each rated pair counts as 1. A pair to train on is not tested by, and neither of them is validated by: such
        repetitions are dropped. Test users without ratings to train on are cold.

        Args:
            train: What to train on.
            test: What to test by, one rating or several per user.
            validation: What to validate by. Without it, one rating of every user with two or more in ``train`` is set
                aside, at random.
            cold: Hide the whole history in ``train`` of this share of the test users who have one.
            seed: Of what is set aside, of who is hidden, and of the negatives.

        Raises:
            InputError: Nothing is left to train on, to test or to validate by.
        """
        require_seed(seed=seed)
        require_share(cold=cold)
        simulation = Simulation(seed)
        whole, (trained, tested, validated) = united(train, test, validation)
        counts = np.bincount(rows_of(whole)[trained], minlength=len(whole.users))
        if validation is None:
            validated = choose_one_of_each(whole, trained, simulation)
        repeated = "every rating given for that is also in another part"
        only_one = repeated if validation is not None else "no user has two ratings to train on"
        for mask, lack in (
            (trained, "train on"),
            (tested, f"test by: {repeated}"),
            (validated, f"validate by: {only_one}"),
        ):
            if not mask.any():
                raise InputError(f"nothing is left to {lack}")
        candidates = np.intersect1d(rows_of(whole)[tested], np.flatnonzero(counts))
        hidden = choose_newcomers(len(whole.users), candidates, cold, simulation)
        kept = _part_of(whole, trained & ~validated & ~hidden[rows_of(whole)])
        held_out = with_negatives(whole, validated, tested, simulation)
        not_tested = len(whole.users) - len(held_out[1].starts)
        return cls(kept, *held_out, cold_users(kept, held_out[1]), seed, not_tested, "ratings that were given apart")

    def __repr__(self) -> str:
        """Show sizes only: what was rated is private."""
        evaluated = f"{len(self.test.starts)} users evaluated, {int(self.cold.sum())} of them cold"
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
        """Return which users count for each kind of user, as masks over ``test.evaluated``.

        ``warm`` users have ratings to train on and ``cold`` users have none. ``few`` users have 1 to 3: they are warm
        users too, counted once more because a source should help them most.
        """
        cold = self.cold[self.test.evaluated]
        ratings = row_counts(self.train.matrix)[self.test.evaluated]
        few = ~cold & (ratings > 0) & (ratings <= FEW)
        return {"all": np.ones(len(cold), dtype=bool), "warm": ~cold, "few": few, "cold": cold}


def split(
    ratings: RatingsLike,
    *,
    threshold: float | None = None,
    cold: float = 0.0,
    seed: int = 0,
    test_items: int = 1,
    ratio: float | None = None,
    times: Float64Array | str | None = None,
) -> Split:
    """Hold out items of each user for testing and one for validation, as ``pricdr split`` does.

    Each rated pair counts as 1, whatever its value. Users and items without any are left out, and users with too few
    are trained on but not evaluated: there must be one item to validate by and one to train on.

    Args:
        ratings: The target's ratings, or a data frame of them.
        threshold: Count only what is rated at least this.
        cold: Hide the whole history of this share of the evaluated users: they are what a newcomer looks like.
        seed: Another seed, another split.
        test_items: How many items of each user to test by.
        ratio: Test by this share of each user's ratings instead, rounded: at least one, and all but two at most.
        times: When each pair was rated: each user's latest ones are tested by and the one before them is validated by,
            where chance decides without it. Of a data frame the name of its time column; of ``Ratings`` one number per
            rating, in the order of ``ratings.to_frame()``.

    >>> others = [f"user {n}" for n in range(300)]
    >>> ratings = Ratings.from_triples(["alice"] * 5 + others, [f"item {n}" for n in range(305)])
    >>> split(ratings)
    Split(303 ratings to train on, 1 users evaluated, 0 of them cold)
    """
    given, times = _with_times(ratings, times)
    if times is not None and threshold is not None and len(times) == len(given):
        times = times[given.matrix.data >= threshold]
    kept = given.positives(threshold).rated()
    return hold_out(kept, seed=seed, cold=cold, test_items=test_items, ratio=ratio, times=times)


def _with_times(ratings: RatingsLike, times: Float64Array | str | None) -> tuple[Ratings, Float64Array | None]:
    """Return the ratings, and when each was made, in the same order."""
    if isinstance(ratings, Ratings):
        if isinstance(times, str):
            raise InputError(f"times={times!r:.60} names a column of a data frame, and Ratings have no times")
        return ratings, times
    if times is None:
        return Ratings.of(ratings), None
    from pricdr.data.frames import ratings_and_times

    if not isinstance(times, str):
        # Ratings are sorted by their ids: a column in the order of the frame's rows would silently belong to others.
        raise InputError("times must be the name of a column where ratings are a data frame, whose rows are reordered")
    return ratings_and_times(ratings, times)


def leave_one_out(ratings: Ratings, *, seed: int, cold: float = 0.0) -> Split:
    """Hold out one item for testing and one for validation of every user with at least three ratings.

    >>> r = Ratings.from_triples(["a"] * 4 + ["b"], ["i1", "i2", "i3", "i4", "i1"])
    >>> r = r.select(items=tuple(f"i{n}" for n in range(400)))
    >>> split = leave_one_out(r, seed=1)
    >>> len(split.train), len(split.test), split.not_evaluated
    (3, 1, 1)
    """
    return hold_out(ratings, seed=seed, cold=cold)


def hold_out(
    ratings: Ratings,
    *,
    seed: int,
    cold: float = 0.0,
    test_items: int = 1,
    ratio: float | None = None,
    times: Float64Array | None = None,
) -> Split:
    """Hold out items of every user with enough ratings, see :func:`split`.

    Negatives for validation and for testing are drawn apart and share no item of a user. With ``cold``, that fraction
    of the evaluated users loses the rest of its history too: they are what a newcomer looks like.
    """
    require_seed(seed=seed)
    require_count(test_items=test_items)
    require_share(cold=cold)
    counts = row_counts(ratings.matrix)
    fewest = test_items + FEWEST - 1
    evaluated = np.flatnonzero(counts >= fewest)
    if not len(evaluated):
        raise InputError(f"no user has {fewest} ratings or more: nothing can be held out")
    simulation = Simulation(seed)
    tests = items_to_test(counts[evaluated], test_items, ratio)
    choose = choose_at_random if times is None else partial(choose_latest, require_times(ratings, times))
    to_test, to_validate = choose(ratings.matrix, evaluated, tests, simulation)
    hidden = choose_newcomers(len(ratings.users), evaluated, cold, simulation)
    keep = ~(np.repeat(hidden, counts) | to_test | to_validate)
    validation, test = with_negatives(ratings, to_validate, to_test, simulation)
    not_evaluated = int((counts < fewest).sum())
    protocol = described(test_items, ratio, by_time=times is not None)
    return Split(_part_of(ratings, keep), validation, test, hidden, seed, not_evaluated, protocol)


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
    counts = row_counts(ratings.matrix)
    chosen = np.flatnonzero(counts > 1)
    if not len(chosen):
        raise InputError("no user has two ratings or more: nothing can be set aside")
    require_seed(seed=seed)
    simulation = Simulation(seed)
    require_negatives(ratings, int(counts[chosen].max()), NEGATIVES)
    at = np.flatnonzero(choose_one_of_each(ratings, np.ones(len(ratings), dtype=bool), simulation))
    candidates = chosen if among is None else chosen[among[chosen]]
    keep = ~np.repeat(choose_newcomers(len(ratings.users), candidates, cold, simulation), counts)
    keep[at] = False
    unrated = pair_codes(ratings), len(ratings.items)
    negatives = draw_negatives(*unrated, chosen, NEGATIVES, simulation.generator("negatives"))
    return ratings.only(keep), HeldOut(chosen, ratings.matrix.indices[at].astype(np.int64), negatives)


def official(ratings: Ratings, validation: HeldOut, test: HeldOut) -> Split:
    """Make a split of given held-out pairs: they leave the training ratings, and everything else stays."""
    codes = pair_codes(ratings)
    out = np.concatenate([part.users * len(ratings.items) + part.items for part in (validation, test)])
    missing = ~np.isin(out, codes)
    if missing.any():
        user, item = divmod(int(out[missing][0]), len(ratings.items))
        raise InputError(f"the split holds out {ratings.items[item]!r} of {ratings.users[user]!r}, who never rated it")
    train = _part_of(ratings, ~np.isin(codes, out))
    not_evaluated = len(ratings.users) - len(test.starts)
    return Split(train, validation, test, cold_users(train, test), None, not_evaluated, OFFICIAL)


def cold_users(train: Ratings, test: HeldOut) -> BoolArray:
    """Mark the users who are tested without any rating to train on."""
    cold = np.zeros(len(train.users), dtype=bool)
    cold[test.evaluated] = row_counts(train.matrix)[test.evaluated] == 0
    return cold


def _part_of(ratings: Ratings, keep: BoolArray) -> Ratings:
    """Return the ratings to train on, marked as the part of a split.

    One rating more can deal the held-out items of others anew. So a release of the training part, a guide say, keeps
    its promise for that part as it was split, and its certificate says so.
    """
    rule = "the training part of a split"
    before = ratings.filtered_by
    return ratings.only(keep).disclosing(rule if before is None else f"{before}, {rule}")


def with_negatives(
    ratings: Ratings, to_validate: BoolArray, to_test: BoolArray, simulation: Simulation
) -> tuple[HeldOut, HeldOut]:
    """Return what is held out, masks over the stored ratings, with items that no user rated to rank it among.

    Those for validation and those for testing share no item of a user. Every test item has a draw of its own; the
    validation items of a user share one.
    """
    rows = rows_of(ratings)
    items = ratings.matrix.indices.astype(np.int64)
    users = np.unique(rows[to_validate | to_test])
    require_negatives(ratings, int(row_counts(ratings.matrix)[users].max()), 2 * NEGATIVES)
    codes, n_items = pair_codes(ratings), len(ratings.items)
    drawn = draw_negatives(codes, n_items, users, 2 * NEGATIVES, simulation.generator("negatives"))
    to_validation, to_first_test = drawn[:, :NEGATIVES], drawn[:, NEGATIVES:]
    tested = np.searchsorted(users, rows[to_test])
    negatives = to_first_test[tested]
    further = np.flatnonzero(np.diff(tested, prepend=-1) == 0)
    if len(further):
        taken = np.union1d(codes, (users[:, None] * n_items + to_validation).ravel())
        generator = simulation.generator("further negatives")
        negatives[further] = draw_negatives(taken, n_items, users[tested[further]], NEGATIVES, generator)
    validation = HeldOut(
        rows[to_validate], items[to_validate], to_validation[np.searchsorted(users, rows[to_validate])]
    )
    return validation, HeldOut(rows[to_test], items[to_test], negatives)
