"""``Bounds``: what the source declares about its data, so that nothing about values is read off the ratings."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.data.csr import CSR, exact_row_sums, row_counts, with_values
from pricdr.errors import ParameterError, require_scale
from pricdr.privacy.accounting import Unit

UNITS_PER_STEP: Final = 256
"""Units in a rating step where a user's ratings are scaled to a sum: scaled ratings are rounded down to one unit."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Declared limits; ratings are forced into them, so the sensitivity is enforced, not assumed.

    Without ``rating_bound`` every rated pair counts as 1. With it a rating counts as its value, rounded to a
    multiple of ``rating_step`` and clamped into [0, ``rating_bound``]; "not rated" is 0.
    """

    rating_bound: float | None = None
    rating_step: float = 1.0
    clip: float | None = None
    """Required for the user unit, refused for the rating unit: the largest norm of a user's projected profile, or, for
    a strategy that learns from the ratings, the largest sum of a user's ratings."""

    def __post_init__(self) -> None:
        for name in ("rating_bound", "rating_step", "clip"):  # a numpy scalar could wrap round in later arithmetic
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        require_scale(rating_step=self.rating_step)
        if self.rating_bound is not None:
            require_scale(rating_bound=self.rating_bound)
            levels = self.rating_bound / self.rating_step
            if round(levels) < 1 or abs(levels - round(levels)) > 1e-9 * levels:
                raise ParameterError(
                    f"rating_bound must be a multiple of rating_step, got {self.rating_bound!r} {self.rating_step!r}"
                )
            if levels > 10_000:
                raise ParameterError(f"rating_bound must be at most 10,000 steps, got {round(levels):,}")
        elif self.rating_step != 1.0:
            raise ParameterError(f"rating_step needs a rating_bound, got {self.rating_step!r} alone")
        if self.clip is not None:
            require_scale(clip=self.clip)

    @property
    def levels(self) -> int:
        """The bound in steps."""
        return 1 if self.rating_bound is None else round(self.rating_bound / self.rating_step)

    @property
    def largest(self) -> float:
        """The most one rating can count: b."""
        return 1.0 if self.rating_bound is None else self.rating_bound

    def sensitivity(self, unit: Unit) -> float:
        """Return how far one neighbouring change can move a row of A E: b for a rating, 2c for a user.

        >>> Bounds(rating_bound=5).sensitivity(Unit.RATING), Bounds(clip=3).sensitivity(Unit.USER)
        (5.0, 6.0)
        """
        if unit is Unit.RATING:
            if self.clip is not None:
                raise ParameterError(f"clip belongs to the user unit, got clip = {self.clip!r} with unit rating")
            return self.largest
        if self.clip is None:
            raise ParameterError(
                "unit user needs a clip: the largest norm of a user's projected profile (jlt, sjlt, features), or the "
                "largest sum of a user's ratings (spectral, guided)"
            )
        return 2 * self.clip

    def steps(self, matrix: CSR) -> CSR:
        """Return the ratings as whole steps in [0, levels], int32; each depends on its own rating alone."""
        if self.rating_bound is None:
            steps = np.ones(matrix.nnz, dtype=np.int32)
        else:
            # fmin and fmax, unlike clip, let no NaN through: the bound holds whatever the values are
            rounded = np.rint(matrix.data / self.rating_step)
            steps = np.fmax(np.fmin(rounded, self.levels), 0).astype(np.int32)
        return with_values(matrix, steps)

    def forced(self, matrix: CSR) -> tuple[int, int]:
        """Return how many ratings :meth:`steps` clamps, and how many others it rounds.

        Read off the ratings: for the screen of their owner, never for a release.

        >>> from scipy.sparse import csr_array
        >>> Bounds(rating_bound=5).forced(csr_array(np.array([[5, 7, -1, 2.4]])))
        (2, 1)
        """
        if self.rating_bound is None:
            return 0, 0
        values = matrix.data
        outside = (values < 0) | (values > self.rating_bound)
        steps = values / self.rating_step
        between = ~outside & (np.abs(steps - np.rint(steps)) > 1e-9 * np.maximum(1.0, np.abs(steps)))
        return int(outside.sum()), int(between.sum())

    def units(self, matrix: CSR) -> CSR:
        """Return the ratings in whole units, for a strategy that learns from them; scaled where there is a clip.

        A user's units depend on that user's ratings alone.
        """
        steps = self.steps(matrix)
        steps = with_values(steps, steps.data.astype(np.int64))
        return steps if self.clip is None else self.limited(steps)

    @property
    def most_units(self) -> int:
        """The clip in units: the largest sum of a user's ratings that :meth:`limited` leaves."""
        assert self.clip is not None, "the user unit has a clip"
        most = math.floor(self.clip / self.rating_step * UNITS_PER_STEP * (1 - 1e-12))
        if most < 1:
            raise ParameterError(f"clip {self.clip:g} is too small: less than 1/{UNITS_PER_STEP} of a rating step")
        return most

    def limited(self, entries: CSR) -> CSR:
        """Return the entries in units of 1/256 rating step, each user's scaled so that they add up to at most the clip.

        Rounded down, in whole numbers: the sum never exceeds it. How a user is scaled depends on its own ratings alone.

        >>> from scipy.sparse import csr_array
        >>> row = csr_array(np.array([[1, 1, 1, 1], [1, 0, 0, 0]]))
        >>> Bounds(clip=2.0).limited(row).toarray().tolist()
        [[127, 127, 127, 127], [256, 0, 0, 0]]
        """
        units = with_values(entries, entries.data.astype(np.int64) * UNITS_PER_STEP)
        over = np.repeat(np.maximum(exact_row_sums(units), self.most_units), row_counts(units))
        return with_values(units, units.data * self.most_units // over)
