"""Attacks on strategies in rounds, which publish only their last step.

Two adversaries know everything but one rating, or one user. One is shown the outputs of all steps, the unpublished ones
too, and adds up their likelihood ratios, each given what came before it: the accounting counts every step as if it were
published, so the bound holds for it. The other sees what is published and does what anybody can: it simulates releases
of both inputs and learns to tell them apart by the rows along the direction that the others' known tastes point it to
(directions come out turned, and that turns them back).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from pricdr.arrays import BoolArray, Float64Array
from pricdr.privacy.accounting import LATTICE_FACTOR, Guarantee, Unit
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.steps import Bounds, CalibratedStep, Declared, calibrate, total_mu
from pricdr.randomness import Randomness, Secret, Simulation
from pricdr.strategies import Guided, Spectral
from tests.attacks.evidence import Tally, decide, duel
from tests.attacks.integer_reference import Transcript, WholeSums, trace_steps
from tests.attacks.learnt import with_noise

_FOLLOWERS: Final = 20
"""Users of either taste."""
_ITEMS: Final = 12
"""Items of either taste."""


@dataclass(frozen=True, eq=False)
class GuideOf:
    """A guide as the other party may send it."""

    matrix: npt.NDArray[np.float32]
    users: tuple[str, ...]
    sigma: float = 0.0


@dataclass(frozen=True)
class RoundsTarget:
    """Two inputs and a strategy in rounds, with its noise calibrated for them."""

    strategy: Spectral | Guided
    before: Float64Array
    after: Float64Array
    epsilon: float = 8.0
    bounds: Bounds = field(default_factory=Bounds)
    unit: Unit = Unit.RATING
    noise_scale: float = 1.0
    """Below 1 cheats."""

    @cached_property
    def calibrated(self) -> tuple[CalibratedStep, ...]:
        return tuple(with_noise(one, self.noise_scale) for one in self._promised)

    @property
    def mu(self) -> float:
        return total_mu(self._promised) * LATTICE_FACTOR

    @cached_property
    def entries(self) -> tuple[Entries, Entries]:
        way = WholeSums(bounds=self.bounds, unit=self.unit)
        return way.entries(self.before), way.entries(self.after)

    @cached_property
    def _promised(self) -> tuple[CalibratedStep, ...]:
        declared = Declared(bounds=self.bounds, unit=self.unit, users=len(self.before))
        guarantee = Guarantee(epsilon=self.epsilon, delta=1e-6, unit=self.unit)
        return calibrate(self.strategy.steps(declared), guarantee, self.bounds)

    def run(self, world: int, randomness: Randomness) -> Transcript:
        """Run all steps on one input, and return what each gave."""
        with trace_steps() as transcript:
            self.strategy.publish(self.entries[world], Run(self.calibrated, randomness))
        return transcript

    def expected(self, world: int, seen: Mapping[str, Float64Array], randomness: Randomness) -> Transcript:
        """Return what every step would have given without noise, after what was ``seen`` of those before it."""
        with trace_steps(seen) as transcript:
            self.strategy.publish(self.entries[world], Run(self.calibrated, randomness, noisy=False))
        return transcript


@dataclass(frozen=True)
class Scored:
    score: float
    """The log-likelihood ratio of all steps together, each given what came before it."""
    distance: float
    """How far apart the two inputs are after what was seen, in standard deviations, over all steps."""

    def normal(self, world: int) -> float:
        """Return the score less its mean, over its spread: standard normal if every step has the noise it should."""
        return (self.score - (world - 0.5) * self.distance**2) / self.distance


def scored(target: RoundsTarget, seen: Transcript, randomness: Randomness) -> Scored:
    absent, present = (target.expected(world, seen, randomness) for world in (0, 1))
    score = squares = 0.0
    for one in target.calibrated:
        name = one.step.name
        shift = (present[name] - absent[name]) / one.grid.sigma
        middle = (seen[name] - (absent[name] + present[name]) / 2) / one.grid.sigma
        score += float((shift * middle).sum())
        squares += float((shift**2).sum())
    return Scored(score, math.sqrt(squares))


def scored_runs(target: RoundsTarget, *, trials: int, rng: np.random.Generator) -> tuple[BoolArray, list[Scored]]:
    """Run one input or the other by the toss of a coin; return which, and the adversary's score of every step."""
    truth = rng.random(trials) < 0.5
    runs = []
    for world in truth:
        with Secret() as secret:
            runs.append(scored(target, target.run(int(world), secret), secret))
    return truth, runs


def transcript_ours(target: RoundsTarget, *, trials: int, rng: np.random.Generator) -> Tally:
    """The adversary who is shown every step, and the random start too."""
    truth, runs = scored_runs(target, trials=trials, rng=rng)
    return Tally.of(truth, decide([one.score for one in runs], rng))


def simulating_ours(target: RoundsTarget, *, trials: int, training: int, rng: np.random.Generator) -> Tally:
    """The adversary who sees the published rows alone and has simulated ``training`` releases of each input."""
    tastes = _tastes(target.before)

    def shown(world: int, randomness: Randomness) -> Float64Array:
        return _along(tastes, target.run(world, randomness)["rows"])

    def attacked(world: int) -> Float64Array:
        with Secret() as secret:
            return shown(world, secret)

    simulated = [
        np.array([shown(world, Simulation(int(rng.integers(2**62)))) for _ in range(training)]) for world in (0, 1)
    ]
    means = [part.mean(axis=0) for part in simulated]
    spread = np.cov(np.vstack([part - mean for part, mean in zip(simulated, means, strict=True)]), rowvar=False)
    ridge = np.trace(spread) / len(spread) * np.eye(len(spread))
    weights = np.linalg.solve(spread + 0.1 * ridge, means[1] - means[0])
    middle = (means[0] + means[1]) / 2
    return duel(attacked, lambda rows: float((rows - middle) @ weights), trials=trials, rng=rng)


def _along(tastes: Float64Array, rows: Float64Array) -> Float64Array:
    """Return every user's row along the direction in which the rows of the others follow their known tastes."""
    direction = tastes[:-1] @ rows[:-1]
    return rows @ (direction / (np.linalg.norm(direction) or 1.0))


def _tastes(ratings: Float64Array) -> Float64Array:
    """Return a number per user along which users differ most, from ratings that the adversary knows."""
    users: Float64Array = np.linalg.svd(ratings - ratings.mean(axis=0), full_matrices=False)[0]
    return users[:, 0]


def two_tastes() -> Float64Array:
    """Return users of two tastes who rated all items of their taste: guides come out as two opposite points."""
    users, items = np.arange(2 * _FOLLOWERS) % 2, np.arange(2 * _ITEMS) % 2
    return (users[:, None] == items[None, :]).astype(np.float64)


def rounds_targets() -> dict[str, RoundsTarget]:
    """Return targets: a rating of an item that nobody, one other user or everybody alike has rated; and a user.

    Two tastes and one column put neighbours nearly as far apart in every step but the first as anything can.
    """
    users = tuple(f"{at}" for at in range(2 * _FOLLOWERS))
    sides = np.where(np.arange(2 * _FOLLOWERS) % 2, 1.0, -1.0)[:, None].astype(np.float32)
    ways: dict[str, Spectral | Guided] = {
        "spectral": Spectral(dim=1),
        "guided": Guided(guide=GuideOf(sides, users), dim=1),
        "guided, one round": Guided(guide=GuideOf(sides, users), dim=1, refine=False),
    }
    targets = {}
    for name, others in (("the first rating of an item", 0), ("the second rating", 1), ("a popular item", _FOLLOWERS)):
        after = two_tastes()
        after[: max(0, len(after) - 2 * others - 1), -1] = 0  # users of one taste are every second one
        before = after.copy()
        before[-1, -1] = 0
        targets |= {f"{way}: {name}": RoundsTarget(strategy, before, after) for way, strategy in ways.items()}
    before, after = two_tastes(), two_tastes()
    before[-1] = 0
    user = {"bounds": Bounds(clip=float(_ITEMS)), "unit": Unit.USER}
    targets |= {f"{way}: a user added": RoundsTarget(one, before, after, **user) for way, one in ways.items()}
    return targets
