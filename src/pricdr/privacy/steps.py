"""``Step``: one noisy computation on the ratings. A strategy lays out its steps before the first random bit is drawn.

:func:`calibrate` turns shares of μ² into noise, and :func:`total_mu` adds up what noise costs. Gaussian steps compose
exactly, adaptively too (``docs/mathematics.md``, section 2): the squares of μ add.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.data.csr import CSR, exact_row_sums, row_counts, with_values
from pricdr.errors import ParameterError, require_scale
from pricdr.privacy.accounting import MAX_REFINEMENT, Guarantee, Unit, composed_mu, grid_steps, sigma_for

_LARGEST: Final = 1e30  # published numbers are float32, which reach from 1e-38 to 3e38
MAX_SUM: Final = 1 << 53  # sums below this are exact in int64 and as doubles, which clipping needs
MAX_ITEMS: Final = 1 << 24  # of a catalogue: so the size of every sum is bounded before any rating is seen
_ROOM: Final = 32.0
"""Grid steps in a typical coordinate of an item row; rounding then changes the row by 1/(32·√12) of its length."""
_NOISELESS_STEPS: Final = 1 << 16  # grid steps in one rating step of a release without noise, where no σ sets the scale
UNITS_PER_STEP: Final = 256  # in a rating step, where a user's ratings are scaled to a sum and rounded down to a unit


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Declared limits; ratings are forced into them, so the sensitivity is enforced, not assumed.

    Without ``rating_bound`` every rated pair counts as 1. With it a rating counts as its value, rounded to a
    multiple of ``rating_step`` and clamped into [0, ``rating_bound``]; "not rated" is 0.
    """

    rating_bound: float | None = None
    rating_step: float = 1.0
    clip: float | None = None
    """Required for units of users, refused for the rating unit: the largest norm of a user's projected profile, or, for
    a strategy that learns from the ratings, the largest sum of a user's ratings, in one period for user-period."""

    def __post_init__(self) -> None:
        for name in ("rating_bound", "rating_step", "clip"):  # a numpy scalar could wrap round in later arithmetic
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        require_scale(rating_step=self.rating_step)
        if self.rating_bound is not None:
            require_scale(rating_bound=self.rating_bound)
            levels = self.rating_bound / self.rating_step
            if self.levels < 1 or abs(levels - self.levels) > 1e-9 * levels:
                raise ParameterError(
                    f"rating_bound must be a multiple of rating_step, got {self.rating_bound!r} {self.rating_step!r}"
                )
            if levels > 10_000:
                raise ParameterError(f"rating_bound must be at most 10,000 steps, got {self.levels:,}")
        elif self.rating_step != 1.0:
            raise ParameterError(f"rating_step needs a rating_bound, got {self.rating_step!r} alone")
        if self.clip is not None:
            require_scale(clip=self.clip)

    @property
    def largest(self) -> float:
        """The most one rating can count: b."""
        return 1.0 if self.rating_bound is None else self.rating_bound

    @property
    def levels(self) -> int:
        """The bound in steps."""
        return round(self.largest / self.rating_step)

    def sensitivity(self, unit: Unit) -> float:
        """Return how far one neighbouring change can move a row of A E: b for a rating, c for a user who is removed.

        >>> Bounds(rating_bound=5).sensitivity(Unit.RATING), Bounds(clip=3).sensitivity(Unit.USER)
        (5.0, 3.0)
        """
        if unit is Unit.RATING:
            if self.clip is not None:
                raise ParameterError(f"clip belongs to the user units, got clip = {self.clip!r} with unit rating")
            return self.largest
        if self.clip is None:
            raise ParameterError(
                f"unit {unit.value} needs a clip: the largest sum of a user's ratings (spectral, guided), in a period "
                "for user-period, or the largest norm of a user's projected profile (jlt, sjlt, features)"
            )
        return self.clip

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
        """Return how many ratings :meth:`steps` clamps and how many others it rounds: for their owner's screen alone.

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
        """Return the ratings in whole units, for a strategy that learns from them; scaled where there is a clip."""
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
        """Return the entries in whole 1/256 rating steps, each user's, alone, scaled to add up to the clip at most.

        >>> from scipy.sparse import csr_array
        >>> row = csr_array(np.array([[1, 1, 1, 1], [1, 0, 0, 0]]))
        >>> Bounds(clip=2.0).limited(row).toarray().tolist()
        [[127, 127, 127, 127], [256, 0, 0, 0]]
        """
        units = with_values(entries, entries.data.astype(np.int64) * UNITS_PER_STEP)
        over = np.repeat(np.maximum(exact_row_sums(units), self.most_units), row_counts(units))
        return with_values(units, units.data * self.most_units // over)


@dataclass(frozen=True)
class Grid:
    """The lattice on which a release is computed: σ is ``grid_steps(refinement)`` steps of size ``step``."""

    sigma: float
    step: float
    refinement: int = 1

    @classmethod
    def for_noise(cls, sigma: float, *, bounds: Bounds, dim: int) -> "Grid":
        """Return the grid for noise σ, so fine that rounding costs the item rows under 1 %, or else the finest."""
        refinement = 1
        while refinement < MAX_REFINEMENT and not cls._at(sigma, refinement).keeps_signal(bounds, dim, room=_ROOM):
            refinement *= 2
        return cls._at(sigma, refinement)

    @classmethod
    def _at(cls, sigma: float, refinement: int) -> "Grid":
        return cls(sigma, sigma / grid_steps(refinement), refinement)

    def radius(self, bounds: Bounds) -> float:
        """Return how long an item row may be in grid steps: ``levels`` rating steps then move a row by b at most."""
        radius = bounds.largest / bounds.levels / self.step
        scales = [size for size in (self.sigma, bounds.largest) if size]
        if not 1 / _LARGEST < min(scales) <= max(scales) < _LARGEST:
            raise ParameterError(f"sigma {self.sigma:.3g} or bound {bounds.largest:.3g} is beyond single precision")
        if radius * bounds.levels > MAX_SUM // MAX_ITEMS:
            raise ParameterError(f"the noise is too small for exact arithmetic: {radius:.3g} grid steps in one rating")
        return radius

    def keeps_signal(self, bounds: Bounds, dim: int, *, room: float = 2.0) -> bool:
        """Return whether rounding to the grid leaves item rows recognisable: ``room`` steps in a typical coordinate."""
        return self.radius(bounds) >= room * math.sqrt(dim)


_FINEST_BITS: Final = 20  # binary places below one grid step that products carry before they are rounded to it
_MAX_SUM_BITS: Final = 62
MAX_USERS: Final = 1 << 27  # users that a release can have: whole numbers hold the sum of any guide over them
MAX_RATINGS: Final = 1 << 33
_SAFE: Final = 1 + 1e-6  # covers double arithmetic in a bound on rounding
_MAX_LOST: Final = 0.5  # the largest part of a step's budget that rounding may take


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a layout of steps may depend on: nothing of it is read off the ratings."""

    bounds: Bounds
    unit: Unit
    users: int
    periods: int = 1  # in which the unit user-period clips a user's ratings

    @property
    def change(self) -> float:
        """How far a neighbouring change moves the ratings in the sum of absolute values: b, or the clip."""
        return self.bounds.sensitivity(self.unit)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One noisy computation, as laid out."""

    name: str
    purpose: str  # what it computes, for people
    sensitivity: float  # how far a neighbouring change moves the exact result (Frobenius norm)
    share: float  # the part of μ² that it is given
    rows: int
    numbers: int  # noisy numbers in a row
    moved: int  # noisy numbers that one neighbouring change can move
    most: int = MAX_ITEMS  # ratings, at most, that one number adds up: whole numbers must hold their sum
    spread: int | None = None  # most units of ratings behind one number; None where nothing is rounded
    learnt: bool = False
    """Whether vectors are computed from the same ratings; one rating then moves the rows of all who rated the item."""
    published: bool = True  # whether its rows are part of the release; otherwise only later steps see them

    def rounding(self, grid: Grid) -> float:
        """Return the grid steps that rounding adds to the sensitivity, over all numbers that can move."""
        if self.spread is None:
            return 0.0
        # Vectors are rounded down to 2^-bits, which a sum is off by for each unit of ratings; then it is rounded too.
        return math.sqrt(self.moved) * (1 + self.spread * 2.0 ** -self.fine_bits(grid)) * _SAFE

    def fine_bits(self, grid: Grid) -> int:
        """Return how many binary places the products carry: as many as the largest possible sum leaves room for."""
        reach = math.ceil(math.log2(max(2.0, self.sensitivity / grid.step)))
        bits = _MAX_SUM_BITS - reach - self.most.bit_length()
        if bits < 1:
            raise ParameterError(f"the noise of step {self.name} is too small for exact arithmetic")
        # Where much lies behind a number, so many more that rounding it down costs less than rounding the sum.
        return min(max(_FINEST_BITS, (self.spread or 0).bit_length() + 4), bits)


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
    """Return the noise of every step, so that all of them together keep ``guarantee``."""
    total = math.fsum(step.share for step in steps)
    if abs(total - 1) > 1e-12:
        raise ParameterError(f"the shares of the steps add up to {total!r}, not to 1")
    # The noise table is off by a little in every number; the promise has to cover all numbers of all steps.
    numbers = sum(step.moved for step in steps)
    return tuple(_calibrated(step, guarantee, bounds, numbers) for step in steps)


def noiseless(steps: Sequence[Step], bounds: Bounds) -> tuple[CalibratedStep, ...]:
    """Return the same steps without noise, on a fine grid. NOT PRIVATE."""
    return tuple(CalibratedStep(step, Grid(0.0, bounds.rating_step / _NOISELESS_STEPS)) for step in steps)


def total_mu(calibrated: Iterable[CalibratedStep]) -> float:
    """Return μ of all steps together."""
    return composed_mu(one.mu for one in calibrated)


def total_numbers(calibrated: Iterable[CalibratedStep]) -> int:
    """Return how many noisy numbers one change can move, over all steps."""
    return sum(one.step.moved for one in calibrated)


def _calibrated(step: Step, guarantee: Guarantee, bounds: Bounds, numbers: int) -> CalibratedStep:
    sigma = sigma_for(guarantee.epsilon, guarantee.delta, sensitivity=step.sensitivity, dim=numbers)
    sigma = sigma / step.share**0.5  # μ² is what adds up, so a share of μ² costs its root in σ
    if step.spread is None:
        return CalibratedStep(step, Grid.for_noise(sigma, bounds=bounds, dim=step.numbers))
    # The finest grid there is, and a little more noise to pay for rounding on it: R + rounding = μ steps in σ.
    finest = grid_steps(MAX_REFINEMENT)
    allowed = finest * step.sensitivity / sigma
    rounding = step.rounding(Grid(sigma, sigma / finest, MAX_REFINEMENT))
    if rounding > _MAX_LOST * allowed:
        taken = "all" if rounding >= allowed else f"{rounding / allowed:.0%}"
        raise ParameterError(
            f"epsilon {guarantee.epsilon:g} is too small for {step.rows:,} x {step.numbers} numbers: rounding alone "
            f"would take {taken} of the budget of step {step.name!r}"
            + ("" if bounds.clip is None else f" (a clip below {bounds.clip:g} would help)")
        )
    grid_step = step.sensitivity / (allowed - rounding)
    return CalibratedStep(step, Grid(finest * grid_step, grid_step, MAX_REFINEMENT))
