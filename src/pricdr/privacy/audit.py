"""Empirical lower bounds on ε: run the real mechanism on a worst-case pair and see how well it can be told apart.

An audit that finds more than the claim proves the claim wrong; one that finds almost as much shows that the noise is
neither less nor more than claimed. The adversary knows everything but one rating (or one user), E included, and runs
the best test there is, the likelihood ratio.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, ndtr, ndtri

from pricdr.errors import ParameterError, require_count, require_positive, require_probability
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import epsilon_of
from pricdr.privacy.guarantee import Guarantee
from pricdr.privacy.mechanism import Grid
from pricdr.privacy.steps import Declared, Settled, settle, total_mu
from pricdr.privacy.strategies import Strategy
from pricdr.privacy.sums import Float64Array
from pricdr.privacy.worst_case import Shift, worst_case
from pricdr.progress import Progress, silent
from pricdr.randomness import Secret

_CELLS_PER_BATCH: Final = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism under audit: its settled steps and what is claimed of them together."""

    strategy: Strategy
    """The strategy, its dimension settled."""
    declared: Declared
    settled: tuple[Settled, ...]
    delta: float
    claimed_epsilon: float
    claimed_mu: float

    def __post_init__(self) -> None:
        require_probability(delta=self.delta)
        require_positive(claimed_epsilon=self.claimed_epsilon, claimed_mu=self.claimed_mu)

    @classmethod
    def of(
        cls,
        guarantee: Guarantee,
        strategy: Strategy,
        bounds: Bounds,
        *,
        users: int = 1000,
        items: int | None = None,
        noise_scale: float = 1.0,
    ) -> "Subject":
        """Return what :func:`pricdr.publish` would run; a ``noise_scale`` other than 1 makes it break its promise."""
        if strategy.dim is None:
            raise ParameterError("an audit needs a dimension: give --dim a number")
        declared = Declared(bounds=bounds, unit=guarantee.unit, users=users, items=items)
        settled = settle(strategy.steps(declared), guarantee, bounds)
        return cls(
            strategy=strategy,
            declared=declared,
            settled=tuple(_scaled(one, noise_scale, bounds) for one in settled),
            delta=guarantee.delta,
            claimed_epsilon=guarantee.epsilon,
            claimed_mu=total_mu(settled),
        )


def _scaled(one: Settled, factor: float, bounds: Bounds) -> Settled:
    """Return the same step with noise of another size: its sums as they were, on a grid as many times coarser."""
    if factor == 1.0:
        return one
    grid = one.grid
    if one.step.spread is None:
        return Settled(one.step, Grid.for_noise(factor * grid.sigma, bounds=bounds, dim=one.step.numbers))
    return Settled(one.step, Grid(factor * grid.sigma, factor * grid.step, grid.refinement))


@dataclass(frozen=True)
class Finding:
    """What an audit found."""

    claimed_epsilon: float
    lower_bound: float
    """ε is at least this, with the stated confidence."""
    confidence: float
    draws: int

    @property
    def refutes(self) -> bool:
        """Whether the claim is shown to be wrong."""
        return self.lower_bound > self.claimed_epsilon

    @property
    def share(self) -> float:
        """How much of the claim the audit reached."""
        return self.lower_bound / self.claimed_epsilon


def audit_likelihood_ratio(
    subject: Subject, *, draws: int = 2_000_000, confidence: float = 0.95, progress: Progress = silent
) -> Finding:
    """Run the likelihood-ratio test on a worst-case neighbouring pair, half of the draws on either side.

    Both error rates of the test at the midpoint are bounded from above (Clopper-Pearson, half of the allowance each).
    A Gaussian mechanism with parameter μ forces Φ⁻¹(1 − α) − Φ⁻¹(β) <= μ, so the bounds on the rates give a lower
    bound on μ, and ε at the subject's δ follows from the exact profile.
    """
    require_count(draws=draws)
    require_probability(confidence=confidence)
    half = -(-draws // 2)
    threshold = subject.claimed_mu / 2  # fixed before anything is drawn
    pair = WorstPair.of(subject)
    false_alarms = int((pair.scores(np.zeros(half, dtype=bool), "one side", progress) > threshold).sum())
    misses = int((pair.scores(np.ones(half, dtype=bool), "other side", progress) <= threshold).sum())
    allowance = (1 - confidence) / 2
    alpha, beta = (largest_rate(errors, half, allowance) for errors in (false_alarms, misses))
    mu = max(0.0, -float(ndtri(alpha) + ndtri(beta)))
    return Finding(subject.claimed_epsilon, epsilon_of(mu, subject.delta), confidence, 2 * half)


def audit_one_run(
    subject: Subject, *, canaries: int = 100_000, confidence: float = 0.95, progress: Progress = silent
) -> Finding:
    """Guess which of many canaries, each present by the toss of a coin, are in one publication (Steinke et al. 2023).

    It assumes nothing about the mechanism, which costs: how much of the claim it can reach depends on the number of
    canaries and, through mδ, on δ. The number of guesses is fixed beforehand, as the best for the claimed μ.
    """
    require_count(canaries=canaries)
    require_probability(confidence=confidence)
    coins = (Secret().stream("coins").read(0, canaries) & 1).astype(bool)
    scores = WorstPair.of(subject).scores(coins, "canaries", progress) - subject.claimed_mu / 2
    guesses = guesses_for(subject.claimed_mu, canaries, subject.delta, confidence)
    boldest = np.argsort(-np.abs(scores))[:guesses]
    correct = int(((scores[boldest] > 0) == coins[boldest]).sum())
    bound = one_run_bound(canaries, guesses, correct, subject.delta, confidence)
    return Finding(subject.claimed_epsilon, bound, confidence, canaries)


@dataclass(frozen=True)
class WorstPair:
    """The two neighbouring inputs that are furthest apart, for an adversary who is shown what every step gave.

    That is more than anybody is shown (only published rows leave), and what the accounting allows for.
    """

    shifts: tuple[Shift, ...]

    @classmethod
    def of(cls, subject: Subject) -> "WorstPair":
        """Return the pair that is further apart: a change among the listed users, or among those outside the list."""
        pairs = [
            cls(
                tuple(
                    worst_case(one, subject.strategy, subject.declared)
                    for one in subject.settled
                    if one.step.payer is payer
                )
            )
            for payer in {one.step.payer for one in subject.settled}
        ]
        furthest = max(pairs, key=lambda pair: pair.distance)
        if not furthest.distance:
            raise ParameterError("rounding hides every change beside so much noise: there is nothing to audit")
        return furthest

    @property
    def distance(self) -> float:
        """How far apart the two are, in standard deviations of the noise."""
        return math.hypot(*(shift.distance for shift in self.shifts))

    def scores(self, present: npt.NDArray[np.bool_], what: str, progress: Progress) -> Float64Array:
        """Return a likelihood-ratio score per run: standard normal without the change, shifted by μ with it."""
        batch = max(1, _CELLS_PER_BATCH // sum(len(shift.low) for shift in self.shifts))
        scores = np.empty(len(present))
        for start in range(0, len(present), batch):
            runs = present[start : start + batch]
            with Secret() as fresh:
                total = sum(shift.scores(runs, fresh, number) for number, shift in enumerate(self.shifts))
            scores[start : start + len(runs)] = total / self.distance
            progress(what, min(start + batch, len(present)), len(present))
        return scores


def largest_rate(errors: int, trials: int, allowance: float) -> float:
    """Return the largest error rate that still makes so few errors with probability ``allowance`` (Clopper-Pearson).

    >>> f"{largest_rate(0, 100, 0.05):.4f}"
    '0.0295'
    """
    return 1.0 if errors >= trials else float(betainccinv(errors + 1, trials - errors, allowance))


def guess_probabilities(guesses: int, log_odds: float) -> Float64Array:
    """Return the probabilities of 0, 1, … correct guesses, each correct with these odds.

    >>> guess_probabilities(2, 0.0).tolist()
    [0.25, 0.5, 0.25]
    """
    odds = math.exp(log_odds)
    likeliest = min(guesses, int((guesses + 1) / (1 + 1 / odds)))
    more, fewer = np.arange(likeliest + 1.0, guesses + 1), np.arange(likeliest - 1.0, -1, -1)
    with np.errstate(under="ignore"):  # from the likeliest count outwards, so that no product grows
        above = np.cumprod((guesses + 1 - more) / more * odds)
        below = np.cumprod((fewer + 1) / (guesses - fewer) / odds)
    relative = np.concatenate([below[::-1], [1.0], above])
    return np.asarray(relative / relative.sum())


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the chance of so many correct guesses under (ε, δ)-privacy (Steinke et al. 2023, Theorem 5.2)."""
    # Every guess is right with chance e^ε / (1 + e^ε) at most.
    probabilities = guess_probabilities(guesses, epsilon)
    at_least = probabilities[correct:].sum()
    short_by = np.cumsum(probabilities[:correct][::-1])  # P(short of so many by 1, by 1 or 2, …)
    gaps = short_by / np.arange(1, correct + 1)
    return float(min(1.0, at_least + 2 * canaries * delta * gaps.max(initial=0.0)))


def one_run_bound(canaries: int, guesses: int, correct: int, delta: float, confidence: float) -> float:
    """Return the largest ε that so many correct guesses refute."""
    low, high = 0.0, 64.0
    if one_run_p_value(canaries, guesses, correct, low, delta) > 1 - confidence:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        refuted = one_run_p_value(canaries, guesses, correct, middle, delta) <= 1 - confidence
        low, high = (middle, high) if refuted else (low, middle)
    return low


def guesses_for(mu: float, canaries: int, delta: float, confidence: float) -> int:
    """Return how many of the boldest guesses to make: what would give the best bound if μ were as claimed."""
    best = (-1.0, 1)
    for guesses in np.unique(np.geomspace(10, canaries, 25).astype(int)):
        # boldest guesses: |score − μ/2| above t, where the two-sided tail holds guesses/canaries of the mass
        low, high = 0.0, 40.0
        for _ in range(60):
            cut = (low + high) / 2
            right, wrong = float(ndtr(mu / 2 - cut)), float(ndtr(-mu / 2 - cut))
            low, high = (cut, high) if (right + wrong) * canaries > guesses else (low, cut)
        correct = math.floor(guesses * right / (right + wrong)) if right + wrong > 0 else 0
        best = max(best, (one_run_bound(canaries, int(guesses), correct, delta, confidence), int(guesses)))
    return best[1]
