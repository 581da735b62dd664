"""Attacks on a whole series: the adversary sees every week and knows all but one rating, in every week or in none.

The weeks are published by the real code, each along the sum of those before it. Given what it has seen so far, the
adversary knows the next guide, computes what either input would give, and adds up the likelihood ratios: no test is
better. Many copies of one small input may stand side by side in one matrix, each a trial of its own: they share no
item, and given the weeks before, the noise of one copy says nothing about another.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pricdr.arrays import BoolArray, Float64Array
from pricdr.privacy.accounting import LATTICE_FACTOR, Guarantee, Unit, composed_mu, epsilon_of, mu_of
from pricdr.privacy.audit import largest_rate
from pricdr.privacy.mechanism import Entries, Run
from pricdr.privacy.steps import Bounds, CalibratedStep, Declared, calibrate, total_mu
from pricdr.privacy.strategies.rounds import LearntInRounds
from pricdr.randomness import Randomness, Secret
from pricdr.strategies import Continued, Guided
from tests.attacks.evidence import Tally, decide
from tests.attacks.integer_reference import Transcript, WholeSums, trace_steps
from tests.attacks.learnt import copies_of, with_noise
from tests.attacks.transcript import GuideOf, two_tastes

DELTA: Final = 1e-6
CLAIMED: Final = 8.0
"""ε of all weeks together, where nothing else is said."""
_NEAR: Final = 0.5
"""How long the noise may be, beside a σ of the full price, for a source that draws until its rows are near."""


@dataclass(frozen=True, kw_only=True)
class SeriesTarget:
    """A rating, or a user, that is in every week of a series or in none, and how the weeks are published."""

    first: LearntInRounds
    before: Float64Array
    after: Float64Array
    copies: int = 1
    """More than one only without centring: its one sum is over all of them."""
    further: Continued = field(default_factory=Continued)
    """How every other week is published, but for the weeks before it."""
    weeks: int = 6
    epsilon: float = CLAIMED
    """Of all weeks together, which cost the same."""
    bounds: Bounds = field(default_factory=Bounds)
    unit: Unit = Unit.RATING
    noise_scale: float = 1.0
    """Below 1 cheats."""
    unpublished: bool = False
    """FLAWED: weeks go on from the rows of those before as they were without noise, which nobody has paid for."""
    reused: bool = False
    """FLAWED: all weeks draw the same noise."""
    until_near: bool = False
    """FLAWED: μ is chosen after the draw, which is cheap at first, and repeated until the rows are near."""

    @cached_property
    def mu(self) -> float:
        """What the weeks cost together."""
        weekly = [total_mu(self._promised(one)) for one in (self.first, self._next(()))]
        return composed_mu([weekly[0], *weekly[1:] * (self.weeks - 1)]) * LATTICE_FACTOR

    @cached_property
    def users(self) -> tuple[str, ...]:
        return tuple(f"{at}" for at in range(self.copies * len(self.before)))

    def entries(self, truth: BoolArray) -> Entries:
        """Return what is published: ``before`` or ``after``, copy by copy."""
        return WholeSums(bounds=self.bounds, unit=self.unit).entries(copies_of(self.before, self.after, truth))

    def week(self, shown: list[GuideOf]) -> tuple[LearntInRounds, tuple[CalibratedStep, ...]]:
        """Return how the next week is published, after those that were shown, and with how much noise."""
        strategy = self._next(tuple(shown)) if shown else self.first
        return strategy, tuple(with_noise(one, self.noise_scale) for one in self._promised(strategy))

    def _next(self, shown: tuple[GuideOf, ...]) -> Continued:
        return replace(self.further, before=shown, dim=self.first.dim)

    def _promised(self, strategy: LearntInRounds) -> tuple[CalibratedStep, ...]:
        users = self.copies * self.before.shape[0]
        declared = Declared(bounds=self.bounds, unit=self.unit, users=users)
        weekly = epsilon_of(mu_of(self.epsilon, DELTA) / self.weeks**0.5, DELTA)
        guarantee = Guarantee(epsilon=weekly, delta=DELTA, unit=self.unit)
        return calibrate(strategy.steps(declared), guarantee, self.bounds)


@dataclass(frozen=True)
class Step:
    """One step of a week as the adversary sees it, copy by copy, in standard deviations of its noise."""

    shift: Float64Array
    """From what ``before`` would have given to what ``after`` would, after what was seen."""
    middle: Float64Array
    """From the middle of the two to what was seen."""
    published: bool


@dataclass(frozen=True)
class Seen:
    """A series that was published, each copy of it with a rating or without by the toss of a coin."""

    truth: BoolArray
    steps: tuple[Step, ...]

    @cached_property
    def scores(self) -> Float64Array:
        """The log-likelihood ratio of all steps of all weeks, each given what came before it."""
        return sum((one.shift * one.middle).sum(axis=1) for one in self.steps) + np.zeros(len(self.truth))

    @cached_property
    def distances(self) -> Float64Array:
        """How far apart the two inputs are after what was seen, over all steps of all weeks."""
        return np.sqrt(sum((one.shift**2).sum(axis=1) for one in self.steps) + np.zeros(len(self.truth)))

    @property
    def normal(self) -> Float64Array:
        """The scores less their means, over their spreads: standard normal if every step has the noise it should."""
        return (self.scores - (self.truth - 0.5) * self.distances**2) / self.distances

    def tally(self, rng: np.random.Generator) -> Tally:
        return Tally.of(self.truth, decide(self.scores, rng))

    def tally_of_differences(self, rng: np.random.Generator) -> Tally:
        """The same test on what is left when every week is subtracted from the next: noise of their own, or none."""
        rows = [one for one in self.steps if one.published]
        changes = [(two.shift - one.shift, two.middle - one.middle) for one, two in pairwise(rows)]
        scores = np.sum([(shift * middle).sum(axis=1) for shift, middle in changes], axis=0)
        return Tally.of(self.truth, decide(scores, rng))


def seen_of(target: SeriesTarget, rng: np.random.Generator, *, published_only: bool = False) -> Seen:
    """Publish a series and return what the adversary makes of it, who sees every step, or what is published alone."""
    truth = rng.random(target.copies) < 0.5
    worlds = [target.entries(one) for one in (truth, np.zeros_like(truth), np.ones_like(truth))]
    guiding: list[list[GuideOf]] = [[], [], []]
    """What the next week goes on from, in each world: the same, unless it was never published."""
    steps: list[Step] = []
    with Secret() as one_for_all:
        for _ in range(target.weeks):
            (given, calibrated), *others = (target.week(shown) for shown in guiding)
            with Secret() as fresh:
                secret = one_for_all if target.reused else fresh
                calibrated, seen = _published(target, given, worlds[0], calibrated, secret)
                ways = given, *(strategy for strategy, _ in others)
                exact = [sums_of(*one, calibrated, secret, seen) for one in zip(ways, worlds, strict=True)]
            for one in calibrated:
                if one.step.published or not published_only:
                    shown = (part[one.step.name].reshape(target.copies, -1) for part in (*exact[1:], seen))
                    absent, present, found = (numbers / one.grid.sigma for numbers in shown)
                    steps.append(Step(present - absent, found - (absent + present) / 2, one.step.published))
            for before, own in zip(guiding, exact, strict=True):
                rows = (own if target.unpublished else seen)["rows"].astype(np.float32)
                before.append(GuideOf(rows, target.users, calibrated[-1].grid.sigma))
    return Seen(truth, tuple(steps))


def _published(
    target: SeriesTarget,
    strategy: LearntInRounds,
    given: Entries,
    calibrated: tuple[CalibratedStep, ...],
    secret: Randomness,
) -> tuple[tuple[CalibratedStep, ...], Transcript]:
    """Return what the steps of a week gave, and the noise that is claimed for them."""
    if not target.until_near:
        return calibrated, sums_of(strategy, given, calibrated, secret)
    exact = sums_of(strategy, given, calibrated, secret, {})["rows"]
    for scale in chain((4.0, 2.0), repeat(1.0)):  # cheap at first; the draw that was near enough is paid for
        noisy = tuple(with_noise(one, scale) for one in calibrated)
        with Secret() as drawn:
            seen = sums_of(strategy, given, noisy, drawn)
        if np.linalg.norm(seen["rows"] - exact) <= _NEAR * calibrated[-1].grid.sigma:
            return noisy, seen
    raise AssertionError


def sums_of(
    strategy: LearntInRounds,
    entries: Entries,
    calibrated: tuple[CalibratedStep, ...],
    randomness: Randomness,
    seen: Transcript | None = None,
) -> Transcript:
    """Return what every step gives; with no noise, and going on from what was ``seen``, where that is given."""
    with trace_steps(seen) as transcript:
        strategy.publish(entries, Run(calibrated, randomness, noisy=seen is None))
    return transcript


def apart(target: SeriesTarget, shown: list[GuideOf]) -> float:
    """Return how far apart the two inputs are in the week after those ``shown``, which may be anything, over its μ."""
    strategy, calibrated = target.week(shown)
    absent, present = (target.entries(np.array([world])) for world in (False, True))
    with Secret() as secret:
        seen = sums_of(strategy, absent, calibrated, secret)
        exact = [sums_of(strategy, one, calibrated, secret, seen) for one in (absent, present)]
    shifts = [(exact[1][one.step.name] - exact[0][one.step.name]) / one.grid.sigma for one in calibrated]
    return float(np.sqrt(sum((shift**2).sum() for shift in shifts))) / total_mu(calibrated)


def series_tally(target: SeriesTarget, *, trials: int, rng: np.random.Generator, differences: bool = False) -> Tally:
    """Attack series until there were as many trials; ``differences``: each week less the one before it."""
    runs = [seen_of(target, rng) for _ in range(-(-trials // target.copies))]
    tallies = [one.tally_of_differences(rng) if differences else one.tally(rng) for one in runs]
    return Tally(*np.sum([(one.absent, one.false_alarms, one.present, one.hits) for one in tallies], axis=0).tolist())


def crowds(copies: int, *, raters: int = 40, items: int = 6, **changes: Any) -> SeriesTarget:
    """Return crowds of one taste or the opposite one, who rated all items of theirs; in each, one rating is asked for.

    A single column, and no step that is not published: neighbours are nearly as far apart as anything can be.
    """
    after = np.ones((raters, items))
    before = after.copy()
    before[-1, -1] = 0
    sides = np.repeat(np.arange(copies) % 2, raters)
    target = SeriesTarget(first=_guided(sides), before=before, after=after, copies=copies, further=_UNCENTRED)
    return replace(target, **changes)


def tastes(first: LearntInRounds | None = None, *, others: int = 20, **changes: Any) -> SeriesTarget:
    """Return users of two tastes; a last one rates, or does not, an item that so many others of its taste rated."""
    after = two_tastes()
    after[: max(0, len(after) - 2 * others - 1), -1] = 0  # users of one taste are every second one
    before = after.copy()
    before[-1, -1] = 0
    given = _guided(np.arange(len(after)) % 2, centring=0.01)
    return SeriesTarget(first=first or given, before=before, after=after, **changes)


def torn(followers: int = 30, popular: int = 4, **changes: Any) -> SeriesTarget:
    """Return a user of many items that one other user rated, half of either taste, and a rating that tips the balance.

    Were guides made of rows without noise, one rating would turn that user's guide row and with it all of its items.
    """
    side = np.arange(2 * followers) % 2
    after = np.zeros((len(side) + 1, 2 * popular + len(side)))
    after[:-1, : 2 * popular] = side[:, None] == np.arange(2 * popular) % 2
    after[np.arange(len(side)), 2 * popular + np.arange(len(side))] = 1
    after[-1, 2 * popular :] = 1
    before = after.copy()
    after[-1, 0] = 1
    return SeriesTarget(first=_guided(side, nobody=1, centring=0.01), before=before, after=after, **changes)


def two_alone(**changes: Any) -> SeriesTarget:
    """Return two users with an item each, and few numbers in all: noise that is short can be waited for."""
    after = np.eye(2)
    before = np.diag([1.0, 0.0])
    first, further = (replace(one, item_prior=0.0) for one in (_guided(np.arange(2)), _UNCENTRED))
    return SeriesTarget(first=first, before=before, after=after, further=further, weeks=4, **changes)


_UNCENTRED: Final = Continued(centring=0.0)


def _guided(sides: npt.NDArray[Any], *, nobody: int = 0, centring: float = 0.0) -> Guided:
    """Return a first week of one step, along a guide that puts users on either of two sides, the last in between."""
    rows = np.append(np.where(sides, 1.0, -1.0), np.zeros(nobody))[:, None].astype(np.float32)
    users = tuple(f"{at}" for at in range(len(rows)))
    return Guided(guide=GuideOf(rows, users), dim=1, refine=False, centring=centring)


def epsilon_found(tally: Tally, *, confidence: float) -> float:
    """Return ε at least, from the share of right guesses: no more than Φ(μ/2) of them can be (Clopper-Pearson)."""
    least = 1 - largest_rate(tally.trials - tally.right, tally.trials, 1 - confidence)
    return epsilon_of(max(0.0, 2 * float(ndtri(least))), DELTA)
