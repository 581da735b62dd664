"""Which ratings to hold out (at random, the latest, as given), whose history to hide, and which negatives to draw."""

import math
import re
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import CSR, entry_rows, row_counts
from pricdr.data.ratings import IntArray, Ratings, RatingsLike
from pricdr.errors import InputError, ParameterError, require_probability
from pricdr.memory import require_memory
from pricdr.randomness import Simulation

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Float64Array: TypeAlias = npt.NDArray[np.float64]

NEGATIVES: Final = 99
_COPIES: Final = 6
"""Arrays of the drawn items' size in memory while they are drawn."""
FEWEST: Final = 3
"""Ratings a user needs to be evaluated: one to test, one to validate, one to train on."""

ONE_AT_RANDOM: Final = "one rating of each user, at random"
"""The protocol of a split that does not say otherwise."""
OFFICIAL: Final = "an official split"


def described(test_items: int, ratio: float | None, *, by_time: bool) -> str:
    """Return what is tested by, in words.

    >>> described(1, None, by_time=True), described(3, None, by_time=False)
    ('the latest rating of each user', '3 ratings of each user, at random')
    >>> described(1, 0.2, by_time=True)
    "the latest 20 % of each user's ratings"
    """
    amount = "one rating" if test_items == 1 else f"{test_items} ratings"
    tested = f"{amount} of each user" if ratio is None else f"{100 * ratio:g} % of each user's ratings"
    return f"the latest {tested}".replace("latest one rating", "latest rating") if by_time else f"{tested}, at random"


def drawn_at_random(protocol: str) -> tuple[int, float | None] | None:
    """Return how many test items, or which ratio, the words of :func:`described` stand for; None if drawn otherwise.

    >>> drawn_at_random("3 ratings of each user, at random"), drawn_at_random("20 % of each user's ratings, at random")
    ((3, None), (1, 0.2))
    >>> drawn_at_random("the latest rating of each user")
    """
    if protocol in (ONE_AT_RANDOM, OFFICIAL):
        return 1, None
    if several := re.fullmatch(r"([0-9]{1,6}) ratings of each user, at random", protocol):
        return int(several[1]), None
    share = re.fullmatch(r"([0-9.]{1,12}(?:e-[0-9]{1,3})?) % of each user's ratings, at random", protocol)
    return None if share is None else (1, float(share[1]) / 100)


def items_to_test(counts: IntArray, test_items: int, ratio: float | None) -> IntArray:
    """Return how many items of each evaluated user are tested by."""
    if ratio is None:
        return np.full(len(counts), test_items)
    require_probability(ratio=ratio)
    if test_items != 1:
        raise ParameterError("test_items and ratio exclude each other: both say how much is held out")
    rounded = np.floor(ratio * counts + 0.5).astype(np.int64)
    return np.asarray(np.clip(rounded, 1, counts - FEWEST + 1))


def choose_at_random(
    matrix: CSR, evaluated: IntArray, tests: IntArray, simulation: Simulation
) -> tuple[BoolArray, BoolArray]:
    """Choose what to test and what to validate by, uniformly, as masks over the stored ratings."""
    to_test, to_validate = np.zeros((2, matrix.nnz), dtype=bool)
    counts, starts = row_counts(matrix)[evaluated], matrix.indptr[evaluated]
    picks = simulation.generator("held-out items")
    first = picks.integers(0, counts)
    # Another position, uniformly among the others.
    second = (first + picks.integers(1, counts)) % counts
    to_test[starts + first] = to_validate[starts + second] = True
    if tests.max() > 1:
        key = simulation.generator("further held-out items").random(matrix.nnz)
        key[to_test | to_validate] = np.inf
        to_test |= _smallest(matrix, key, evaluated, np.zeros_like(tests), tests - 1)
    return to_test, to_validate


def choose_latest(
    times: Float64Array, matrix: CSR, evaluated: IntArray, tests: IntArray, simulation: Simulation
) -> tuple[BoolArray, BoolArray]:
    """Choose the latest ratings of each user to test by and the one before them to validate by."""
    # Ratings of the same time, a day say, come in random order: in the file's they would follow the items' names.
    rank = np.empty(matrix.nnz)
    rank[np.lexsort((simulation.generator("order of ties").random(matrix.nnz), -times))] = np.arange(matrix.nnz)
    none = np.zeros_like(tests)
    return _smallest(matrix, rank, evaluated, none, tests), _smallest(matrix, rank, evaluated, tests, tests + 1)


def require_times(ratings: Ratings, times: Float64Array) -> Float64Array:
    """Return the times as numbers; refuse them where they are not one finite number per rating."""
    values = np.asarray(times, dtype=np.float64)
    if values.shape != (len(ratings),):
        raise InputError(f"there are {len(ratings):,} ratings and {values.size:,} times: give one of each")
    if not np.isfinite(values).all():
        raise InputError("times must be finite numbers")
    return values


def choose_one_of_each(ratings: Ratings, among: BoolArray, simulation: Simulation) -> BoolArray:
    """Choose one rating of every user with two or more ``among`` the stored ones."""
    of_users = np.bincount(rows_of(ratings)[among], minlength=len(ratings.users))
    several = np.flatnonzero(of_users > 1)
    starts = np.cumsum(of_users) - of_users
    picked = starts[several] + simulation.generator("items set aside").integers(0, of_users[several])
    chosen = np.zeros(len(ratings), dtype=bool)
    chosen[np.flatnonzero(among)[picked]] = True
    return chosen


def choose_newcomers(users: int, candidates: IntArray, cold: float, simulation: Simulation) -> BoolArray:
    """Choose a fraction of the candidates, who are to look like newcomers."""
    hidden = np.zeros(users, dtype=bool)
    count = math.floor(cold * len(candidates) + 0.5)
    hidden[simulation.generator("cold users").permutation(candidates)[:count]] = True
    return hidden


def _smallest(matrix: CSR, key: Float64Array, users: IntArray, begin: IntArray, end: IntArray) -> BoolArray:
    """Mark, among each of these users' ratings sorted by ``key``, those from ``begin`` up to ``end``."""
    counts = row_counts(matrix)
    rows = entry_rows(matrix)
    order = np.lexsort((key, rows))
    place = np.empty(matrix.nnz, dtype=np.int64)
    place[order] = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    low, high = np.zeros((2, matrix.shape[0]), dtype=np.int64)
    low[users], high[users] = begin, end
    return np.asarray((place >= low[rows]) & (place < high[rows]))


def rows_of(ratings: Ratings) -> IntArray:
    """Return the user's position of each stored rating."""
    return entry_rows(ratings.matrix)


def pair_codes(ratings: Ratings) -> IntArray:
    """Return each rated pair as one number, ascending: user x items + item."""
    return rows_of(ratings) * len(ratings.items) + ratings.matrix.indices


def require_negatives(ratings: Ratings, most: int, count: int) -> None:
    """Refuse ratings that leave some user, who rated so many items, fewer than ``count`` others."""
    if len(ratings.items) - most < count:
        raise InputError(
            f"{len(ratings.items):,} items are too few: a user who rated {most:,} of them leaves fewer than "
            f"{count} to be ranked among"
        )


def draw_negatives(codes: IntArray, n_items: int, users: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw ``count`` distinct items for each user, uniformly; those that collide are drawn again.

    ``codes`` are the pairs that must not be drawn, each as one number and sorted: one search finds them.
    """
    require_memory(_COPIES * 8 * count * len(users), f"{count} negatives for each of {len(users):,} held-out items")
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


def united(
    train: RatingsLike, test: RatingsLike, validation: RatingsLike | None
) -> tuple[Ratings, tuple[BoolArray, BoolArray, BoolArray]]:
    """Return all ratings as one, and masks over them: trained on, tested by, validated by, and nothing twice."""
    given = [Ratings.of(part).positives() for part in (train, test, validation) if part is not None]
    users = tuple(sorted({user for part in given for user in part.rated().users}))
    items = tuple(sorted({item for part in given for item in part.rated().items}))
    codes = [pair_codes(part.select(users, items)) for part in given]
    whole = np.unique(np.concatenate(codes))
    trained, tested, *rest = (np.isin(whole, part) for part in codes)
    validated = rest[0] if rest else np.zeros(len(whole), dtype=bool)
    rows, columns = np.divmod(whole, max(len(items), 1))
    filtered_by = next((part.filtered_by for part in given if part.filtered_by is not None), None)
    ratings = Ratings.from_codes(
        rows, columns, np.ones(len(whole)), users, items, filtered_by=filtered_by, has_values=False
    )
    return ratings, (trained, tested & ~trained, validated & ~trained & ~tested)
