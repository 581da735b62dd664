"""Drawing negatives: items that a user never rated, to rank a held-out item among."""

from typing import Final

import numpy as np

from pricdr.data.csr import entry_rows
from pricdr.data.ratings import IntArray, Ratings
from pricdr.errors import InputError
from pricdr.memory import require_memory

NEGATIVES: Final = 99
_COPIES: Final = 6
"""Arrays of the drawn items' size in memory while they are drawn."""


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
