"""``Bounds``: what the source declares about its data, so that nothing about values is read off the ratings."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from pricdr.data.ratings import CSR, Ratings
from pricdr.errors import ParameterError, require_positive
from pricdr.privacy.guarantee import Unit


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Declared limits; ratings are forced into them, so the sensitivity is enforced, not assumed.

    Without ``rating_bound`` every rated pair counts as 1. With it a rating counts as its value, rounded to a
    multiple of ``rating_step`` and clamped into [0, ``rating_bound``]; "not rated" is 0.
    """

    rating_bound: float | None = None
    rating_step: float = 1.0
    clip: float | None = None
    """Largest norm of a user's projected profile; required for the user unit, refused for the rating unit."""

    def __post_init__(self) -> None:
        for name in ("rating_bound", "rating_step", "clip"):  # a numpy scalar could wrap round in later arithmetic
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        require_positive(rating_step=self.rating_step)
        if self.rating_bound is not None:
            require_positive(rating_bound=self.rating_bound)
            levels = self.rating_bound / self.rating_step
            if round(levels) < 1 or abs(levels - round(levels)) > 1e-9 * levels:
                raise ParameterError(
                    f"rating_bound must be a multiple of rating_step, got {self.rating_bound!r} {self.rating_step!r}"
                )
            if levels > 10_000:
                raise ParameterError(f"rating_bound may be at most 10,000 steps, got {round(levels):,}")
        elif self.rating_step != 1.0:
            raise ParameterError(f"rating_step needs a rating_bound, got {self.rating_step!r} alone")
        if self.clip is not None:
            require_positive(clip=self.clip)

    @property
    def levels(self) -> int:
        """The bound in steps."""
        return 1 if self.rating_bound is None else round(self.rating_bound / self.rating_step)

    @property
    def largest(self) -> float:
        """The most one rating can count: b."""
        return 1.0 if self.rating_bound is None else self.rating_bound

    def sensitivity(self, unit: Unit) -> float:
        """How far one neighbouring change can move a row of A E: b for a rating, 2c for a user.

        >>> Bounds(rating_bound=5).sensitivity(Unit.RATING), Bounds(clip=3).sensitivity(Unit.USER)
        (5.0, 6.0)
        """
        if unit is Unit.RATING:
            if self.clip is not None:
                raise ParameterError(f"clip belongs to the user unit, got clip = {self.clip!r} with unit rating")
            return self.largest
        if self.clip is None:
            raise ParameterError("unit user needs a clip: the largest norm of a user's projected profile")
        return 2 * self.clip

    def entries(self, ratings: Ratings) -> CSR:
        """The ratings as whole steps in [0, levels], int32 CSR."""
        matrix = ratings.matrix
        if self.rating_bound is None:
            steps = np.ones(len(ratings), dtype=np.int32)
        else:
            # fmin and fmax, unlike clip, let no NaN through: the bound holds whatever the values are
            rounded = np.rint(matrix.data / self.rating_step)
            steps = np.fmax(np.fmin(rounded, self.levels), 0).astype(np.int32)
        return sp.csr_array((steps, matrix.indices, matrix.indptr), shape=matrix.shape)
