"""``Run``: what a strategy works with once every σ is settled: the entries, and one draw of noise for each step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pricdr.data.blocks import Matrix, RatingsSource
from pricdr.data.csr import CSR, with_values
from pricdr.data.ids import Ids
from pricdr.privacy.bounds import UNITS_PER_STEP, Bounds
from pricdr.privacy.mechanism import Grid
from pricdr.privacy.noise import DiscreteGaussian
from pricdr.privacy.steps import CalibratedStep, Step
from pricdr.progress import Progress, silent
from pricdr.randomness import Randomness


@dataclass(frozen=True, eq=False)
class Entries:
    """The ratings as a strategy sees them: whole units, already forced into what was declared."""

    listed: Matrix
    """Listed users x items."""
    users: Ids
    items: Ids
    bounds: Bounds
    value: float = 1.0
    """What one unit counts."""
    most: int = 1
    """Units that one entry can have."""
    universe_declared: bool = False
    """Whether ``items`` are a declared universe; otherwise which items exist must not show."""
    unlisted: Matrix | None = None
    """Users outside the list x items, where they take part in learning."""

    @classmethod
    def of(
        cls,
        ratings: RatingsSource,
        bounds: Bounds,
        *,
        summed: bool = False,
        universe_declared: bool = False,
        unlisted: RatingsSource | None = None,
    ) -> "Entries":
        """Return the ratings as entries, forced into what was declared.

        ``summed``: a clip bounds the sum of a user's ratings, for strategies that learn from them.
        """
        if not summed:
            listed = ratings.units(bounds.steps)
            return cls(listed, ratings.users, ratings.items, bounds, bounds.rating_step, bounds.levels)
        limited = bounds.clip is not None
        return cls(
            ratings.units(bounds.units),
            ratings.users,
            ratings.items,
            bounds,
            value=bounds.rating_step / (UNITS_PER_STEP if limited else 1),
            most=bounds.most_units if limited else bounds.levels,
            universe_declared=universe_declared,
            unlisted=None if unlisted is None else unlisted.units(bounds.units),
        )

    def __repr__(self) -> str:
        """Sizes only: ratings are private."""
        return f"Entries({self.listed.shape[0]} listed users x {len(self.items)} items)"


@dataclass(eq=False)
class Run:
    """The settled steps of one release. Each step's noise is drawn once; asking twice is an error."""

    settled: Sequence[CalibratedStep]
    randomness: Randomness
    noisy: bool = True
    progress: Progress = silent
    _used: set[str] = field(default_factory=set)

    def step(self, name: str) -> Step:
        """Return the step of this name."""
        return self._named(name).step

    def grid(self, name: str) -> Grid:
        """Return the lattice of a step."""
        return self._named(name).grid

    def noise(self, name: str) -> DiscreteGaussian | None:
        """Return the noise of a step, which can be asked for once; None in a release without noise."""
        if name in self._used:
            raise RuntimeError(f"the noise of step {name!r} was drawn already: a second draw would be a second release")
        # Marked before it is handed out, so that a failure later on cannot lead to a second draw.
        self._used.add(name)
        if not self.noisy:
            return None
        # Every strategy's last step is called "rows", and its stream "noise", as it was when there was no other.
        stream = "noise" if name == "rows" else f"{name} noise"
        return DiscreteGaussian(self.randomness, stream, refinement=self.grid(name).refinement)

    def _named(self, name: str) -> CalibratedStep:
        return next(one for one in self.settled if one.step.name == name)


class Secrets:
    """Arrays computed from the ratings that must not outlive a run: overwritten when it ends."""

    def __init__(self) -> None:
        self._arrays: list[npt.NDArray[Any]] = []

    def keep(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the same array, to be overwritten at the end."""
        self._arrays.append(array)
        return array

    def erase(self) -> None:
        """Overwrite every array with zeros. Best effort: numpy may have made short-lived copies."""
        for array in self._arrays:
            array.fill(0)
        self._arrays.clear()

    def __repr__(self) -> str:
        return "Secrets(<hidden>)"


@contextmanager
def erasing() -> Iterator[Secrets]:
    """Yield a keeper of secret arrays, which are overwritten on the way out, whatever happens inside."""
    secrets = Secrets()
    try:
        yield secrets
    finally:
        secrets.erase()


def without_ratings(entries: Entries) -> Entries:
    """Return the same users and items without a single rating: what is published of it is noise alone (a control)."""
    n_items = len(entries.items)
    return replace(
        entries,
        listed=entries.listed.converted(_emptied, n_items),
        unlisted=None if entries.unlisted is None else entries.unlisted.converted(_emptied, n_items),
    )


def _emptied(block: CSR) -> CSR:
    return with_values(block, np.zeros_like(block.data))
