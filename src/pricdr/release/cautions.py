"""What whoever publishes is warned of before anything is spent: on the command line, and as warnings in Python."""

import warnings

import numpy as np

from pricdr.data.blocks import RatingsSource
from pricdr.data.ratings import Ratings
from pricdr.data.reading.report import stars_of
from pricdr.errors import PublishWarning
from pricdr.privacy.bounds import Bounds
from pricdr.release.certificate import Certificate
from pricdr.release.readme import weakness


def cautions(certificate: Certificate, *, counted: bool) -> list[str]:
    """Return everything that makes a promise weaker than it could be; ``counted``: a ledger counts the release."""
    given, texts = certificate.input, []
    if given.user_list != "declared":
        texts.append("no user list: the users are read off the ratings, so who has ratings at all is not protected")
    if given.item_universe == "read off the ratings":
        strategy = certificate.strategy.name
        texts.append(f"{strategy} without an item list: the item universe is read off the ratings; it is disclosed")
    if given.filtered_by is not None:
        texts.append(f"these ratings were filtered before ({given.filtered_by}); it is disclosed")
    if certificate.promises and not counted:
        texts.append(
            "no ledger: this release is not counted against a budget; others of the same ratings add to its cost"
        )
    texts += [*certificate.warnings, *weakness(certificate)]
    if not certificate.private:
        texts.append("this release is NOT PRIVATE and must not leave the source")
    return list(dict.fromkeys(texts))


def stars_caution(ratings: RatingsSource, stars: tuple[float, float] | None) -> str | None:
    """Return a warning where ratings look like stars and, without a threshold, all of them count as likes.

    Not where ``prepare`` filtered them: the threshold was chosen there.
    """
    if stars is None or ratings.threshold is not None or ratings.filtered_by is not None:
        return None
    fewest, most = stars
    rule = "without a threshold each row counts as a like"
    return f"ratings from {fewest:g} to {most:g} look like stars: {rule}, even one of {fewest:g}"


def warn_before_spending(foreseen: Certificate, ratings: RatingsSource, bounds: Bounds, *, counted: bool) -> None:
    """Warn the caller of the caller. Who asks for a test release has been told by the name of the argument."""
    if not foreseen.promises:
        return
    stars = stars_caution(ratings, _stars(ratings)) if bounds.rating_bound is None else None
    for text in [*([] if stars is None else [stars]), *cautions(foreseen, counted=counted)]:
        warnings.warn(text, PublishWarning, stacklevel=3)


def _stars(ratings: RatingsSource) -> tuple[float, float] | None:
    """Return the fewest and the most stars; None where ratings do not look like stars, or are not in memory."""
    if not isinstance(ratings, Ratings) or not ratings.has_values or not len(ratings):
        return None
    values = ratings.matrix.data
    return stars_of((float(values.min()), float(values.max())), bool((np.rint(2 * values) == 2 * values).all()))
