"""Attacks on ``spectral``, which publishes only its last step.

Two adversaries know everything but one rating. One is shown the outputs of all steps, the unpublished ones too, and
adds up their likelihood ratios: the accounting counts every step as if it were published, so the bound holds for it.
The other sees what is published and does what anybody can: it simulates releases of both inputs and learns to tell them
apart by the inner products between rows (item directions may come out turned, inner products do not).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

import pricdr.privacy.strategies as strategies  # first: item_model and it import each other
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import LATTICE_FACTOR
from pricdr.privacy.guarantee import Guarantee, Unit
from pricdr.privacy.guide import guide
from pricdr.privacy.item_model import Group, ItemModel, step_name
from pricdr.privacy.mechanism import Grid
from pricdr.privacy.run import Entries, Run, Secrets, erasing
from pricdr.privacy.steps import Declared, Settled, settle, total_mu
from pricdr.privacy.strategies.gaussian import unit_gaussian_rows
from pricdr.privacy.strategies.learnt import InnerRows, user_rows
from pricdr.privacy.sums import whole_guide
from pricdr.randomness import Randomness, Secret, Simulation
from pricdr.testing.attacks.evidence import FloatArray, Tally, decide
from pricdr.testing.whole_sums import WholeSums

Transcript: TypeAlias = dict[str, FloatArray]
"""What every step gave, by its name."""


@dataclass(frozen=True)
class SpectralTarget:
    """Two inputs over a declared catalogue, and ``spectral`` with its noise settled for them."""

    before: FloatArray
    after: FloatArray
    epsilon: float = 8.0
    bounds: Bounds = field(default_factory=Bounds)
    unit: Unit = Unit.RATING
    dim: int = 2
    noise_scale: float = 1.0
    """Below 1 cheats."""
    first_share: float = 0.25
    """Of μ², for the first rows: the step that neighbours are always farthest apart in."""

    @cached_property
    def strategy(self) -> "strategies.Spectral":
        """The strategy under attack."""
        return strategies.Spectral(dim=self.dim, first_share=self.first_share)

    @cached_property
    def settled(self) -> tuple[Settled, ...]:
        """Its steps, their noise as promised times ``noise_scale``."""
        scale = self.noise_scale
        return tuple(
            Settled(one.step, Grid(one.grid.sigma * scale, one.grid.step * scale, one.grid.refinement))
            for one in self._promised
        )

    @property
    def mu(self) -> float:
        """What is promised of all steps together."""
        return total_mu(self._promised) * LATTICE_FACTOR

    @cached_property
    def entries(self) -> tuple[Entries, Entries]:
        """Both inputs as the strategy sees them."""
        way = WholeSums(bounds=self.bounds, unit=self.unit)
        return way.entries(self.before), way.entries(self.after)

    @cached_property
    def _promised(self) -> tuple[Settled, ...]:
        users, items = self.before.shape
        declared = Declared(bounds=self.bounds, unit=self.unit, users=users, items=items)
        guarantee = Guarantee(epsilon=self.epsilon, delta=1e-6, unit=self.unit)
        return settle(self.strategy.steps(declared), guarantee, self.bounds)

    def run(self, world: int, randomness: Randomness, *, noisy: bool = True) -> Transcript:
        """All steps on one input."""
        return self._steps(world, Run(self.settled, randomness, noisy=noisy), {})

    def expected(self, world: int, seen: Mapping[str, FloatArray], randomness: Randomness) -> Transcript:
        """What every step would have given on this input without noise, after what was ``seen`` of those before it."""
        return self._steps(world, Run(self.settled, randomness, noisy=False), seen)

    def _steps(self, world: int, run: Run, seen: Mapping[str, FloatArray]) -> Transcript:
        """``Spectral.publish``, step by step; each goes on from what was seen of the last one, if anything was."""
        entries, spectral, found = self.entries[world], self.strategy, Transcript()
        inner = InnerRows(spectral.item_prior)
        with erasing() as secrets:
            rows = self._item_rows(entries, run, seen, found, secrets)
            found["first rows"] = user_rows("first rows", entries, rows, run, secrets)
            along = guide(seen.get("first rows", found["first rows"]), self.dim)
            found["rows"] = inner.publish("rows", entries, along, run, secrets)
        return found

    def _item_rows(
        self, entries: Entries, run: Run, seen: Mapping[str, FloatArray], found: Transcript, secrets: Secrets
    ) -> FloatArray:
        spectral = self.strategy
        model = ItemModel(
            dim=self.dim,
            rounds=spectral.rounds,
            count_weight=spectral.count_weight,
            user_prior=spectral.user_prior,
            floor=spectral.floor,
        )
        group = Group(entries.listed, entries.value, 1.0)
        items = len(entries.items)
        rows = unit_gaussian_rows(run.randomness.stream("first item rows"), items, self.dim).astype(np.float64)
        for number in range(1, spectral.rounds + 1):
            name = step_name(number)
            found[name], scale = model._sums(group, whole_guide(rows), number, run, secrets)
            rows = model._rows(seen.get(name, found[name]), scale**2, last=number == spectral.rounds)
        return rows


def transcript_score(target: SpectralTarget, seen: Transcript, randomness: Randomness) -> float:
    """The log-likelihood ratio of all steps together: each given what came before it."""
    absent, present = (target.expected(world, seen, randomness) for world in (0, 1))
    score = 0.0
    for one in target.settled:
        rows = seen[one.step.name]
        distances = [float(((rows - world[one.step.name]) ** 2).sum()) for world in (absent, present)]
        score += (distances[0] - distances[1]) / (2 * one.grid.sigma**2)
    return score


def transcript_ours(target: SpectralTarget, *, trials: int, rng: np.random.Generator) -> Tally:
    """The adversary who is shown every step, and the random first item rows too."""
    truth = rng.random(trials) < 0.5
    scores = []
    for world in truth:
        with Secret() as secret:
            seen = target.run(int(world), secret)
            scores.append(transcript_score(target, seen, secret))
    return Tally.of(truth, decide(scores, rng))


def simulating_ours(target: SpectralTarget, *, trials: int, training: int, rng: np.random.Generator) -> Tally:
    """The adversary who sees the published rows alone and has simulated ``training`` releases of each input."""
    simulated = [
        np.array(
            [_inner_products(target.run(world, Simulation(int(rng.integers(2**62))))["rows"]) for _ in range(training)]
        )
        for world in (0, 1)
    ]
    means = [part.mean(axis=0) for part in simulated]
    spread = np.cov(np.vstack([part - mean for part, mean in zip(simulated, means, strict=True)]), rowvar=False)
    ridge = np.trace(spread) / len(spread) * np.eye(len(spread))
    weights = np.linalg.solve(spread + 0.1 * ridge, means[1] - means[0])
    middle = (means[0] + means[1]) / 2
    truth = rng.random(trials) < 0.5
    scores = []
    for world in truth:
        with Secret() as secret:
            seen = _inner_products(target.run(int(world), secret)["rows"])
        scores.append(float((seen - middle) @ weights))
    return Tally.of(truth, decide(scores, rng))


def _inner_products(rows: FloatArray) -> FloatArray:
    gram = rows @ rows.T
    flat: FloatArray = gram[np.triu_indices(len(gram))]
    return flat


def spectral_targets(*, epsilon: float = 8.0, noise_scale: float = 1.0) -> dict[str, SpectralTarget]:
    """The last user's last rating, of an item that nobody, one other user or everybody else has rated; and a user.

    One column and a user of many ratings put neighbours far apart in every step.
    """
    rng = np.random.default_rng(5)
    others = (rng.random((40, 40)) < 0.4).astype(np.float64)
    found = {}
    for name, raters in (("the first rating of an item", 0), ("the second rating", 1), ("a popular item", 39)):
        after = others.copy()
        after[:, -1] = 0
        after[:raters, -1] = 1
        after[-1] = 1
        before = after.copy()
        before[-1, -1] = 0
        found[name] = SpectralTarget(before, after, epsilon=epsilon, noise_scale=noise_scale, dim=1)
    before, after = others.copy(), others.copy()
    before[-1] = np.arange(40) < 20
    after[-1] = 1 - before[-1]
    bounds = Bounds(clip=2.0)
    found["a user replaced"] = SpectralTarget(before, after, epsilon, bounds, Unit.USER, noise_scale=noise_scale)
    return found
