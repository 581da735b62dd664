"""``guided``: directions learnt along a release of the other party, so that what crosses is what the other can use."""

from dataclasses import dataclass
from typing import ClassVar, Final, Self

import numpy as np

from pricdr.arrays import IntegerArray
from pricdr.data.ratings import Ids
from pricdr.errors import InputError, ParameterError
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.strategies.base import GuideRows
from pricdr.privacy.strategies.rounds import LearntInRounds, guide, matched

SHARES: Final = (0.15, 0.25, 0.6)  # of μ², by round: the last round's rows are what is published, so it gets most
WIDE: Final = 8  # columns of all rounds but the last, at least: a round chooses among the directions of the one before


@dataclass(frozen=True, kw_only=True, eq=False)
class Guided(LearntInRounds):
    """Rounds that start from the other party's release instead of at random.

    The promise to the users of these ratings holds for any guide, hostile ones included: its rows are clipped to norm 1
    and never depend on these ratings.
    """

    name: ClassVar[str] = "guided"
    summary: ClassVar[str] = "directions learnt along a release of the other party"
    needs: ClassVar[tuple[str, ...]] = ("guide",)
    takes_guide: ClassVar[bool] = True
    constants: ClassVar[tuple[str, ...]] = ("refine", "centring", "item_prior", "percentile")

    guide: GuideRows | None = None
    """None describes a strategy without the means to run it, as a certificate does."""
    refine: bool = True
    """Go on for two more rounds, each guided by the rows of the one before; otherwise there is one round."""
    allow_missing: bool = False
    """Whether listed users without a row in the guide get a row of zeros; otherwise they are an error."""

    @property
    def rounds(self) -> tuple[tuple[float, int], ...]:
        """Three rounds, or one."""
        dim = self.dim or 1
        wide = max(WIDE, dim)
        return tuple(zip(SHARES, (wide, wide, dim), strict=True)) if self.refine else ((1.0, dim),)

    def resolved(self, guarantee: Guarantee, users: Ids) -> Self:
        """Return it with the dimension that suits ε; a guide that cannot be used is refused."""
        strategy = super().resolved(guarantee, users)
        strategy.guide_for(users)  # refuses a guide that cannot serve them, before anything is paid
        return strategy

    def start(self, entries: Entries, run: Run) -> IntegerArray:
        """Return the guide's rows for the listed users."""
        return self.guide_for(entries.users)

    def guide_for(self, users: Ids) -> IntegerArray:
        """Return the guide's rows for these users; :class:`InputError` where it cannot serve them."""
        if self.guide is None:
            raise ParameterError("strategy guided needs a guide: a release of the other party")
        rows, present = matched(np.asarray(self.guide.matrix), self.guide.users, users)
        if not present.all() and not self.allow_missing:
            absent = next(user for user, there in zip(users, present, strict=True) if not there)
            raise InputError(
                f"the guide lacks {int((~present).sum()):,} of {len(users):,} listed users, {absent!r} for one: "
                "was it made for another list? (allow_missing, or fill-guide in --config, gives them a row of zeros)"
            )
        _, width = self.rounds[0]
        usable = guide(rows, width, sigma=self.guide.sigma, percentile=self.percentile, present=present)
        if not usable.any():
            raise InputError("the guide's rows are the same for all users, or for most: it cannot tell anybody apart")
        return usable
