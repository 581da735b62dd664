"""Our mechanism as the target of attacks: the settings to attack, neighbouring inputs, and the parts with E laid open.

The guarantee holds for every E, public ones included. So where an attack needs E, the mechanism is put together from
its own parts (:class:`Opened`), E is handed to the adversary, and neighbours may be chosen to suit E; only the noise is
secret. Where it does not, attacks meet real private releases (:func:`publisher`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr._publish import publish
from pricdr.arrays import Float32Array, Float64Array, Int32Array
from pricdr.data.csr import CSR
from pricdr.data.ratings import Ids, Ratings
from pricdr.privacy.accounting import LATTICE_FACTOR, Guarantee, Unit, sigma_for
from pricdr.privacy.mechanism import clip_rows, on_grid, release_rows
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.steps import Bounds, Grid
from pricdr.progress import silent
from pricdr.randomness import Randomness
from pricdr.release import Release
from pricdr.strategies import JLT, SJLT, Projection

KNOWN_RATINGS: Final = 6
"""Ratings of every user that the adversary knows, beside the one in question."""
_ALIGNED: Final = 100
"""The most items in the profile that the user unit adds."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way of using the mechanism; ``str`` names it."""

    strategy: Projection
    unit: Unit = Unit.RATING
    bounds: Bounds = field(default_factory=Bounds)
    wide: bool = False
    """Whether there are more items than users."""
    epsilon: float = 4.0
    delta: float = 1e-6

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(epsilon=self.epsilon, delta=self.delta, unit=self.unit)

    @property
    def dim(self) -> int:
        assert self.strategy.dim is not None, "attacks are on a declared dimension"
        return self.strategy.dim

    @property
    def sigma(self) -> float:
        sensitivity = self.bounds.sensitivity(self.unit)
        return sigma_for(self.epsilon, self.delta, sensitivity=sensitivity, dim=self.dim + 1)

    @property
    def mu(self) -> float:
        """The parameter that bounds every attack: the certificate's μ, with what the integer noise adds to it."""
        return self.bounds.sensitivity(self.unit) / self.sigma * LATTICE_FACTOR

    def n_items(self, n_users: int) -> int:
        """Return half as many items as users, or twice as many."""
        return 2 * n_users if self.wide else n_users // 2

    def __str__(self) -> str:
        values = "" if self.bounds.rating_bound is None else " values"
        return f"{self.strategy.name} {self.unit.value}{values} {'n>m' if self.wide else 'n<m'}"


def settings(dim: int) -> tuple[Setting, ...]:
    """Return settings of both strategies and both units, with fewer items than users and with more."""
    return tuple(
        Setting(strategy=strategy, unit=unit, bounds=bounds, wide=wide)
        for strategy in (JLT(dim=dim), SJLT(dim=dim))
        for unit, bounds in ((Unit.RATING, Bounds()), (Unit.USER, Bounds(clip=2.0)))
        for wide in (False, True)
    )


@dataclass(frozen=True)
class Opened:
    """The mechanism with its item rows laid open. Every release needs randomness of its own."""

    setting: Setting
    item_rows: Int32Array
    """E in grid steps."""
    grid: Grid

    @classmethod
    def draw(cls, setting: Setting, items: Ids, randomness: Randomness, *, noise_scale: float = 1.0) -> "Opened":
        """Return item rows and grid as ``publish`` makes them; a ``noise_scale`` below 1 cheats."""
        grid = Grid.for_noise(noise_scale * setting.sigma, bounds=setting.bounds, dim=setting.dim)
        rows = setting.strategy.item_rows(items, randomness, silent)
        return cls(setting, on_grid(rows, radius=grid.radius(setting.bounds)), grid)

    @property
    def directions(self) -> Float64Array:
        return self.item_rows.astype(np.float64) * self.grid.step

    def signal(self, entries: CSR) -> Float64Array:
        """Return what the release would be without noise: the adversary computes it for every candidate."""
        rows = entries.astype(np.int64) @ self.item_rows.astype(np.int64)
        if self.setting.bounds.clip is not None:
            rows = clip_rows(rows, self.setting.bounds.clip / self.grid.step)
        return rows * self.grid.step

    def release(self, entries: CSR, randomness: Randomness) -> Float32Array:
        """Return one release with noise from ``randomness``, used nowhere else."""
        noise = DiscreteGaussian(randomness, "noise", refinement=self.grid.refinement)
        return release_rows(entries, self.item_rows, grid=self.grid, bounds=self.setting.bounds, noise=noise)

    def neighbours(self, n_users: int, rng: np.random.Generator) -> tuple[CSR, CSR]:
        """Return inputs that differ for every user, so that each is a trial: one rating, or the whole profile."""
        if self.setting.unit is Unit.USER:
            return self._no_and_whole_profiles(n_users, rng)
        n_items = len(self.item_rows)
        first = rng.integers(n_items, size=n_users)
        items = (first[:, None] + np.arange(KNOWN_RATINGS + 1)) % n_items
        values = np.ones(items.shape, dtype=np.int32)
        values[:, -1] = self.setting.bounds.levels
        return _entries(items[:, :-1], values[:, :-1], n_items), _entries(items, values, n_items)

    def _no_and_whole_profiles(self, n_users: int, rng: np.random.Generator) -> tuple[CSR, CSR]:
        """Return the worst case of the user unit: no ratings against many items that point one way."""
        along = self.item_rows @ rng.standard_normal(self.setting.dim)
        order = np.argsort(along)
        size = max(1, min(_ALIGNED, len(order) // 5))
        items = np.broadcast_to(order[-size:], (n_users, size))
        ones = np.ones((n_users, size), dtype=np.int32)
        return _entries(items[:, :0], ones[:, :0], len(order)), _entries(items, ones, len(order))


def item_names(count: int) -> Ids:
    return tuple(f"i{number}" for number in range(count))


def mixed(worlds: tuple[CSR, CSR], truth: npt.NDArray[np.bool_]) -> CSR:
    """Return each user's row from the input that ``truth`` says."""
    keep, take = (sp.diags_array(part.astype(np.int32), dtype=np.int32) for part in (~truth, truth))
    rows = (keep @ worlds[0] + take @ worlds[1]).tocsr()
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def neighbouring_ratings(setting: Setting, n_users: int, rng: np.random.Generator) -> tuple[Float64Array, Float64Array]:
    """Return two small random inputs, dense, that differ in one rating or in one user, as the setting's unit says."""
    ratings = (rng.random((n_users, setting.n_items(n_users))) < 0.2).astype(np.float64)
    other = ratings.copy()
    user, item = rng.integers(n_users), rng.integers(ratings.shape[1])
    if setting.unit is Unit.USER:
        ratings[user] = 0
    ratings[user, item], other[user, item] = 0, 1
    return ratings, other


def publisher(
    setting: Setting, worlds: tuple[Float64Array, Float64Array], *, insecure_seed: int | None = None
) -> Callable[[int], Release]:
    """Return a function that publishes either input, with declared lists: secret rows and noise, unless seeded."""
    users = tuple(f"u{number}" for number in range(len(worlds[0])))
    items = item_names(worlds[0].shape[1])
    inputs = [Ratings.from_codes(*world.nonzero(), world[world.nonzero()], users, items) for world in worlds]

    def release(world: int) -> Release:
        return publish(
            inputs[world],
            setting.guarantee,
            strategy=setting.strategy,
            users=users,
            items=items,
            bounds=setting.bounds,
            insecure_seed=insecure_seed,
        )

    return release


def _entries(items: npt.NDArray[np.int64], values: Int32Array, n_items: int) -> CSR:
    rows = np.repeat(np.arange(len(items)), items.shape[1])
    matrix = sp.coo_array((values.ravel(), (rows, items.ravel())), shape=(len(items), n_items)).tocsr()
    matrix.sort_indices()
    return matrix
