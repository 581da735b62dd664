"""Whether ratings look like stars, whose lowest are no likes."""

from typing import Final

_MOST_STARS: Final = 10


def stars_of(rating_range: tuple[float, float] | None, half_steps: bool) -> tuple[float, float] | None:
    """Return the fewest and the most stars where ratings look like stars, so that the lowest are not likes.

    None where even the fewest are more than half of the most: lower ratings were then left out before.

    >>> stars_of((1.0, 5.0), True), stars_of((4.0, 5.0), True)
    ((1.0, 5.0), None)
    """
    if rating_range is None or not half_steps:
        return None
    fewest, most = rating_range
    looks_like_stars = 0 <= fewest < most <= _MOST_STARS
    return rating_range if looks_like_stars and fewest <= most / 2 else None
