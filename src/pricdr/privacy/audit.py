"""Empirical lower bounds on ε: run the real mechanism on a worst-case pair and see how well it can be told apart.

An audit that finds more than the claim proves the claim wrong; one that finds almost as much shows that the noise is
neither less nor more than claimed. The adversary knows everything but one rating (or one user), E included, and runs
the best test there is, the likelihood ratio.
"""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import bdtrc, betaincinv, expit, ndtr, ndtri

from pricdr.blocks import Progress, silent
from pricdr.data.ratings import CSR
from pricdr.errors import ParameterError, require_count, require_positive, require_probability
from pricdr.privacy.bounds import Bounds
from pricdr.privacy.calibration import epsilon_of, sigma_for
from pricdr.privacy.guarantee import Guarantee, Unit
from pricdr.privacy.mechanism import Grid, Int32Array, on_grid, release_rows
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.strategies import Strategy
from pricdr.randomness import Secret

FloatArray: TypeAlias = npt.NDArray[np.float64]

_CATALOGUE: Final = tuple(f"item {number}" for number in range(500))
_CELLS_PER_BATCH: Final = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism under audit, as its parameters describe it."""

    strategy: Strategy
    """With its dimension settled."""
    bounds: Bounds
    unit: Unit
    grid: Grid
    delta: float
    claimed_epsilon: float
    claimed_mu: float

    def __post_init__(self) -> None:
        require_probability(delta=self.delta)
        require_positive(claimed_epsilon=self.claimed_epsilon, claimed_mu=self.claimed_mu)

    @classmethod
    def of(cls, guarantee: Guarantee, strategy: Strategy, bounds: Bounds, *, noise_scale: float = 1.0) -> "Subject":
        """What :func:`pricdr.publish` would run for this guarantee; a ``noise_scale`` other than 1 makes it wrong."""
        if strategy.dim is None:
            raise ParameterError("an audit needs a dimension: give --dim a number")
        sensitivity = bounds.sensitivity(guarantee.unit)
        sigma = sigma_for(guarantee.epsilon, guarantee.delta, sensitivity=sensitivity, dim=strategy.dim)
        return cls(
            strategy=strategy,
            bounds=bounds,
            unit=guarantee.unit,
            grid=Grid.for_noise(sigma * noise_scale, bounds=bounds, dim=strategy.dim),
            delta=guarantee.delta,
            claimed_epsilon=guarantee.epsilon,
            claimed_mu=sensitivity / sigma,
        )


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
    """The likelihood-ratio test on a worst-case neighbouring pair, half of the draws on either side.

    Both error rates of the test at the midpoint are bounded from above (Clopper-Pearson, half of the allowance each).
    A Gaussian mechanism with parameter μ forces Φ⁻¹(1 − α) − Φ⁻¹(β) <= μ, so the bounds on the rates give a lower
    bound on μ, and ε at the subject's δ follows from the exact profile.
    """
    require_count(draws=draws)
    require_probability(confidence=confidence)
    half = -(-draws // 2)
    threshold = subject.claimed_mu / 2  # fixed before anything is drawn
    pair = _Pair.of(subject)
    false_alarms = int((pair.scores(np.zeros(half, dtype=bool), "one side", progress) > threshold).sum())
    misses = int((pair.scores(np.ones(half, dtype=bool), "other side", progress) <= threshold).sum())
    allowance = (1 - confidence) / 2
    alpha, beta = (_largest_rate(errors, half, allowance) for errors in (false_alarms, misses))
    mu = max(0.0, -float(ndtri(alpha)) - float(ndtri(beta)))
    return Finding(subject.claimed_epsilon, epsilon_of(mu, subject.delta), confidence, 2 * half)


def audit_one_run(
    subject: Subject, *, canaries: int = 100_000, confidence: float = 0.95, progress: Progress = silent
) -> Finding:
    """Many canaries in one publication, each present by the toss of a coin; guess which were (Steinke et al. 2023).

    It assumes nothing about the mechanism, which costs: how much of the claim it can reach depends on the number of
    canaries and, through mδ, on δ. The number of guesses is fixed beforehand, as the best for the claimed μ.
    """
    require_count(canaries=canaries)
    require_probability(confidence=confidence)
    coins = (Secret().stream("coins").read(0, canaries) & 1).astype(bool)
    scores = _Pair.of(subject).scores(coins, "canaries", progress) - subject.claimed_mu / 2
    guesses = _guesses_for(subject.claimed_mu, canaries, subject.delta, confidence)
    boldest = np.argsort(-np.abs(scores))[:guesses]
    correct = int(((scores[boldest] > 0) == coins[boldest]).sum())
    bound = _one_run_bound(canaries, guesses, correct, subject.delta, confidence)
    return Finding(subject.claimed_epsilon, bound, confidence, canaries)


@dataclass(frozen=True)
class _Pair:
    """Two neighbouring inputs of one user, as far apart as the unit allows, and the real mechanism to run them."""

    subject: Subject
    rows: Int32Array
    without: CSR
    having: CSR

    @classmethod
    def of(cls, subject: Subject) -> "_Pair":
        radius = subject.grid.radius(subject.bounds)
        if subject.unit is Unit.RATING:
            with Secret() as fresh:
                rows = on_grid(subject.strategy.item_rows(_CATALOGUE, fresh, silent), radius=radius)
            longest = int(np.argmax(np.einsum("ij,ij->i", rows.astype(np.float64), rows)))
            return cls(subject, rows[longest : longest + 1], _entries([0]), _entries([subject.bounds.levels]))
        # Two users whose profiles point in opposite directions and both reach the clip: rows e and −e, many of each.
        # The guarantee is for every E, so it must hold for this one.
        assert subject.bounds.clip is not None
        assert subject.strategy.dim is not None
        many = 1 + math.ceil(subject.bounds.clip / subject.bounds.largest)
        if many > 1_000_000:
            raise ParameterError(f"clip {subject.bounds.clip:g} is too many ratings to audit")
        direction = np.zeros((1, subject.strategy.dim), dtype=np.float32)
        direction[0, 0] = 1.0
        rows = on_grid(np.concatenate([direction, -direction]), radius=radius)
        full, none = [subject.bounds.levels] * many, [0] * many
        return cls(subject, np.repeat(rows, many, axis=0), _entries(none + full), _entries(full + none))

    def scores(self, present: npt.NDArray[np.bool_], what: str, progress: Progress) -> FloatArray:
        """The likelihood-ratio score of one run each: standard normal without the change, shifted by μ with it."""
        subject = self.subject
        low, high = (self._run(entries, None)[0].astype(np.float64) for entries in (self.without, self.having))
        axis = (high - low) / np.linalg.norm(high - low) / subject.grid.sigma
        batch = max(1, _CELLS_PER_BATCH // self.rows.shape[1])
        scores = np.empty(len(present))
        for start in range(0, len(present), batch):
            part = present[start : start + batch]
            inputs = sp.vstack([self.without, self.having], format="csr")[part.astype(np.int64)]
            with Secret() as fresh:
                noise = DiscreteGaussian(fresh, "audit", refinement=subject.grid.refinement)
                scores[start : start + len(part)] = self._run(inputs, noise) @ axis - low @ axis
            progress(what, min(start + batch, len(present)), len(present))
        return scores

    def _run(self, entries: CSR, noise: DiscreteGaussian | None) -> npt.NDArray[np.float32]:
        return release_rows(entries, self.rows, grid=self.subject.grid, bounds=self.subject.bounds, noise=noise)


def _entries(row: list[int]) -> CSR:
    return sp.csr_array(np.array([row], dtype=np.int32))


def _largest_rate(errors: int, trials: int, allowance: float) -> float:
    """Clopper-Pearson: the largest error rate that still makes so few errors with probability ``allowance``.

    >>> f"{_largest_rate(0, 100, 0.05):.4f}"
    '0.0295'
    """
    return 1.0 if errors >= trials else float(betaincinv(errors + 1, trials - errors, 1 - allowance))


def _one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Probability of so many correct guesses under (ε, δ)-privacy: Steinke, Nasr and Jagielski 2023, Theorem 5.2."""
    chance = float(expit(epsilon))
    at_least = np.ones(correct + 1)  # P(at least v correct) for v = 0 … correct
    at_least[1:] = bdtrc(np.arange(correct), guesses, chance)
    gaps = (at_least[correct - 1 :: -1] - at_least[correct]) / np.arange(1, correct + 1) if correct else np.zeros(1)
    return float(min(1.0, at_least[correct] + 2 * canaries * delta * gaps.max()))


def _one_run_bound(canaries: int, guesses: int, correct: int, delta: float, confidence: float) -> float:
    """The largest ε that so many correct guesses refute."""
    low, high = 0.0, 64.0
    if _one_run_p_value(canaries, guesses, correct, low, delta) > 1 - confidence:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        refuted = _one_run_p_value(canaries, guesses, correct, middle, delta) <= 1 - confidence
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _guesses_for(mu: float, canaries: int, delta: float, confidence: float) -> int:
    """How many of the boldest guesses to make: what would give the best bound if μ were as claimed."""
    best = (-1.0, 1)
    for guesses in np.unique(np.geomspace(10, canaries, 25).astype(int)):
        # boldest guesses: |score − μ/2| above t, where the two-sided tail holds guesses/canaries of the mass
        low, high = 0.0, 40.0
        for _ in range(60):
            cut = (low + high) / 2
            right, wrong = float(ndtr(mu / 2 - cut)), float(ndtr(-mu / 2 - cut))
            low, high = (cut, high) if (right + wrong) * canaries > guesses else (low, cut)
        correct = math.floor(guesses * right / (right + wrong)) if right + wrong > 0 else 0
        best = max(best, (_one_run_bound(canaries, int(guesses), correct, delta, confidence), int(guesses)))
    return best[1]
