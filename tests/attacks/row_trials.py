"""Trials of the attacks on rows: E is known, every user is a trial, only the noise is secret.

Functions named ``…_flawed`` and ``…_ours`` return a tally each; tests run them setting by setting, the table over all.
"""

import math
from typing import Final

import numpy as np
import scipy.sparse as sp

from pricdr.randomness import Secret
from tests.attacks import flawed
from tests.attacks.evidence import BoolArray, FloatArray, Tally, decide
from tests.attacks.projection import Worlds
from tests.attacks.rows import likelihood_ratio, low_bits
from tests.attacks.target import Opened, Setting, item_names, mixed

_ITEMS: Final = 50
"""Items of the flawed variants here."""


def membership_ours(setting: Setting, *, trials: int, rng: np.random.Generator, noise_scale: float = 1.0) -> Tally:
    """Likelihood ratio with everything known but one rating (or one user's profile): the best attack there is."""
    with Secret() as secret, Secret() as noise:
        opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret, noise_scale=noise_scale)
        worlds, truth = opened.neighbours(trials, rng), _coins(trials, rng)
        published = opened.release(mixed(worlds, truth), noise)
    absent, present = (opened.signal(world) for world in worlds)
    return Tally.of(truth, decide(likelihood_ratio(published, absent, present), rng))


def membership_flawed(*, epsilon: float, delta: float, dim: int, trials: int, rng: np.random.Generator) -> Tally:
    """The same attack where the noise follows the reference code, whose ε is meant for each published column."""
    item_rows = rng.standard_normal((_ITEMS, dim)) / math.sqrt(dim)
    sigma = flawed.per_column_w(epsilon, delta, dim=dim) / math.sqrt(dim)
    worlds, truth = _single_ratings(trials, rng), _coins(trials, rng)
    published = flawed.float_noise_release(_mixed(worlds, truth), item_rows, sigma=sigma, rng=rng)
    return Tally.of(truth, decide(likelihood_ratio(published, worlds[0] @ item_rows, worlds[1] @ item_rows), rng))


def low_bits_flawed(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """The last bits of double-precision noise of the right size."""
    item_rows = _unit_rows(setting.dim, rng)
    worlds, truth = _single_ratings(trials, rng), _coins(trials, rng)
    published = flawed.float_noise_release(_mixed(worlds, truth), item_rows, sigma=setting.sigma, rng=rng)
    absent, present = (np.asarray(sp.csr_array(world) @ item_rows) for world in worlds)
    return Tally.of(truth, decide(low_bits(published, absent, present, setting.sigma), rng))


def low_bits_ours(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """The last bits of what we publish."""
    with Secret() as secret, Secret() as noise:
        opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret)
        worlds, truth = opened.neighbours(trials, rng), _coins(trials, rng)
        published = opened.release(mixed(worlds, truth), noise)
    absent, present = (opened.signal(world) for world in worlds)
    return Tally.of(truth, decide(low_bits(published, absent, present, setting.sigma), rng))


def noise_reuse_flawed(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """Who gained a rating between two releases from one seed? Their difference is free of noise."""
    item_rows = _unit_rows(setting.dim, rng)
    worlds, truth = _single_ratings(trials, rng), _coins(trials, rng)
    first, second = flawed.reused_noise_releases(
        worlds[0], _mixed(worlds, truth), item_rows, sigma=setting.sigma, rng=rng
    )
    change = (worlds[1] - worlds[0]) @ item_rows
    return Tally.of(truth, decide(likelihood_ratio(second - first, np.zeros_like(change), change), rng))


def noise_reuse_ours(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """The same question to two releases of ours over one known E: only the second one depends on the answer."""
    with Secret() as secret, Secret() as noise, Secret() as fresh_noise:
        opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret)
        worlds, truth = opened.neighbours(trials, rng), _coins(trials, rng)
        difference = opened.release(mixed(worlds, truth), fresh_noise) - opened.release(worlds[0], noise)
    change = opened.signal(worlds[1]) - opened.signal(worlds[0])
    return Tally.of(truth, decide(likelihood_ratio(difference, np.zeros_like(change), change), rng))


def differencing_flawed(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """A rating that is in both of two releases or in neither, where each release states the price of one."""
    item_rows = _unit_rows(setting.dim, rng)
    worlds, truth = _single_ratings(trials, rng), _coins(trials, rng)
    news = (rng.random(worlds[0].shape) < 0.02) * (1 - worlds[1])
    before = _mixed(worlds, truth)
    first, second = flawed.unaccounted_releases(before, before + news, item_rows, sigma=setting.sigma, rng=rng)
    absent, present = (world @ item_rows for world in worlds)
    scores = likelihood_ratio(first, absent, present)
    scores += likelihood_ratio(second - news @ item_rows, absent, present)
    return Tally.of(truth, decide(scores, rng))


def differencing_ours(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    """The same two releases of ours: what else changed in between is known, E and the noise are drawn afresh."""
    truth, scores = _coins(trials, rng), np.zeros(trials)
    for _ in range(2):
        with Secret() as secret, Secret() as noise:
            opened = Opened.draw(setting, item_names(setting.n_items(trials)), secret)
            worlds = opened.neighbours(trials, rng)
            published = opened.release(mixed(worlds, truth), noise)
        absent, present = (opened.signal(world) for world in worlds)
        scores += likelihood_ratio(published, absent, present)
    return Tally.of(truth, decide(scores, rng))


def _coins(trials: int, rng: np.random.Generator) -> BoolArray:
    return rng.random(trials) < 0.5


def _unit_rows(dim: int, rng: np.random.Generator) -> FloatArray:
    rows = rng.standard_normal((_ITEMS, dim))
    unit: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _single_ratings(users: int, rng: np.random.Generator) -> Worlds:
    """Return known ratings of every user, without and with one more."""
    absent = (rng.random((users, _ITEMS)) < 0.1).astype(np.float64)
    at = np.arange(users), rng.integers(_ITEMS, size=users)
    present = absent.copy()
    absent[at], present[at] = 0, 1
    return absent, present


def _mixed(worlds: Worlds, truth: BoolArray) -> FloatArray:
    return np.where(truth[:, None], worlds[1], worlds[0])
