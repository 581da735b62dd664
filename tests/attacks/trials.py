"""Attacks on whole releases: by the projection, by reconstruction, and by what lies beside the matrix."""

import json
import math
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.arrays import BoolArray, Float64Array
from pricdr.data.synthetic import SyntheticConfig, synthetic_pair
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.progress import silent
from pricdr.randomness import Secret, Simulation
from pricdr.release.folder import CERTIFICATE, MATRIX, SIGNATURE
from tests.attacks import flawed
from tests.attacks.evidence import Tally, contest, duel
from tests.attacks.projection import Distinguisher, Worlds, lattice, one_sparse, row_space_residual, walsh_sparsity
from tests.attacks.target import Opened, Setting, item_names, neighbouring_ratings, publisher

Contents: TypeAlias = Mapping[str, bytes]
"""The files of a folder, by name."""

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


def residual_flawed(*, w: float, trials: int, rng: np.random.Generator) -> Tally:
    worlds = random_worlds((200, 60), rng)
    publish = partial(flawed.thin_svd_release, w=w, dim=32, rng=rng)
    return duel(lambda world: publish(worlds[world]), row_space_residual(worlds), trials=trials, rng=rng)


def sparsity_flawed(
    *,
    nonzeros: float,
    trials: int,
    rng: np.random.Generator,
    attack: Callable[..., Distinguisher] = walsh_sparsity,
    signs_known: bool = False,
) -> Tally:
    """A sparsity test of SJLT as printed, 256 users and items, ``nonzeros`` per row of P, D secret or known."""
    worlds = random_worlds((256, 256), rng)
    signs = rng.choice([-1.0, 1.0], 256)
    publish = partial(flawed.printed_sjlt_release, w=PAPER_W, dim=64, nonzeros=nonzeros, rng=rng, signs=signs)
    distinguisher = attack(worlds, PAPER_W, **({"signs": signs} if signs_known else {}))
    return duel(lambda world: publish(worlds[world]), distinguisher, trials=trials, rng=rng)


def lattice_flawed(*, density: float, trials: int, rng: np.random.Generator) -> Tally:
    worlds = random_worlds((128, 128), rng)
    publish = partial(flawed.reference_fjlt_release, w=PAPER_W, dim=64, density=density, rng=rng)
    attack = lattice(worlds, PAPER_W, dim=64, density=density)
    return duel(lambda world: publish(worlds[world]), attack, trials=trials, rng=rng)


def projection_ours(setting: Setting, *, users: int, trials: int, rng: np.random.Generator) -> dict[str, Tally]:
    """All of these attacks on the same private releases of ours; users must be a power of two."""
    worlds = neighbouring_ratings(setting, users, rng)
    release = publisher(setting, worlds)
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
    """Least squares on our release: from the true E if ``known_rows``, else from the seeds that an adversary tries.

    One trial per user: was the cell right that a coin decided?
    """
    items = item_names(setting.n_items(users))
    ratings, columns, truth = coin_ratings(users, len(items), rng)
    if known_rows:
        with Secret() as secret, Secret() as noise:
            opened = Opened.draw(setting, items, secret)
            published = opened.release(sp.csr_array(ratings.astype(np.int32)), noise)
        recovered = solve_for_ratings(published, opened.directions)
    else:
        published = publisher(setting, (ratings, ratings))(0).matrix
        guessed = (setting.strategy.item_rows(items, Simulation(seed), silent) for seed in GUESSED_SEEDS)
        solved = [solve_for_ratings(published, item_rows) for item_rows in guessed]
        recovered = min(solved, key=lambda cells: float(np.mean(np.minimum(np.abs(cells), np.abs(cells - 1)))))
    return Tally.of(truth, recovered[np.arange(users), columns] > 0.5)


def coin_ratings(
    users: int, items: int, rng: np.random.Generator
) -> tuple[Float64Array, npt.NDArray[np.int64], BoolArray]:
    """Return synthetic ratings (rated or not) in which one known cell of every user was decided by a coin."""
    config = SyntheticConfig(
        users=users,
        source_items=items,
        target_items=12,
        source_ratings_per_user=items / 12,
        target_ratings_per_user=2,
    )
    source = synthetic_pair(config, seed=int(rng.integers(2**32))).source
    ratings: Float64Array = source.positives().matrix.toarray()
    columns, truth = rng.integers(items, size=users), rng.random(users) < 0.5
    ratings[np.arange(users), columns] = truth
    return ratings, columns, truth


def undo_constant_seed(published: Float64Array, *, n_items: int, w: float) -> Float64Array:
    """Return the ratings behind a release of the reference code: regenerate the projection, solve, remove the lift.

    Exact up to rounding errors where the release has at least as many columns as there are items.
    """
    dim = published.shape[1]
    projection = flawed.constant_seed_projection(n_items, dim)
    # normal equations: a Gaussian projection of more rows than columns is well enough conditioned
    lift = np.linalg.solve(projection.T @ projection, projection.T @ published.T * math.sqrt(dim)).T
    return remove_lift(lift.astype(np.float64, copy=False), w)


def remove_lift(lift: Float64Array, w: float) -> Float64Array:
    """Return ratings whose singular values, lifted to √(Σ² + w²), give ``lift``: w is public."""
    squares, directions = np.linalg.eigh(lift @ lift.T)
    shrink = np.sqrt(np.maximum(squares - w**2, 0) / np.maximum(squares, w**2))
    return (directions * shrink) @ (directions.T @ lift)


def solve_for_ratings(published: npt.ArrayLike, item_rows: npt.ArrayLike) -> Float64Array:
    return np.asarray(published, dtype=np.float64) @ np.linalg.pinv(np.asarray(item_rows, dtype=np.float64))


def undo_seed(published: npt.ArrayLike, opened: Opened, seed: int) -> Float64Array:
    """Return the ratings behind a release of ours drawn from a known seed: subtract its noise, then solve.

    Exact where the release has at least as many columns as there are items: what "not private" means.
    """
    steps = np.rint(np.asarray(published, dtype=np.float64) / opened.grid.step)
    noise = DiscreteGaussian(Simulation(seed), "noise", refinement=opened.grid.refinement)
    return solve_for_ratings(steps - noise.draw(0, steps.size).reshape(steps.shape), opened.item_rows)


def metadata_flawed(leak: flawed.Leak, *, trials: int, rng: np.random.Generator) -> Tally:
    folders = [flawed.leaky_folder(world, leak=leak) for world in random_worlds((30, 20), rng)]
    return _metadata_duel(folders.__getitem__, trials=trials, rng=rng)


def metadata_ours(setting: Setting, *, trials: int, rng: np.random.Generator) -> Tally:
    release = publisher(setting, neighbouring_ratings(setting, 20, rng))

    def folder(world: int) -> Contents:
        with tempfile.TemporaryDirectory() as parent:
            return {path.name: path.read_bytes() for path in release(world).save(Path(parent) / "release").iterdir()}

    return _metadata_duel(folder, trials=trials, rng=rng)


def _metadata_duel(folder: Callable[[int], Contents], *, trials: int, rng: np.random.Generator) -> Tally:
    """Prefer the candidate whose own folder has the same metadata; neither where both have."""
    absent, present = metadata(folder(0)), metadata(folder(1))

    def score(contents: Contents) -> float:
        seen = metadata(contents)
        return float(seen == present) - float(seen == absent)

    return duel(folder, score, trials=trials, rng=rng)


def metadata(contents: Contents) -> str:
    """Return everything in a release folder but the noisy matrix: names, sizes, and the bytes of all other files.

    The matrix's own hash in the certificate, and the digest and signature that cover it, say no more than the matrix.
    """
    shown: dict[str, str] = {}
    for name, data in contents.items():
        text = f"{len(data)} bytes"
        if name == CERTIFICATE:
            certificate = json.loads(data)
            certificate.pop("digest", None)
            certificate.get("files", {}).pop(MATRIX, None)
            text = f"{text}: {json.dumps(certificate)}"
        elif name not in (MATRIX, SIGNATURE):
            text = f"{text}: {data!r}"
        shown[name] = text
    return json.dumps(shown)
