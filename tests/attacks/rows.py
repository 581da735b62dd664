"""Attacks on single rows, by an adversary who knows E and everything but one user's secret: each row is a trial."""

import numpy as np
import numpy.typing as npt

from tests.attacks.evidence import FloatArray


def likelihood_ratio(published: npt.ArrayLike, absent: FloatArray, present: FloatArray) -> FloatArray:
    """Return per row the log-likelihood ratio (times 2σ²) of two signals under Gaussian noise: no test beats its sign.

    It is exact for the discrete Gaussian too, whose log-probabilities are the same squares on the grid.

    >>> likelihood_ratio([[0.9, 0.0]], np.array([[0.0, 0.0]]), np.array([[1.0, 0.0]]))
    array([0.8])
    """
    rows = np.asarray(published, dtype=np.float64)
    return ((rows - absent) ** 2 - (rows - present) ** 2).sum(axis=1)


def low_bits(published: npt.ArrayLike, absent: FloatArray, present: FloatArray, sigma: float) -> FloatArray:
    """Return per row how many more values ``absent`` makes impossible than ``present`` does, by their last bits.

    A published double is the rounded sum of a signal and σ times a double z. Under the right signal some z fits
    every value; under a wrong one the difference is a double like any other, and not every double is σ times one.
    """
    rows = np.asarray(published, dtype=np.float64)
    return _impossible(rows, absent, sigma) - _impossible(rows, present, sigma)


def residue_counts(steps: npt.NDArray[np.int64], modulus: int) -> npt.NDArray[np.int64]:
    """Return how often each residue occurs among integers: the last bits of values published in grid steps.

    >>> residue_counts(np.array([0, 1, 5, -1]), 4).tolist()
    [1, 2, 0, 1]
    """
    return np.bincount(np.mod(steps, modulus).ravel(), minlength=modulus)


def _impossible(published: FloatArray, signal: FloatArray, sigma: float) -> FloatArray:
    """Return values per row that no signal + σ·z rounds to, where the noise is not finer than the value itself."""
    noise = published - signal
    possible = np.zeros(published.shape, dtype=bool)
    for near in _neighbouring_doubles(noise):
        possible |= (signal + near == published) & _is_scaled(near, sigma)
    telling = np.spacing(np.abs(published)) <= np.spacing(np.abs(noise))
    return np.sum(telling & ~possible, axis=1, dtype=np.float64)


def _is_scaled(noise: FloatArray, sigma: float) -> npt.NDArray[np.bool_]:
    """Return whether a double is sigma times another, rounded."""
    hit = np.zeros(noise.shape, dtype=bool)
    for near in _neighbouring_doubles(noise / sigma):
        hit |= sigma * near == noise
    return hit


def _neighbouring_doubles(values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    return np.nextafter(values, -np.inf), values, np.nextafter(values, np.inf)
