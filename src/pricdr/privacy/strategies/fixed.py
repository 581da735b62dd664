"""What the strategies share whose item rows do not depend on the ratings: one step, one row moved."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from pricdr.data.ratings import Ids
from pricdr.privacy.accounting import Guarantee
from pricdr.privacy.mechanism import on_grid, release_rows
from pricdr.privacy.run import Entries, Run
from pricdr.privacy.steps import Declared, Step
from pricdr.privacy.strategies.base import Float32Array, Strategy
from pricdr.progress import Progress, silent
from pricdr.randomness import Randomness

PURPOSE: Final = "adds up the rows of each user's items"
DEFAULT_DIM: Final = 200
"""Columns of a random projection where nobody asked for a number, as in the paper."""
_EXAMPLE_ITEMS: Final = tuple(f"item {number}" for number in range(500))


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection(Strategy):
    """A strategy whose item rows do not depend on the ratings: a user's row is the sum of its items' rows, and noise.

    A subclass only says what the item rows are. They are forced into norm 1 here, so the promise holds for any.
    """

    @classmethod
    def default_dim(cls, guarantee: Guarantee) -> int | None:
        """Return None: how many columns there can be depends on what the items are projected by."""
        return None

    @abstractmethod
    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> Float32Array:
        """Return E: one row of norm at most 1 (up to rounding) per item, ``dim`` columns."""

    def example_rows(self, randomness: Randomness) -> Float32Array:
        """Return item rows to audit the strategy with, where there is no catalogue: one as long as rows can be."""
        return np.eye(1, self.columns, dtype=np.float32)

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """Return the one step: rows."""
        rows = Step(
            name="rows",
            purpose=PURPOSE,
            sensitivity=declared.change,
            share=1.0,
            rows=declared.users,
            numbers=self.columns,
            moved=self.columns,
        )
        return (rows,)

    def publish(self, entries: Entries, run: Run) -> Float32Array:
        """Return exact products with item rows on the grid, clipped where declared, plus noise."""
        grid = run.grid("rows")
        item_rows = self.item_rows(entries.items, run.randomness, run.progress)
        return release_rows(
            entries.listed,
            # Here the norm of every item row is forced to what the sensitivity assumes, whoever made the rows.
            on_grid(item_rows, radius=grid.radius(entries.bounds)),
            grid=grid,
            bounds=entries.bounds,
            noise=run.noise("rows"),
            progress=run.progress,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomProjection(Projection):
    """A projection along random item rows, as in the paper."""

    rows_cancel: ClassVar[bool] = True

    dim: int | None = DEFAULT_DIM
    """Columns of the published matrix; None takes 200, as in the paper."""

    @classmethod
    def default_dim(cls, guarantee: Guarantee) -> int | None:
        """Return 200, as in the paper."""
        return DEFAULT_DIM

    def example_rows(self, randomness: Randomness) -> Float32Array:
        """Return rows as they are drawn for any catalogue: nothing about it has to be known."""
        return self.item_rows(_EXAMPLE_ITEMS, randomness, silent)
