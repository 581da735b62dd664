"""Attacks on learnt directions. One rating moves the rows of all who rated the item, so they look at the whole matrix.

The adversary knows the guide, both candidate inputs and everything else; only the noise is secret. It computes what
either input would give and runs the likelihood ratio test on all rows at once: no test is better. Many copies of one
small input stand side by side in one matrix, each a trial of its own: no item is shared between copies.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy.sparse as sp

from pricdr.arrays import BoolArray, Float64Array
from pricdr.data.csr import CSR
from pricdr.privacy.accounting import LATTICE_FACTOR, Unit
from pricdr.privacy.steps import Bounds, CalibratedStep, Grid, total_mu
from pricdr.randomness import Secret
from tests.attacks.evidence import Tally, decide, duel
from tests.attacks.integer_reference import WholeSums
from tests.attacks.rows import likelihood_ratio
from tests.attacks.sensitivity import (
    Formula,
    Neighbours,
    added_user,
    cancelling,
    learnt_sums,
    own_taste,
    random_item,
    self_guided_sums,
    sharing,
    unit_norm_sums,
    without_squares_sums,
)


@dataclass(frozen=True)
class LearntTarget:
    """A rating, or a user, that the adversary is after: two inputs, and how they are published."""

    name: str
    pair: Neighbours
    way: WholeSums
    tight: bool = False
    """Whether the two inputs are (nearly) as far apart as the claimed sensitivity."""

    @property
    def mu(self) -> float:
        return total_mu(self.way.calibrated(self.pair)) * LATTICE_FACTOR

    def __str__(self) -> str:
        return self.name


def targets(raters: int = 60, *, seed: int = 0) -> tuple[LearntTarget, ...]:
    """Return the ratings and users that learnt directions could be feared to expose."""
    plain, values = WholeSums(), WholeSums(bounds=Bounds(rating_bound=5))
    user = WholeSums(bounds=Bounds(clip=2.0), unit=Unit.USER)
    popular = random_item(raters, 2, np.random.default_rng(seed))
    return (
        LearntTarget("the first rating of an item", sharing(1), plain),
        LearntTarget("the second rating of an item", sharing(2), plain),
        LearntTarget("a popular item", popular, plain),
        LearntTarget("raters who share everything", sharing(raters), plain, tight=True),
        LearntTarget("raters who cancel", cancelling(2 * raters + 1), plain, tight=True),
        LearntTarget("values, 0 to b", sharing(raters, bound=5.0), values, tight=True),
        LearntTarget("values, 2 to b", sharing(raters, bound=5.0, before=2.0), values),
        LearntTarget("a user added", added_user(2, raters, 2.0), user, tight=True),
    )


def whole_matrix_ours(
    target: LearntTarget, *, trials: int, rng: np.random.Generator, noise_scale: float = 1.0, rows: slice = slice(None)
) -> Tally:
    """The likelihood ratio over all ``rows`` of our release; a ``noise_scale`` below 1 cheats."""
    truth, published, absent, present = _published(target, trials, rng, noise_scale)
    seen = (part.reshape(len(part), -1) for part in (published[:, rows], absent[None, rows], present[None, rows]))
    return Tally.of(truth, decide(likelihood_ratio(*seen), rng))


def _published(
    target: LearntTarget, trials: int, rng: np.random.Generator, noise_scale: float
) -> tuple[BoolArray, Float64Array, Float64Array, Float64Array]:
    """Return each trial's input, what was published of it (trials x rows x numbers), and what either expects."""
    way, pair = target.way, target.pair
    (calibrated,) = (with_noise(one, noise_scale) for one in way.calibrated(pair))
    name = calibrated.step.name
    truth = rng.random(trials) < 0.5
    side_by_side = replace(pair, guide=np.tile(pair.guide, (trials, 1)))
    with Secret() as secret:
        given = copies_of(pair.before, pair.after, truth)
        published = way.sums(side_by_side, given, (calibrated,), randomness=secret)[name]
    absent, present = (way.sums(pair, ratings, (calibrated,))[name] for ratings in (pair.before, pair.after))
    return truth, published.reshape(trials, *absent.shape), absent, present


@dataclass(frozen=True)
class Flaw:
    """A variant of learnt directions with one flaw, and the neighbours it gives away."""

    name: str
    formula: Formula
    pair: Neighbours


CROWD: Final = 101
FLAWS: Final = (
    Flaw("unit directions Q/|Q|: one rating turns the rows of all raters", unit_norm_sums, cancelling(CROWD)),
    Flaw("the sum of squares left out under the root", without_squares_sums, cancelling(CROWD)),
    Flaw(
        "guide rows not clipped",
        learnt_sums,
        replace(cancelling(CROWD), guide=4 * cancelling(CROWD).guide, longest=4.0),
    ),
    Flaw("the guide computed inside, from the user's own ratings", self_guided_sums, own_taste(64)),
)


def whole_matrix_flawed(flaw: Flaw, *, mu: float, trials: int, rng: np.random.Generator) -> Tally:
    """The same attack on a flawed variant whose noise is calibrated to a sensitivity of 1."""
    pair = flaw.pair
    signals = np.stack([flaw.formula(pair.guide, ratings, pair.prior) for ratings in (pair.before, pair.after)])
    truth = rng.random(trials) < 0.5
    published = signals[truth.astype(np.int64)] + rng.standard_normal((trials, *signals[0].shape)) / mu
    scores = likelihood_ratio(published.reshape(trials, -1), signals[0].reshape(1, -1), signals[1].reshape(1, -1))
    return Tally.of(truth, decide(scores, rng))


def directions_published_flawed(*, mu: float, trials: int, rng: np.random.Generator, raters: int = 60) -> Tally:
    """Our rows with the right noise, and the item's direction beside them, as if it were a public projection.

    Wrong because the direction is computed from the very ratings, and nothing was added to it.
    """
    pair = random_item(raters, 2, rng)
    directions = [_direction(pair, ratings) for ratings in (pair.before, pair.after)]

    def published(world: int) -> Float64Array:
        rows = learnt_sums(pair.guide, (pair.before, pair.after)[world], pair.prior)
        return np.vstack([rows + rng.standard_normal(rows.shape) / mu, directions[world]])

    def attack(release: Float64Array) -> float:
        seen = release[-1]
        return float(np.linalg.norm(seen - directions[0]) - np.linalg.norm(seen - directions[1]))

    return duel(published, attack, trials=trials, rng=rng)


def _direction(pair: Neighbours, ratings: Float64Array) -> Float64Array:
    total = ratings[:, 0] @ pair.guide
    return total / np.sqrt(total @ total + (ratings**2).sum() + pair.prior)


def copies_of(before: Float64Array, after: Float64Array, truth: BoolArray) -> CSR:
    """Return one copy of the input per trial along the diagonal, ``before`` or ``after`` as the truth says."""
    parts = ((~truth, before), (truth, after))
    placed = [sp.kron(sp.diags_array(chosen.astype(np.float64)), sp.coo_array(ratings)) for chosen, ratings in parts]
    return (placed[0] + placed[1]).tocsr()


def with_noise(calibrated: CalibratedStep, scale: float) -> CalibratedStep:
    """Return a step with noise of another size, its sums as they were, on a grid as many times coarser."""
    grid = calibrated.grid
    return CalibratedStep(calibrated.step, Grid(grid.sigma * scale, grid.step * scale, grid.refinement))
