"""The integer code of the learnt strategies without its noise, on a calibrated grid: how far neighbours really are.

What :mod:`tests.attacks.sensitivity` searches in the formula is looked for here in what ``publish`` computes: whole
units, guides in whole steps, products and sums rounded down, and scaled users.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from pricdr.arrays import Float64Array, IntegerArray
from pricdr.data.csr import CSR
from pricdr.data.ratings import Ratings
from pricdr.privacy.accounting import Guarantee, Unit
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.steps import Bounds, CalibratedStep, Declared, calibrate, total_mu
from pricdr.privacy.strategies import rounds
from pricdr.privacy.strategies.rounds import LearntInRounds
from pricdr.privacy.sums import noisy_sums, whole_guide
from pricdr.randomness import Randomness, Simulation
from tests.attacks.sensitivity import Neighbours

Transcript: TypeAlias = dict[str, Float64Array]
"""What every step gave, by its name."""

_CENTRING: Final = 0.2
"""Share of a round's centring step: larger than the strategies', so that it counts for something here."""


@contextmanager
def trace_steps(seen: Mapping[str, Float64Array] | None = None) -> Iterator[Transcript]:
    """Run a learnt strategy as it is, and yield what each of its steps adds up, which it keeps to itself.

    The function that adds noise is replaced for the time being by one that takes notes, and that can put in what an
    adversary has ``seen`` for what would have come out: the next step then goes on from there.
    """
    transcript = Transcript()
    shown = {} if seen is None else seen

    def noting(matrix: Any, vectors: Float64Array, run: Run, name: str, **rest: Any) -> Float64Array:
        transcript[name] = noisy_sums(matrix, vectors, run, name, **rest)
        return shown.get(name, transcript[name]).copy()

    with patch.object(rounds, "noisy_sums", noting):
        yield transcript


class Form(Enum):
    ROWS = "rows of users along a guide"
    CENTRE = "the mean of the guide over all ratings"
    ROUND = "both, one after the other"


@dataclass(frozen=True, kw_only=True)
class WholeSums:
    """One way of using the integer code; the priors are those of the pair that is measured."""

    form: Form = Form.ROWS
    bounds: Bounds = field(default_factory=Bounds)
    unit: Unit = Unit.RATING
    epsilon: float = 4.0

    def calibrated(self, pair: Neighbours) -> tuple[CalibratedStep, ...]:
        """Return the steps as ``publish`` would settle them for inputs of this size, with the whole budget."""
        declared = Declared(bounds=self.bounds, unit=self.unit, users=len(pair.before))
        guarantee = Guarantee(epsilon=self.epsilon, delta=1e-6, unit=self.unit)
        return calibrate(self._round(pair).steps(declared), guarantee, self.bounds)

    def sums(
        self,
        pair: Neighbours,
        ratings: Float64Array | CSR,
        calibrated: tuple[CalibratedStep, ...],
        *,
        randomness: Randomness | None = None,
        seen: Mapping[str, Float64Array] | None = None,
    ) -> Transcript:
        """Return what each step gives for one input, in whole grid steps; with noise where there is ``randomness``."""
        entries = self.entries(ratings)
        run = Run(calibrated, randomness or Simulation(0), noisy=randomness is not None)
        with trace_steps(seen) as transcript:
            self._round(pair).publish(entries, run)
        return {one.step.name: np.rint(transcript[one.step.name] / one.grid.step) for one in calibrated}

    def ratio(self, pair: Neighbours) -> float:
        """Return how far apart neighbours are in standard deviations, over the claimed μ: at most 1 where it holds.

        Where a second step follows, both inputs go on from the first step's output on ``before``.
        """
        calibrated = self.calibrated(pair)
        one = self.sums(pair, pair.before, calibrated)
        seen = {step.step.name: one[step.step.name] * step.grid.step for step in calibrated}
        two = self.sums(pair, pair.after, calibrated, seen=seen)
        shown = calibrated[:1] if self.form is Form.CENTRE else calibrated
        apart = [
            float(np.linalg.norm(two[step.step.name] - one[step.step.name])) * step.grid.step / step.grid.sigma
            for step in shown
        ]
        return math.hypot(*apart) / total_mu(shown)

    def entries(self, ratings: Float64Array | CSR) -> Entries:
        cells = sp.coo_array(ratings)
        cells.eliminate_zeros()
        users, items = (tuple(f"{at}" for at in range(size)) for size in cells.shape)
        given = Ratings.from_codes(cells.row, cells.col, cells.data.astype(np.float64), users, items)
        return Entries.of(given, self.bounds, summed=True)

    def _round(self, pair: Neighbours) -> "OneRound":
        return OneRound(
            dim=pair.guide.shape[1],
            first=pair.guide,
            centring=0.0 if self.form is Form.ROWS else _CENTRING,
            item_prior=pair.prior / self.bounds.largest**2,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OneRound(LearntInRounds):
    name: ClassVar[str] = "one-round"

    first: Float64Array

    @property
    def rounds(self) -> tuple[tuple[float, int], ...]:
        return ((1.0, self.columns),)

    def start(self, entries: Entries, run: Run) -> IntegerArray:
        return whole_guide(self.first)


def rounding_growth(way: WholeSums, pair: Neighbours, exact: Callable[[Float64Array], Float64Array]) -> float:
    """Return the most grid steps that rounding adds to a number's change, over what :meth:`Step.rounding` allows.

    ``exact`` computes the rows of one input without any rounding, in the ratings' own scale.
    """
    (calibrated,) = way.calibrated(pair)
    whole, smooth = (
        np.abs(after - before)
        for before, after in (
            [way.sums(pair, ratings, (calibrated,))["rows"] for ratings in (pair.before, pair.after)],
            [exact(ratings) / calibrated.grid.step for ratings in (pair.before, pair.after)],
        )
    )
    spread = calibrated.step.spread
    assert spread is not None
    allowed = 1 + spread * 2.0 ** -calibrated.step.fine_bits(calibrated.grid)
    return float((whole - smooth).max()) / allowed
