"""Trials of the attacks on rows: E is known, every user is a trial, only the noise is secret."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.arrays import BoolArray
from pricdr.randomness import Secret
from tests.attacks import flawed
from tests.attacks.evidence import FloatArray, Tally, decide
from tests.attacks.projection import Worlds
from tests.attacks.rows import likelihood_ratio
from tests.attacks.target import Opened, Setting, item_names, mixed

Score: TypeAlias = Callable[[npt.ArrayLike, FloatArray, FloatArray], FloatArray]
"""(published, what is expected if absent, if present) → a score per user."""

_ITEMS: Final = 50
"""Items of the flawed variants here."""


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
    truth, scores = _coins(trials, rng), np.zeros(trials)
    for _ in range(releases):
        with Secret() as secret, Secret() as noise:
            opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret, noise_scale=noise_scale)
            worlds = opened.neighbours(trials, rng)
            published = opened.release(mixed(worlds, truth), noise)
        scores += score(published, *map(opened.signal, worlds))
    return Tally.of(truth, decide(scores, rng))


def row_attack_flawed(
    item_rows: FloatArray, sigma: float, score: Score = likelihood_ratio, *, trials: int, rng: np.random.Generator
) -> Tally:
    """The same attack on double-precision noise."""
    worlds, truth = _single_ratings(trials, rng), _coins(trials, rng)
    published = flawed.float_noise_release(_mixed(worlds, truth), item_rows, sigma=sigma, rng=rng)
    expected = (np.asarray(sp.csr_array(world) @ item_rows) for world in worlds)  # in the order of the publisher
    return Tally.of(truth, decide(score(published, *expected), rng))


def noise_reuse_flawed(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """Who gained a rating between two releases from one seed? Their difference is free of noise."""
    item_rows = unit_rows(setting.dim, rng)
    worlds, truth = _single_ratings(trials, rng), _coins(trials, rng)
    first, second = flawed.reused_noise_releases(
        worlds[0], _mixed(worlds, truth), item_rows, sigma=setting.sigma, rng=rng
    )
    change = (worlds[1] - worlds[0]) @ item_rows
    return Tally.of(truth, decide(likelihood_ratio(second - first, np.zeros_like(change), change), rng))


def noise_reuse_ours(setting: Setting, *, trials: int, rng: np.random.Generator, misused: bool = False) -> Tally:
    """The same question to two releases of ours over one known E; ``misused``: both with one noise, which cheats."""
    with ExitStack() as secrets:
        secret, noise, fresh = (secrets.enter_context(Secret()) for _ in range(3))
        opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret)
        worlds, truth = opened.neighbours(trials, rng), _coins(trials, rng)
        second = opened.release(mixed(worlds, truth), noise if misused else fresh)
        difference = second.astype(np.float64) - opened.release(worlds[0], noise)
    change = opened.signal(worlds[1]) - opened.signal(worlds[0])
    return Tally.of(truth, decide(likelihood_ratio(difference, np.zeros_like(change), change), rng))


def differencing_flawed(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """A rating that is in both of two releases or in neither, where each release states the price of one."""
    item_rows = unit_rows(setting.dim, rng)
    worlds, truth = _single_ratings(trials, rng), _coins(trials, rng)
    news = (rng.random(worlds[0].shape) < 0.02) * (1 - worlds[1])
    before = _mixed(worlds, truth)
    first, second = flawed.unaccounted_releases(before, before + news, item_rows, sigma=setting.sigma, rng=rng)
    absent, present = (world @ item_rows for world in worlds)
    scores = likelihood_ratio(first, absent, present)
    scores += likelihood_ratio(second - news @ item_rows, absent, present)
    return Tally.of(truth, decide(scores, rng))


def unit_rows(dim: int, rng: np.random.Generator) -> FloatArray:
    rows = rng.standard_normal((_ITEMS, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def gaussian_rows(dim: int, rng: np.random.Generator) -> FloatArray:
    """Return item rows as the reference code draws them: of norm about 1."""
    return rng.standard_normal((_ITEMS, dim)) / math.sqrt(dim)


def _coins(trials: int, rng: np.random.Generator) -> BoolArray:
    return rng.random(trials) < 0.5


def _single_ratings(users: int, rng: np.random.Generator) -> Worlds:
    absent = (rng.random((users, _ITEMS)) < 0.1).astype(np.float64)
    at = np.arange(users), rng.integers(_ITEMS, size=users)
    present = absent.copy()
    absent[at], present[at] = 0, 1
    return absent, present


def _mixed(worlds: Worlds, truth: BoolArray) -> FloatArray:
    return np.where(truth[:, None], worlds[1], worlds[0])
