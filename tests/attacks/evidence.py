"""How good an attack was, and how good the certified guarantee allows any attack to be.

A mechanism with parameter μ confines every test between two neighbouring inputs: with false alarm rate α its power is
at most Φ(Φ⁻¹(α) + μ), and a guess between two equally likely inputs is right with probability at most Φ(μ/2). A
:class:`Tally` counts guesses and says whether they refute a μ, with a stated chance of refuting a true one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import ndtr, ndtri

from pricdr.arrays import BoolArray

Published = TypeVar("Published")

LEVEL: Final = 1e-6
"""How often a mechanism that keeps its promise may be called broken."""


def power_bound(false_alarms: float, mu: float) -> float:
    """Return the most power a test with this false alarm rate has against a mechanism with parameter ``mu``."""
    return float(ndtr(ndtri(false_alarms) + mu))


def guess_bound(mu: float) -> float:
    """Return the most often anybody guesses right which of two equally likely neighbours was published."""
    return float(ndtr(mu / 2))


@dataclass(frozen=True)
class Tally:
    """Guesses between two inputs: in ``absent`` trials the target was not there, in ``present`` ones it was."""

    absent: int
    false_alarms: int
    present: int
    hits: int

    @classmethod
    def of(cls, truth: BoolArray, guesses: BoolArray) -> "Tally":
        """Count guesses against the truth."""
        alarms, hits = int((guesses & ~truth).sum()), int((guesses & truth).sum())
        return cls(int((~truth).sum()), alarms, int(truth.sum()), hits)

    @property
    def trials(self) -> int:
        return self.absent + self.present

    @property
    def right(self) -> int:
        return self.hits + self.absent - self.false_alarms

    @property
    def success(self) -> float:
        return self.right / self.trials

    def refutes(self, mu: float, *, level: float = LEVEL) -> bool:
        """Return whether such guesses refute the claim of ``mu``; a true claim is refuted with chance below ``level``.

        Three one-sided binomial tests share the level: all guesses against :func:`guess_bound`; and hits against
        :func:`power_bound` at the highest false alarm rate that the alarms allow (Clopper-Pearson), both ways
        round, which catches an attack that is seldom sure but then never wrong.
        """
        share = level / 3
        if _at_least(self.right, self.trials, guess_bound(mu)) < share:
            return True
        misses, rejections = self.present - self.hits, self.absent - self.false_alarms
        return _exceeds(self.false_alarms, self.absent, self.hits, self.present, mu, share) or _exceeds(
            misses, self.present, rejections, self.absent, mu, share
        )


def refutation_power(trials: int, *, claimed: float, true: float, level: float = LEVEL) -> float:
    """Return how surely the best attack on a mechanism of parameter ``true`` refutes ``claimed``."""
    enough = int(stats.binom.isf(level / 3, trials, guess_bound(claimed))) + 1
    return _at_least(enough, trials, guess_bound(true))


def decide(scores: npt.ArrayLike, rng: np.random.Generator) -> BoolArray:
    """Decide by scores: positive means "present", negative "absent", and 0 (or none at all) tosses a coin."""
    values = np.atleast_1d(np.asarray(scores, dtype=np.float64))
    coins = rng.random(values.shape) < 0.5
    return np.where((values == 0) | np.isnan(values), coins, values > 0)


def contest(
    publish: Callable[[int], Published],
    attacks: Mapping[str, Callable[[Published], float]],
    *,
    trials: int,
    rng: np.random.Generator,
) -> dict[str, Tally]:
    """Publish input 0 or 1 by the toss of a coin, ``trials`` times, and let every attack score every release."""
    truth = rng.random(trials) < 0.5
    releases = (publish(int(world)) for world in truth)
    scores = np.array([[attack(release) for attack in attacks.values()] for release in releases])
    return {name: Tally.of(truth, decide(scores[:, at], rng)) for at, name in enumerate(attacks)}


def duel(
    publish: Callable[[int], Published], attack: Callable[[Published], float], *, trials: int, rng: np.random.Generator
) -> Tally:
    """A contest of one attack."""
    return contest(publish, {"": attack}, trials=trials, rng=rng)[""]


def _exceeds(alarms: int, absent: int, hits: int, present: int, mu: float, level: float) -> bool:
    if absent == 0 or present == 0:
        return False
    rate = 1.0 if alarms == absent else float(stats.beta.isf(level / 2, alarms + 1, absent - alarms))
    return _at_least(hits, present, power_bound(rate, mu)) < level / 2


def _at_least(count: int, trials: int, chance: float) -> float:
    return float(stats.binom.sf(count - 1, trials, chance))
