"""``spectral``: taste directions learnt from the source's own ratings, inside the mechanism."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from pricdr.arrays import IntegerArray
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.strategies.random_projections import unit_gaussian_rows
from pricdr.privacy.strategies.rounds import LearntInRounds
from pricdr.privacy.sums import whole_guide

SHARES: Final = (0.1, 0.1, 0.2, 0.6)  # of μ², by round: the last round's rows are what is published, so it gets most
WIDE: Final = 16  # columns of the first rounds: a random start needs some room to find what matters
MEDIUM: Final = 8


@dataclass(frozen=True, kw_only=True)
class Spectral(LearntInRounds):
    """Rounds from a random start: users' noisy rows guide the next round, and the last round's are published."""

    name: ClassVar[str] = "spectral"
    summary: ClassVar[str] = "taste directions learnt from the ratings, inside the promise"
    constants: ClassVar[tuple[str, ...]] = ("centring", "item_prior", "percentile")

    @property
    def rounds(self) -> tuple[tuple[float, int], ...]:
        """Four rounds."""
        dim = self.dim or 1
        return tuple(zip(SHARES, (max(WIDE, dim), max(WIDE, dim), max(MEDIUM, dim), dim), strict=True))

    def start(self, entries: Entries, run: Run) -> IntegerArray:
        """Return random rows."""
        _, width = self.rounds[0]
        # A random start costs nothing, and must not depend on the ratings: the theorem asks for that.
        rows = unit_gaussian_rows(run.randomness.stream("start"), len(entries.users), width)
        return whole_guide(rows.astype(np.float64))
