"""Empirical lower bounds on ε: run the real mechanism on a worst-case pair and see how well it can be told apart.

An audit that finds more than the claim proves the claim wrong; one that finds almost as much shows that the noise is
neither less nor more than claimed. The adversary knows everything but one rating (or one user), E included, and runs
the best test there is, the likelihood ratio.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainccinv, expit, ndtr, ndtri

from pricdr.arrays import BoolArray, Float64Array, IntArray
from pricdr.data.csr import sp
from pricdr.errors import ParameterError, require_count, require_positive, require_probability
from pricdr.privacy.accounting import Guarantee, Unit, epsilon_of
from pricdr.privacy.mechanism import Run, Secrets, on_grid, release_rows
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.steps import UNITS_PER_STEP, Bounds, CalibratedStep, Declared, calibrate, total_mu
from pricdr.privacy.strategies.base import Projection, Strategy
from pricdr.privacy.sums import directions, noisy_sums, whole_guide
from pricdr.progress import Progress, silent
from pricdr.randomness import Secret, Simulation

_CELLS_PER_BATCH: Final = 1 << 22
_CROWD: Final = 100
"""Raters who share a direction: its vector is then 0.995 long, and so is nearly the whole shift."""
_PRIOR: Final = 0.0  # the constant under the root; smaller is worse, and the bound holds for any


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism under audit: its calibrated steps and what is claimed of them together."""

    strategy: Strategy
    declared: Declared
    calibrated: tuple[CalibratedStep, ...]
    delta: float
    claimed_epsilon: float
    claimed_mu: float

    def __post_init__(self) -> None:
        require_probability(delta=self.delta)
        require_positive(claimed_epsilon=self.claimed_epsilon, claimed_mu=self.claimed_mu)

    @classmethod
    def of(cls, guarantee: Guarantee, strategy: Strategy, bounds: Bounds, *, users: int = 1000) -> "Subject":
        """Return what :func:`pricdr.publish` would run."""
        if strategy.dim is None:
            raise ParameterError("an audit needs a dimension: give --dim a number")
        periods = 1 if guarantee.window is None else guarantee.window.periods
        declared = Declared(bounds=bounds, unit=guarantee.unit, users=users, periods=periods)
        calibrated = calibrate(strategy.steps(declared), guarantee, bounds)
        return cls(
            strategy=strategy,
            declared=declared,
            calibrated=calibrated,
            delta=guarantee.delta,
            claimed_epsilon=guarantee.epsilon,
            claimed_mu=total_mu(calibrated),
        )


@dataclass(frozen=True)
class Finding:
    """What an audit found."""

    claimed_epsilon: float
    lower_bound: float  # ε is at least this, with the stated confidence
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
    A Gaussian mechanism forces Φ⁻¹(1 − α) − Φ⁻¹(β) <= μ, so that bounds μ, and with the exact profile ε, from below.
    """
    require_count(draws=draws)
    require_probability(confidence=confidence)
    half = -(-draws // 2)
    threshold = subject.claimed_mu / 2  # fixed before anything is drawn
    pair = worst_pair(subject)
    false_alarms = int((scores_of(pair, np.zeros(half, dtype=bool), "one side", progress) > threshold).sum())
    misses = int((scores_of(pair, np.ones(half, dtype=bool), "other side", progress) <= threshold).sum())
    allowance = (1 - confidence) / 2
    alpha, beta = (largest_rate(errors, half, allowance) for errors in (false_alarms, misses))
    mu = max(0.0, -float(ndtri(alpha) + ndtri(beta)))
    return Finding(subject.claimed_epsilon, epsilon_of(mu, subject.delta), confidence, 2 * half)


def audit_one_run(
    subject: Subject, *, canaries: int = 100_000, confidence: float = 0.95, progress: Progress = silent
) -> Finding:
    """Guess which of many canaries, each present by the toss of a coin, are in one publication (Steinke et al. 2023).

    It assumes nothing about the mechanism, so how much of the claim it can reach depends on the canaries and on δ.
    """
    require_count(canaries=canaries)
    require_probability(confidence=confidence)
    coins = (Secret().stream("coins").read(0, canaries) & 1).astype(bool)
    scores = scores_of(worst_pair(subject), coins, "canaries", progress) - subject.claimed_mu / 2
    guesses = guesses_for(subject.claimed_mu, canaries, subject.delta, confidence)
    boldest = np.argsort(-np.abs(scores))[:guesses]
    correct = int(((scores[boldest] > 0) == coins[boldest]).sum())
    bound = one_run_bound(canaries, guesses, correct, subject.delta, confidence)
    return Finding(subject.claimed_epsilon, bound, confidence, canaries)


@dataclass(frozen=True, eq=False)
class Shift:
    """How far what two neighbouring inputs give without noise is apart, in grid steps, where it differs."""

    change: IntArray
    sigma: float
    refinement: int


def worst_case(one: CalibratedStep, strategy: Strategy, declared: Declared) -> Shift:
    """Return the largest shift that is known for a step of this kind."""
    if one.step.spread is None:
        assert isinstance(strategy, Projection), "steps that round nothing are those of projections"
        numbers = _projected(one, strategy, declared)
    else:
        numbers = _summed(one, declared)
    without, present = (np.rint(rows / one.grid.step).astype(np.int64).ravel() for rows in numbers)
    change = present - without
    return Shift(change[change != 0], one.grid.sigma / one.grid.step, one.grid.refinement)


def _projected(one: CalibratedStep, strategy: Projection, declared: Declared) -> list[Float64Array]:
    """Return rows without and with a rating of the item of the longest row, or all ratings of a user."""
    bounds, radius = declared.bounds, one.grid.radius(declared.bounds)
    if declared.unit is Unit.RATING:
        with Secret() as fresh:
            rows = on_grid(strategy.example_rows(fresh), radius=radius)
        longest = int(np.argmax(np.einsum("ij,ij->i", rows.astype(np.float64), rows)))
        rows, users = rows[longest : longest + 1], [[0], [bounds.levels]]
    else:
        # Many rows that point one way. The guarantee is for every E, so it must hold for this one.
        assert bounds.clip is not None
        many = 1 + math.ceil(bounds.clip / bounds.largest)
        if many > 1_000_000:
            raise ParameterError(f"clip {bounds.clip:g} is too many ratings to audit")
        direction = np.eye(1, one.step.numbers, dtype=np.float32)
        rows = np.repeat(on_grid(direction, radius=radius), many, axis=0)
        users = [[0] * many, [bounds.levels] * many]
    matrices = (sp.csr_array(np.array([user], dtype=np.int32)) for user in users)
    published = (release_rows(matrix, rows, grid=one.grid, bounds=bounds, noise=None) for matrix in matrices)
    return [numbers.astype(np.float64) for numbers in published]


def _summed(one: CalibratedStep, declared: Declared) -> list[Float64Array]:
    """Return sums without and with a rating, or all ratings of a user, in one period where there are several.

    Directions are learnt from two crowds of users, one for each way.
    """
    bounds, step, by_user = declared.bounds, one.step, declared.unit is not Unit.RATING
    value = bounds.rating_step / (UNITS_PER_STEP if by_user else 1)
    change = bounds.most_units if by_user else bounds.levels
    # Of a last column that counts ratings, where the step has one.
    weight = math.sqrt(max(0.0, (step.sensitivity / declared.change) ** 2 - 1))
    guide = np.zeros((2 * _CROWD + 1, step.numbers - (weight > 0)))
    guide[:_CROWD, 0], guide[_CROWD : 2 * _CROWD, 0] = 1.0, -1.0
    sums = []
    for last in ([0, 0], [change, 0]):
        world = np.zeros((len(guide), 2), dtype=np.int64)
        world[:_CROWD, 0] = world[_CROWD : 2 * _CROWD, 1] = change
        world[-1] = last
        matrix = sp.csr_array(world)
        if step.learnt:
            vectors = directions(matrix, whole_guide(guide), value=value, prior=_PRIOR, secrets=Secrets())
        else:
            matrix, vectors = matrix[-1:], guide[[0, _CROWD]]
        if weight:
            vectors = np.column_stack([vectors, np.full(len(vectors), weight)])
        run = Run((one,), Simulation(0), noisy=False)
        sums.append(noisy_sums(matrix, vectors, run, step.name, value=value, secrets=Secrets()))
    return sums


def worst_pair(subject: Subject) -> list[Shift]:
    """Return what every step gives for the two neighbouring inputs that are furthest apart.

    The adversary is shown all of it, as the accounting allows for, and not only the published rows.
    """
    pair = [worst_case(one, subject.strategy, subject.declared) for one in subject.calibrated]
    if not distance(pair):
        raise ParameterError("rounding hides every change beside so much noise: there is nothing to audit")
    return pair


def distance(shifts: Sequence[Shift]) -> float:
    """Return how far apart two inputs are, in standard deviations of the noise."""
    return math.hypot(*(float(np.linalg.norm(shift.change.astype(np.float64))) / shift.sigma for shift in shifts))


def scores_of(pair: Sequence[Shift], present: BoolArray, what: str, progress: Progress) -> Float64Array:
    """Return a likelihood-ratio score per noisy run: standard normal without the change, shifted by μ with it."""
    batch = max(1, _CELLS_PER_BATCH // sum(len(shift.change) for shift in pair))
    scores, whole = np.zeros(len(present)), distance(pair)
    for start in range(0, len(present), batch):
        runs = present[start : start + batch]
        with Secret() as fresh:
            for number, shift in enumerate(pair):
                noise = DiscreteGaussian(fresh, f"audit {number}", refinement=shift.refinement)
                drawn = noise.draw(0, len(runs) * len(shift.change)).reshape(len(runs), -1)
                # Log-likelihood ratios, up to a constant.
                ratios = (drawn + runs[:, None] * shift.change) @ (shift.change / shift.sigma**2)
                scores[start : start + len(runs)] += ratios / whole
        progress(what, min(start + batch, len(present)), len(present))
    return scores


def largest_rate(errors: int, trials: int, allowance: float) -> float:
    """Return the largest error rate that still makes so few errors with probability ``allowance`` (Clopper-Pearson)."""
    return 1.0 if errors >= trials else float(betainccinv(errors + 1, trials - errors, allowance))


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the chance of so many correct guesses under (ε, δ)-privacy (Steinke et al. 2023, Theorem 5.2)."""
    from scipy.stats import binom  # half a second to import, and nothing else here needs it

    # Every guess is right with chance e^ε / (1 + e^ε) at most. Wrong ones are counted: their chance keeps its digits.
    wrong, chance = np.arange(guesses - correct + 1, guesses + 1), expit(-epsilon)
    short_by = np.cumsum(binom.pmf(wrong, guesses, chance))  # P(short of so many by 1, by 1 or 2, …)
    gaps = short_by / np.arange(1, correct + 1)
    at_least = binom.cdf(guesses - correct, guesses, chance)
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

    def chances(cut: float) -> tuple[float, float]:  # of |score − μ/2| above the cut, and right; and wrong
        return float(ndtr(mu / 2 - cut)), float(ndtr(-mu / 2 - cut))

    best = (-1.0, 1)
    for guesses in np.unique(np.geomspace(min(10, canaries), canaries, 25).astype(int)):
        cut = brentq(lambda cut, share: sum(chances(cut)) - share, -1.0, mu + 40, args=(guesses / canaries,))
        right, wrong = chances(cut)
        correct = math.floor(guesses * right / (right + wrong))
        best = max(best, (one_run_bound(canaries, int(guesses), correct, delta, confidence), int(guesses)))
    return best[1]
