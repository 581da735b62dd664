"""The integer code of the learnt strategies without its noise, on a settled grid: how far neighbours really are.

What :mod:`pricdr.testing.sensitivity` searches in the formula is looked for here in what ``publish`` computes: whole
units, guides in whole steps, truncated products, sums rounded down, buckets and scaled users.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

import pricdr.privacy.strategies as strategies  # first: item_model and it import each other
from pricdr.data.ratings import CSR, Ratings
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.guarantee import Guarantee, Unit
from pricdr.privacy.item_model import BUCKET_CAP, Group, ItemModel, into_buckets
from pricdr.privacy.run import Entries, Run, erasing
from pricdr.privacy.steps import Declared, Settled, settle
from pricdr.privacy.strategies.learnt import InnerRows
from pricdr.privacy.sums import whole_guide
from pricdr.randomness import Randomness, Simulation
from pricdr.testing.sensitivity import FloatArray, Neighbours

Distance: TypeAlias = Callable[[Neighbours], float]


@dataclass(frozen=True, kw_only=True)
class WholeSums:
    """One way of using the integer code; the priors are those of the pair that is measured."""

    bounds: Bounds = field(default_factory=Bounds)
    unit: Unit = Unit.RATING
    epsilon: float = 4.0
    exchanged: bool = False
    """Sums over the raters of each item, with a column that counts them, instead of rows of users."""
    buckets: int | None = None
    """Hash items into so many buckets (exchanged sums only)."""
    count_weight: float = 0.3

    def settled(self, pair: Neighbours) -> Settled:
        """The step as ``publish`` would settle it for inputs of this size: its whole budget to this one step."""
        users, items = pair.before.shape
        dim = pair.guide.shape[1]
        declared = Declared(
            bounds=self.bounds, unit=self.unit, users=users, items=None if self.buckets is not None else items
        )
        guarantee = Guarantee(epsilon=self.epsilon, delta=1e-6, unit=self.unit)
        if not self.exchanged:
            return settle(strategies.Guided(dim=dim).steps(declared), guarantee, self.bounds)[0]
        strategy = strategies.Spectral(dim=dim, buckets=self.buckets or 1, count_weight=self.count_weight)
        return settle(strategy.steps(declared), guarantee, self.bounds)[0]

    def sums(
        self, pair: Neighbours, ratings: FloatArray | CSR, settled: Settled, randomness: Randomness | None = None
    ) -> FloatArray:
        """What the code gives for one input, in whole grid steps; with noise where there is ``randomness``."""
        entries = self.entries(ratings)
        run = Run([settled], randomness or Simulation(0), noisy=randomness is not None)
        guide = whole_guide(pair.guide)
        name = settled.step.name
        with erasing() as secrets:
            if not self.exchanged:
                prior = pair.prior / self.bounds.largest**2
                found = InnerRows(prior).publish(name, entries, guide, run, secrets)
            else:
                listed = self._hashed(entries, run)
                model = ItemModel(
                    dim=pair.guide.shape[1],
                    rounds=1,
                    count_weight=self.count_weight,
                    user_prior=pair.prior / entries.value**2,
                    floor=0.02,
                )
                found = model._sums(Group(listed, entries.value, 1.0), guide, 1, run, secrets)[0]
        whole: FloatArray = np.rint(found / settled.grid.step)
        return whole

    def ratio(self, pair: Neighbours) -> float:
        """How far neighbours are in grid steps, over what is claimed with rounding: at most 1 where the claim holds."""
        settled = self.settled(pair)
        one, two = (self.sums(pair, ratings, settled) for ratings in (pair.before, pair.after))
        claimed = settled.step.sensitivity / settled.grid.step + settled.step.rounding(settled.grid)
        return float(np.linalg.norm(two - one)) / claimed

    def entries(self, ratings: FloatArray | CSR) -> Entries:
        """Ratings as ``publish`` forces them into what is declared."""
        cells = sp.coo_array(ratings)
        cells.eliminate_zeros()
        users, items = (tuple(f"{at}" for at in range(size)) for size in cells.shape)
        given = Ratings.from_codes(cells.row, cells.col, cells.data.astype(np.float64), users, items)
        return Entries.of(given, self.bounds, summed=True, universe_declared=self.buckets is None)

    def _hashed(self, entries: Entries, run: Run) -> CSR:
        if self.buckets is None:
            return entries.listed
        cap = BUCKET_CAP * entries.most
        stream = run.randomness.stream("buckets")
        return into_buckets(entries.listed, entries.items, self.buckets, stream, cap=cap)


def rounding_growth(way: WholeSums, pair: Neighbours, exact: Callable[[FloatArray], FloatArray]) -> float:
    """By how many grid steps rounding lengthens a number's change, at most, over what :meth:`Step.rounding` allows it.

    ``exact`` computes the sums of one input without any rounding, in the ratings' own scale. Truncation can take more
    than that off a change (where a direction changes its sign), but not add it.
    """
    settled = way.settled(pair)
    whole, smooth = (
        np.abs(after - before)
        for before, after in (
            [way.sums(pair, ratings, settled) for ratings in (pair.before, pair.after)],
            [exact(ratings) / settled.grid.step for ratings in (pair.before, pair.after)],
        )
    )
    spread = settled.step.spread
    assert spread is not None
    allowed = 1 + spread * 2.0 ** -settled.step.fine_bits(settled.grid)
    return float((whole - smooth).max()) / allowed
