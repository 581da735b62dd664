"""``Step``: one noisy computation on the ratings. A strategy lays out its steps before the first random bit is drawn.

A step is described by how far one neighbouring change moves its exact result (``sensitivity``), by the share of μ² it
is given, and by how many noisy numbers it draws. :func:`calibrate` turns shares into noise; :func:`total_mu` adds up
what noise costs. Gaussian steps compose exactly, adaptively too (``docs/mathematics.md``, section 2): the squares add.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pricdr.errors import ParameterError
from pricdr.privacy.accounting import MAX_REFINEMENT, Guarantee, Unit, composed_mu, grid_steps, sigma_for
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.mechanism import MOST_ITEMS, Grid

_FINEST_BITS: Final = 20
"""Binary places below one grid step that products carry before they are rounded to it."""
_LARGEST_SUM_BITS: Final = 62
MOST_USERS: Final = 1 << 27
"""Users that a release can have: whole numbers hold the sum of any guide over them."""
MOST_RATINGS: Final = 1 << 33
"""Ratings that a release can be made of."""
_SAFE: Final = 1 + 1e-6
"""Covers double arithmetic in a bound on rounding."""
_MOST_LOST: Final = 0.5
"""The largest part of a step's budget that rounding may take."""


class UserGroup(Enum):
    """Whose ratings a step reads. Nobody is in both groups, so a release costs the larger of the two sums."""

    LISTED = "listed users"
    UNLISTED = "users outside the list"


class Kind(Enum):
    """What a step adds up, which decides whose rows a rating moves."""

    GIVEN = "vectors that were there before"
    """One rating moves one row."""
    LEARNT = "vectors computed from the same ratings, along a guide"
    """One rating moves the rows of everybody who rated the item."""
    COUNTED = "the same, and a constant that counts ratings"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a layout of steps may depend on: nothing of it is read off the ratings."""

    bounds: Bounds
    unit: Unit
    users: int
    """Listed users."""
    items: int | None
    """Size of the declared item universe; None where there is none."""

    @property
    def change(self) -> float:
        """How far a neighbouring change moves the ratings in the sum of absolute values: b, or twice the clip."""
        return self.bounds.sensitivity(self.unit)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One noisy computation, as laid out."""

    name: str
    purpose: str
    """What it computes, for people."""
    sensitivity: float
    """How far a neighbouring change moves the exact result (Frobenius norm)."""
    share: float
    """The part of the payer's μ² that it is given."""
    rows: int
    numbers: int
    """Noisy numbers in a row."""
    moved: int
    """Noisy numbers that one neighbouring change can move."""
    most: int = MOST_ITEMS
    """Ratings, at most, that one number adds up: whole numbers must hold their sum."""
    spread: int | None = None
    """Most units of ratings behind one number; None where products are whole numbers and nothing is rounded."""
    kind: Kind = Kind.GIVEN
    published: bool = True
    """Whether its rows are part of the release; otherwise only later steps see them."""
    payer: UserGroup = UserGroup.LISTED

    def rounding(self, grid: Grid) -> float:
        """Return the grid steps that rounding adds to the sensitivity: at most one for each number that can move.

        Vectors are rounded down to 2^-bits grid steps, so that a sum is off by one of these for each unit of ratings;
        then it is rounded down itself. So a number's difference between two inputs grows by less
        than 1 + spread · 2^-bits.
        """
        if self.spread is None:
            return 0.0
        return math.sqrt(self.moved) * (1 + self.spread * 2.0 ** -self.fine_bits(grid)) * _SAFE

    def fine_bits(self, grid: Grid) -> int:
        """Return how many binary places the products carry: as many as the largest possible sum leaves room for."""
        reach = math.ceil(math.log2(max(2.0, self.sensitivity / grid.step)))
        bits = _LARGEST_SUM_BITS - reach - self.most.bit_length()
        if bits < 1:
            raise ParameterError(f"the noise of step {self.name} is too small for exact arithmetic")
        return min(_FINEST_BITS, bits)


@dataclass(frozen=True)
class CalibratedStep:
    """A step and its noise."""

    step: Step
    grid: Grid

    @property
    def mu(self) -> float:
        """What the step costs: sensitivity over σ, what rounding adds included."""
        if self.step.spread is None:
            return self.step.sensitivity / self.grid.sigma
        reach = self.step.sensitivity / self.grid.step + self.step.rounding(self.grid)
        return reach / grid_steps(self.grid.refinement)


def calibrate(steps: Sequence[Step], guarantee: Guarantee, bounds: Bounds) -> tuple[CalibratedStep, ...]:
    """Return the noise of every step, so that all of them together keep ``guarantee``.

    Shares of each payer must add up to 1.
    """
    for payer in {step.payer for step in steps}:
        total = math.fsum(step.share for step in steps if step.payer is payer)
        if abs(total - 1) > 1e-12:
            raise ParameterError(f"the shares of the {payer.value} add up to {total!r}, not to 1")
    # The noise table is off by a little in every number; the promise has to cover all numbers of all steps.
    numbers = sum(step.moved for step in steps)
    return tuple(_calibrated(step, guarantee, bounds, numbers) for step in steps)


def noiseless(steps: Sequence[Step], bounds: Bounds) -> tuple[CalibratedStep, ...]:
    """Return the same steps without noise, on a fine grid. NOT PRIVATE."""
    return tuple(CalibratedStep(step, Grid.noiseless(bounds)) for step in steps)


def total_mu(settled: Iterable[CalibratedStep]) -> float:
    """Return μ of all steps together; the payers are different people, so the group that pays more decides."""
    return max((composed_mu(one.mu for one in group) for group in _groups(settled)), default=0.0)


def total_numbers(settled: Iterable[CalibratedStep]) -> int:
    """Return how many noisy numbers one change can move, over all steps."""
    return sum(one.step.moved for one in settled)


def _groups(settled: Iterable[CalibratedStep]) -> list[list[CalibratedStep]]:
    known = list(settled)
    return [group for payer in UserGroup if (group := [one for one in known if one.step.payer is payer])]


def _calibrated(step: Step, guarantee: Guarantee, bounds: Bounds, numbers: int) -> CalibratedStep:
    sigma = sigma_for(guarantee.epsilon, guarantee.delta, sensitivity=step.sensitivity, dim=numbers)
    sigma = sigma / step.share**0.5  # μ² is what adds up, so a share of μ² costs its root in σ
    if step.spread is None:
        return CalibratedStep(step, Grid.for_noise(sigma, bounds=bounds, dim=step.numbers))
    # The finest grid there is, and a little more noise to pay for rounding on it: R + rounding = μ steps in σ.
    finest = grid_steps(MAX_REFINEMENT)
    allowed = finest * step.sensitivity / sigma
    rounding = step.rounding(Grid(sigma, sigma / finest, MAX_REFINEMENT))
    if rounding > _MOST_LOST * allowed:
        taken = "all" if rounding >= allowed else f"{rounding / allowed:.0%}"
        raise ParameterError(
            f"epsilon {guarantee.epsilon:g} is too small for {step.rows:,} x {step.numbers} numbers: rounding alone "
            f"would take {taken} of the budget of step {step.name!r}"
            + ("" if bounds.clip is None else f" (a clip below {bounds.clip:g} would help)")
        )
    grid_step = step.sensitivity / (allowed - rounding)
    return CalibratedStep(step, Grid(finest * grid_step, grid_step, MAX_REFINEMENT))
