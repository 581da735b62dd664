"""Ratings that somebody divided already, to train on, to test and to validate by, as one set of ratings."""

import numpy as np

from pricdr.data.hold_out_rules import BoolArray
from pricdr.data.negatives import pair_codes
from pricdr.data.ratings import Ratings, RatingsLike


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
