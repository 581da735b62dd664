"""Trials of the attacks on whole releases: projections, reconstruction, metadata."""

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.arrays import BoolArray
from pricdr.data.synthetic import SyntheticConfig, synthetic_pair
from pricdr.progress import silent
from pricdr.randomness import Secret, Simulation
from tests.attacks import flawed
from tests.attacks.evidence import FloatArray, Tally, contest
from tests.attacks.metadata import Contents, folder_contents, metadata_difference
from tests.attacks.projection import (
    Distinguisher,
    Worlds,
    lattice,
    one_sparse,
    row_space_residual,
    walsh_sparsity,
)
from tests.attacks.reconstruction import most_plausible_ratings, solve_for_ratings, undo_constant_seed
from tests.attacks.target import Opened, Setting, item_names, neighbouring_ratings, private_release

GUESSED_SEEDS: Final = (0, 1, flawed.CONSTANT_SEED)
"""Seeds an adversary tries on a release whose randomness is secret."""
PAPER_W: Final = 1558.0
"""Algorithm 1's w at ε = 4, k = 400, δ = 1/16367: noise far beyond what ε needs, and no help against these attacks."""


def random_worlds(shape: tuple[int, int], rng: np.random.Generator) -> Worlds:
    """Return two random inputs of zeros and ones that differ in one rating, without an empty row or column."""
    absent = (rng.random(shape) < 0.2).astype(np.float64)
    at = np.arange(max(shape))
    absent[at % shape[0], at % shape[1]] = 1
    user, item = (int(rng.integers(size)) for size in shape)
    present = absent.copy()
    absent[user, item], present[user, item] = 0, 1
    return absent, present


def residual_flawed(
    *, w: float, trials: int, rng: np.random.Generator, shape: tuple[int, int] = (200, 60), dim: int = 32
) -> Tally:
    worlds = random_worlds(shape, rng)

    def publish(ratings: FloatArray) -> FloatArray:
        return flawed.thin_svd_release(ratings, w=w, dim=dim, rng=rng)

    return alone(publish, worlds, row_space_residual(worlds), trials=trials, rng=rng)


def sparsity_flawed(
    *,
    nonzeros: float,
    trials: int,
    rng: np.random.Generator,
    attack: Callable[..., Distinguisher] = walsh_sparsity,
    signs_known: bool = False,
    size: int = 256,
    dim: int = 64,
) -> Tally:
    """A sparsity test of SJLT as printed, ``size`` users and items, ``nonzeros`` per row of P, D secret or known."""
    worlds = random_worlds((size, size), rng)
    signs = rng.choice([-1.0, 1.0], size)

    def publish(ratings: FloatArray) -> FloatArray:
        return flawed.printed_sjlt_release(ratings, w=PAPER_W, dim=dim, nonzeros=nonzeros, rng=rng, signs=signs)

    distinguisher = attack(worlds, PAPER_W, **({"signs": signs} if signs_known else {}))
    return alone(publish, worlds, distinguisher, trials=trials, rng=rng)


def lattice_flawed(*, density: float, trials: int, rng: np.random.Generator, size: int = 128, dim: int = 64) -> Tally:
    worlds = random_worlds((size, size), rng)

    def publish(ratings: FloatArray) -> FloatArray:
        return flawed.reference_fjlt_release(ratings, w=PAPER_W, dim=dim, density=density, rng=rng)

    attack = lattice(worlds, PAPER_W, dim=dim, density=density)
    return alone(publish, worlds, attack, trials=trials, rng=rng)


def projection_ours(setting: Setting, *, users: int, trials: int, rng: np.random.Generator) -> dict[str, Tally]:
    """All of these attacks on the same private releases of ours; users must be a power of two."""
    worlds = neighbouring_ratings(setting, users, rng)
    release = private_release(setting, worlds)
    w = setting.sigma * math.sqrt(setting.dim)
    attacks = {
        "row-space residual": row_space_residual(worlds),
        "one-sparse": one_sparse(worlds, w),
        "Walsh sparsity": walsh_sparsity(worlds, w),
        "lattice": lattice(worlds, w, dim=setting.dim, density=0.5),
    }
    return contest(lambda world: release(world).matrix.astype(np.float64), attacks, trials=trials, rng=rng)


def reconstruction_flawed(*, users: int, items: int, rng: np.random.Generator) -> Tally:
    """Regenerate the projection of a constant seed: every single rating, rated or not, is a trial."""
    ratings, _, _ = coin_ratings(users, items, rng)
    dim = items + items // 4
    w = flawed.per_column_w(1.0, 1 / users, dim=dim)
    recovered = undo_constant_seed(flawed.constant_seed_release(ratings, w=w, dim=dim), n_items=items, w=w)
    return Tally.of(ratings.ravel() == 1, np.rint(recovered).ravel() == 1)


def reconstruction_ours(setting: Setting, *, users: int, rng: np.random.Generator, known_rows: bool) -> Tally:
    """Least squares on our release: from the true E if ``known_rows``, else from the seeds that an adversary tries."""
    items = item_names(setting.n_items(users))
    ratings, columns, truth = coin_ratings(users, len(items), rng)
    if known_rows:
        with Secret() as secret, Secret() as noise:
            opened = Opened.draw(setting, items, secret)
            published = opened.release(sp.csr_array(ratings.astype(np.int32)), noise)
        return _cells_right(solve_for_ratings(published, opened.directions), columns, truth)
    guessed = [setting.strategy.item_rows(items, Simulation(seed), silent) for seed in GUESSED_SEEDS]
    published = private_release(setting, (ratings, ratings))(0).matrix
    return _cells_right(most_plausible_ratings(published, guessed), columns, truth)


def coin_ratings(
    users: int, items: int, rng: np.random.Generator
) -> tuple[FloatArray, npt.NDArray[np.int64], BoolArray]:
    """Return synthetic ratings (rated or not) in which one known cell of every user was decided by a coin."""
    config = SyntheticConfig(
        users=users,
        source_items=items,
        target_items=12,
        source_ratings_per_user=items / 12,
        target_ratings_per_user=2,
    )
    source = synthetic_pair(config, seed=int(rng.integers(2**32))).source
    ratings: FloatArray = source.positives().matrix.toarray()
    columns, truth = rng.integers(items, size=users), rng.random(users) < 0.5
    ratings[np.arange(users), columns] = truth
    return ratings, columns, truth


def metadata_flawed(leak: flawed.Leak, *, trials: int, rng: np.random.Generator) -> Tally:
    folders = [flawed.leaky_folder(world, leak=leak) for world in random_worlds((30, 20), rng)]
    attack = metadata_difference(folders[0], folders[1])
    return contest(lambda world: folders[world], {"": attack}, trials=trials, rng=rng)[""]


def metadata_ours(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    release = private_release(setting, neighbouring_ratings(setting, 20, rng))

    def folder(world: int) -> Contents:
        with tempfile.TemporaryDirectory() as parent:
            return folder_contents(release(world).save(Path(parent) / "release"))

    attack = metadata_difference(folder(0), folder(1))
    return contest(folder, {"": attack}, trials=trials, rng=rng)[""]


def alone(
    publish: Callable[[FloatArray], FloatArray],
    worlds: Worlds,
    attack: Distinguisher,
    *,
    trials: int,
    rng: np.random.Generator,
) -> Tally:
    return contest(lambda world: publish(worlds[world]), {"": attack}, trials=trials, rng=rng)[""]


def _cells_right(recovered: FloatArray, columns: npt.NDArray[np.int64], truth: BoolArray) -> Tally:
    """Count one trial per user: was the cell right that a coin decided?"""
    return Tally.of(truth, recovered[np.arange(len(recovered)), columns] > 0.5)
