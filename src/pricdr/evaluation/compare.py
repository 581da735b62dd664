"""Is one model better than another, over the same users? Means, paired intervals and a paired test."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pricdr.errors import InputError
from pricdr.evaluation.metrics import FloatArray
from pricdr.randomness import Simulation

_RESAMPLES: Final = 10_000
_CELLS: Final = 1 << 22


@dataclass(frozen=True)
class Difference:
    """Mean of ``left − right`` over users, with a bootstrap interval and the p-value of a sign-flip test."""

    mean: float
    low: float
    high: float
    p_value: float


def standard_error(values: FloatArray) -> float:
    """Standard error of a mean over users; nan for fewer than two."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def clearly_above(own: FloatArray, other: FloatArray) -> bool:
    """Return whether one model beats another, user by user, by more than a standard error; no for a single user.

    The rule by which every method decides whether a release is worth using.

    >>> clearly_above(np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.5, 0.0])), clearly_above(np.ones(1), np.zeros(1))
    (True, False)
    """
    gain = own - other
    return bool(gain.mean() > standard_error(gain))


def compare(left: FloatArray, right: FloatArray, *, seed: int = 0, confidence: float = 0.95) -> Difference:
    """Compare two models user by user.

    The interval resamples users (percentile bootstrap); the test flips the sign of each user's difference, which is
    exact for "no user prefers either model systematically".

    >>> d = compare(np.array([1.0, 0.0, 1.0, 1.0]), np.array([1.0, 0.0, 1.0, 1.0]))
    >>> d.mean, d.p_value
    (0.0, 1.0)
    """
    if left.shape != right.shape or left.ndim != 1 or not len(left):
        raise InputError(f"two models can be compared over the same users only, got {len(left)} and {len(right)}")
    difference = left - right
    rng = Simulation(seed).generator("comparison")
    n, block = len(difference), max(1, _CELLS // len(difference))
    means, flipped = [], []
    for start in range(0, _RESAMPLES, block):
        size = min(block, _RESAMPLES - start)
        means.append(difference[rng.integers(0, n, (size, n))].mean(axis=1))
        flipped.append((rng.choice([-1.0, 1.0], (size, n)) @ difference) / n)
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(np.concatenate(means), [tail, 100 - tail])
    beyond = (np.abs(np.concatenate(flipped)) >= abs(difference.mean()) - 1e-15).sum()
    return Difference(float(difference.mean()), float(low), float(high), float((beyond + 1) / (_RESAMPLES + 1)))
