"""Neighbouring inputs that move a step as far as it can move, for audits: what the real code makes of either."""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import CSR, sp
from pricdr.errors import ParameterError
from pricdr.privacy.bounds import UNITS_PER_STEP
from pricdr.privacy.guarantee import Unit
from pricdr.privacy.mechanism import on_grid, release_rows
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.run import Secrets
from pricdr.privacy.steps import Declared, Kind, Settled
from pricdr.privacy.strategies import Projection, Strategy
from pricdr.privacy.sums import Float64Array, directions, noisy_sums, whole_guide
from pricdr.randomness import Randomness, Secret

IntArray: TypeAlias = npt.NDArray[np.int64]

_CROWD: Final = 100
"""Raters (or items) that share a direction: its vector is then 0.995 long, and so is nearly the whole shift."""
_PRIOR: Final = 0.0
"""The constant under the root; smaller is worse, and the bound holds for any."""


@dataclass(frozen=True, eq=False)
class Shift:
    """What two neighbouring inputs give without noise, in grid steps, where they differ."""

    low: IntArray
    high: IntArray
    sigma: float
    """Standard deviation of the noise, in grid steps."""
    refinement: int

    @property
    def distance(self) -> float:
        """How far apart they are, in standard deviations of the noise."""
        return float(np.linalg.norm((self.high - self.low).astype(np.float64))) / self.sigma

    def scores(self, present: npt.NDArray[np.bool_], randomness: Randomness, number: int) -> Float64Array:
        """Return log-likelihood ratios, up to a constant, of one noisy run each: with the change where ``present``."""
        noise = DiscreteGaussian(randomness, f"audit {number}", refinement=self.refinement)
        shift = self.high - self.low
        seen = noise.draw(0, len(present) * len(shift)).reshape(len(present), -1) + present[:, None] * shift
        scores: Float64Array = seen @ (shift / self.sigma**2)
        return scores


def worst_case(one: Settled, strategy: Strategy, declared: Declared) -> Shift:
    """Return the largest shift that is known for a step of this kind."""
    step = one.step
    if step.kind is Kind.GIVEN and step.spread is None:
        assert isinstance(strategy, Projection), "steps that round nothing are those of projections"
        low, high = _projected(one, strategy, declared)
    elif step.kind is Kind.GIVEN:
        low, high = _given(one, declared)
    else:
        low, high = _learnt(one, declared)
    differs = np.flatnonzero(low != high)
    steps_per_sigma = one.grid.sigma / one.grid.step
    return Shift(low.ravel()[differs], high.ravel()[differs], steps_per_sigma, one.grid.refinement)


def _projected(one: Settled, strategy: Projection, declared: Declared) -> tuple[IntArray, IntArray]:
    """Return sums without and with a rating of the item with the longest row, or of two opposite users."""
    bounds, grid = declared.bounds, one.grid
    radius = grid.radius(bounds)
    if declared.unit is Unit.RATING:
        with Secret() as fresh:
            rows = on_grid(strategy.example_rows(fresh), radius=radius)
        longest = int(np.argmax(np.einsum("ij,ij->i", rows.astype(np.float64), rows)))
        rows, none, full = rows[longest : longest + 1], [0], [bounds.levels]
    else:
        # Rows e and −e, many of each. The guarantee is for every E, so it must hold for this one.
        assert bounds.clip is not None
        many = 1 + math.ceil(bounds.clip / bounds.largest)
        if many > 1_000_000:
            raise ParameterError(f"clip {bounds.clip:g} is too many ratings to audit")
        direction = np.eye(1, one.step.numbers, dtype=np.float32)
        rows = np.repeat(on_grid(np.concatenate([direction, -direction]), radius=radius), many, axis=0)
        none, full = [0] * many + [bounds.levels] * many, [bounds.levels] * many + [0] * many

    def run(entries: list[int]) -> IntArray:
        matrix = sp.csr_array(np.array([entries], dtype=np.int32))
        return _whole(release_rows(matrix, rows, grid=grid, bounds=bounds, noise=None), grid.step)

    return run(none), run(full)


def _given(one: Settled, declared: Declared) -> tuple[IntArray, IntArray]:
    """Return sums without and with a rating, or of two users whose items point opposite ways."""
    vectors = np.zeros((2, one.step.numbers))
    vectors[:, 0] = 1.0, -1.0
    if one.step.numbers > 1:  # a last column that counts, where the step has one
        vectors[:, -1] = math.sqrt(max(0.0, (one.step.sensitivity / declared.change) ** 2 - 1))
    value, change = _units(declared)
    low, high = ([0, 0], [change, 0]) if declared.unit is Unit.RATING else ([0, change], [change, 0])
    return _sums(one, _matrix([low]), vectors, value), _sums(one, _matrix([high]), vectors, value)


def _learnt(one: Settled, declared: Declared) -> tuple[IntArray, IntArray]:
    """Return sums before and after one more joins a crowd that shares one direction.

    In the user unit that one leaves a second crowd, which shares the opposite direction.

    With users and items exchanged it is a user who rated a crowd of items that point one way.
    """
    value, change = _units(declared)
    kind, counted = one.step.kind, one.step.kind is Kind.COUNTED
    width = one.step.numbers - (1 if counted else 0)
    weight = math.sqrt(max(0.0, (one.step.sensitivity / declared.change) ** 2 - 1)) if counted else 0.0
    entries = np.zeros((2 * _CROWD + 1, 2), dtype=np.int64)
    entries[:_CROWD, 0] = entries[_CROWD : 2 * _CROWD, 1] = change
    guide = np.zeros((2 * _CROWD + 1, width))
    guide[:_CROWD, 0], guide[_CROWD : 2 * _CROWD, 0] = 1.0, -1.0
    worlds = [entries.copy(), entries.copy()]
    worlds[1][-1, 0] = change
    if declared.unit is Unit.USER:
        worlds[0][-1, 1] = change
    sums = []
    for world in worlds:
        matrix = sp.csr_array(world)
        vectors = directions(matrix, whole_guide(guide), value=value, prior=_PRIOR, secrets=Secrets())
        if kind is Kind.COUNTED:
            vectors = np.column_stack([vectors, np.full(len(vectors), weight)])
        sums.append(_sums(one, matrix, vectors, value))
    return sums[0], sums[1]


def _units(declared: Declared) -> tuple[float, int]:
    """Return what one unit of a rating counts, and how many units a change has."""
    bounds = declared.bounds
    if declared.unit is Unit.RATING:
        return bounds.rating_step, bounds.levels
    return bounds.rating_step / UNITS_PER_STEP, bounds.most_units


def _sums(one: Settled, matrix: CSR, vectors: Float64Array, value: float) -> IntArray:
    sums = noisy_sums(matrix, vectors, step=one.step, grid=one.grid, value=value, noise=None, secrets=Secrets())
    return _whole(sums, one.grid.step)


def _matrix(rows: list[list[int]]) -> CSR:
    return sp.csr_array(np.array(rows, dtype=np.int64))


def _whole(values: npt.NDArray[np.floating], step: float) -> IntArray:
    return np.rint(values.astype(np.float64) / step).astype(np.int64).ravel()
