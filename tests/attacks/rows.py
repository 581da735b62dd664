"""Attacks on single rows, by an adversary who knows E and everything but one user's secret: each row is a trial."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.arrays import BoolArray, Float64Array
from pricdr.randomness import Secret
from tests.attacks import flawed
from tests.attacks.evidence import Tally, decide
from tests.attacks.target import Opened, Setting, item_names, mixed

Score: TypeAlias = Callable[[npt.ArrayLike, Float64Array, Float64Array], Float64Array]
"""(published, what is expected if absent, if present) → a score per user."""

_ITEMS: Final = 50
"""Items of the flawed variants here."""


def likelihood_ratio(published: npt.ArrayLike, absent: Float64Array, present: Float64Array) -> Float64Array:
    """Return per row the log-likelihood ratio (times 2σ²) of two signals under Gaussian noise: no test beats its sign.

    It is exact for the discrete Gaussian too, whose log-probabilities are the same squares on the grid.

    >>> likelihood_ratio([[0.9, 0.0]], np.array([[0.0, 0.0]]), np.array([[1.0, 0.0]]))
    array([0.8])
    """
    rows = np.asarray(published, dtype=np.float64)
    return ((rows - absent) ** 2 - (rows - present) ** 2).sum(axis=1)


def low_bits(published: npt.ArrayLike, absent: Float64Array, present: Float64Array, sigma: float) -> Float64Array:
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


def _impossible(published: Float64Array, signal: Float64Array, sigma: float) -> Float64Array:
    """Return values per row that no signal + σ·z rounds to, where the noise is not finer than the value itself."""
    noise = published - signal
    possible = np.zeros(published.shape, dtype=bool)
    for near in _neighbouring_doubles(noise):
        possible |= (signal + near == published) & _is_scaled(near, sigma)
    telling = np.spacing(np.abs(published)) <= np.spacing(np.abs(noise))
    return np.sum(telling & ~possible, axis=1, dtype=np.float64)


def _is_scaled(noise: Float64Array, sigma: float) -> npt.NDArray[np.bool_]:
    """Return whether a double is sigma times another, rounded."""
    hit = np.zeros(noise.shape, dtype=bool)
    for near in _neighbouring_doubles(noise / sigma):
        hit |= sigma * near == noise
    return hit


def _neighbouring_doubles(values: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
    return np.nextafter(values, -np.inf), values, np.nextafter(values, np.inf)


def row_attack_ours(
    setting: Setting,
    score: Score = likelihood_ratio,
    *,
    trials: int,
    rng: np.random.Generator,
    noise_scale: float = 1.0,
    releases: int = 1,
) -> Tally:
    """Score with everything known but one rating (or one user's profile); by likelihood ratio no attack is better.

    Several releases of the same ratings have item rows and noise of their own; a ``noise_scale`` below 1 cheats.
    """
    truth, scores = rng.random(trials) < 0.5, np.zeros(trials)
    for _ in range(releases):
        with Secret() as secret, Secret() as noise:
            opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret, noise_scale=noise_scale)
            worlds = opened.neighbours(trials, rng)
            published = opened.release(mixed(worlds, truth), noise)
        scores += score(published, *map(opened.signal, worlds))
    return Tally.of(truth, decide(scores, rng))


def row_attack_flawed(
    item_rows: Float64Array, sigma: float, score: Score = likelihood_ratio, *, trials: int, rng: np.random.Generator
) -> Tally:
    """The same attack on double-precision noise."""
    worlds, truth, given = _single_ratings(trials, rng)
    published = flawed.float_noise_release(given, item_rows, sigma=sigma, rng=rng)
    expected = (np.asarray(sp.csr_array(world) @ item_rows) for world in worlds)  # in the order of the publisher
    return Tally.of(truth, decide(score(published, *expected), rng))


def noise_reuse_flawed(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """Who gained a rating between two releases from one seed? FLAWED: their difference is free of noise."""
    item_rows = unit_rows(setting.dim, rng)
    worlds, truth, given = _single_ratings(trials, rng)
    noise = setting.sigma * rng.standard_normal((trials, setting.dim))
    first, second = (ratings @ item_rows + noise for ratings in (worlds[0], given))
    change = (worlds[1] - worlds[0]) @ item_rows
    return Tally.of(truth, decide(likelihood_ratio(second - first, np.zeros_like(change), change), rng))


def noise_reuse_ours(setting: Setting, *, trials: int, rng: np.random.Generator, misused: bool = False) -> Tally:
    """The same question to two releases of ours over one known E; ``misused``: both with one noise, which cheats."""
    with ExitStack() as secrets:
        secret, noise, fresh = (secrets.enter_context(Secret()) for _ in range(3))
        opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret)
        worlds, truth = opened.neighbours(trials, rng), rng.random(trials) < 0.5
        second = opened.release(mixed(worlds, truth), noise if misused else fresh)
        difference = second.astype(np.float64) - opened.release(worlds[0], noise)
    change = opened.signal(worlds[1]) - opened.signal(worlds[0])
    return Tally.of(truth, decide(likelihood_ratio(difference, np.zeros_like(change), change), rng))


def differencing_flawed(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """A rating that is in both of two releases or in neither, where each release states the price of one.

    FLAWED because nobody adds up: together they have √2 times the μ that either states.
    """
    item_rows = unit_rows(setting.dim, rng)
    worlds, truth, before = _single_ratings(trials, rng)
    news = (rng.random(worlds[0].shape) < 0.02) * (1 - worlds[1])
    first, second = (
        flawed.float_noise_release(ratings, item_rows, sigma=setting.sigma, rng=rng)
        for ratings in (before, before + news)
    )
    absent, present = (world @ item_rows for world in worlds)
    scores = likelihood_ratio(first, absent, present)
    scores += likelihood_ratio(second - news @ item_rows, absent, present)
    return Tally.of(truth, decide(scores, rng))


def unit_rows(dim: int, rng: np.random.Generator) -> Float64Array:
    rows = rng.standard_normal((_ITEMS, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def gaussian_rows(dim: int, rng: np.random.Generator) -> Float64Array:
    """Return item rows as the reference code draws them: of norm about 1."""
    return rng.standard_normal((_ITEMS, dim)) / math.sqrt(dim)


def _single_ratings(
    users: int, rng: np.random.Generator
) -> tuple[tuple[Float64Array, Float64Array], BoolArray, Float64Array]:
    """Return ratings without and with one that the adversary is after, who has it by the toss of a coin, and those."""
    absent = (rng.random((users, _ITEMS)) < 0.1).astype(np.float64)
    at = np.arange(users), rng.integers(_ITEMS, size=users)
    present = absent.copy()
    absent[at], present[at] = 0, 1
    truth = rng.random(users) < 0.5
    return (absent, present), truth, np.where(truth[:, None], present, absent)
