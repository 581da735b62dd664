"""``Strategy``: what ``publish`` asks of every way from ratings to rows, and the answers most strategies share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol, Self

import numpy as np

from pricdr.arrays import Float32Array
from pricdr.data.ratings import Ids
from pricdr.errors import ParameterError, require_count
from pricdr.privacy.accounting import Guarantee, Unit
from pricdr.privacy.mechanism import Entries, Run, on_grid, release_rows
from pricdr.privacy.steps import Declared, Step
from pricdr.progress import Progress
from pricdr.randomness import Randomness

MAX_LEARNT: Final = 256  # columns of a learnt release: beyond a handful they carry noise alone
MOST: Final = 1 << 20


def default_dim(guarantee: Guarantee) -> int:
    """Return eight, or four below ε = 4, where noise leaves room for fewer and stronger directions."""
    return 8 if guarantee.epsilon >= 4 else 4


class GuideRows(Protocol):
    """A guide as strategies use it: one row per user. A release of the other party is one."""

    @property
    def matrix(self) -> Float32Array:
        """Users x columns."""

    @property
    def users(self) -> Ids:
        """One id per row."""

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in it, as far as is known: it helps, and the promise does not rest on it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Strategy(ABC):
    """The steps from ratings to published rows, as a frozen dataclass.

    It first lays out its steps, from declared figures alone; once their noise is settled and paid for, it runs them.
    ``publish`` does the rest: no strategy decides how much noise there is.
    """

    name: ClassVar[str]
    """As in certificates, on the command line and in the registry."""
    summary: ClassVar[str] = ""
    """What it is, in a few words, for ``pricdr list``."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Fields that it cannot be run without; their default, None, is for describing it alone."""
    rows_cancel: ClassVar[bool] = False
    """Whether item rows point in independent random directions, so that t ratings add up like √t, not t."""
    needs_catalogue: ClassVar[bool] = False
    """Whether the release depends on which items exist, so that the item universe has to be public."""
    revision: ClassVar[int] = 1
    """Raised when the same settings begin to give other releases: experiments of before no longer count."""
    learns: ClassVar[bool] = False
    """Whether item rows are computed from the ratings; if so a clip bounds the sum of a user's ratings."""
    takes_guide: ClassVar[bool] = False
    """Whether it runs along a release of the other party, which the certificate then has to describe."""
    continues: ClassVar[bool] = False
    """Whether it goes on from releases of the same source, which the certificate then has to name."""
    item_rows_are: ClassVar[str] = "item rows of norm at most 1"
    """What a user's ratings are projected by, as README.md says it. The words belong to the schema version."""
    constants: ClassVar[tuple[str, ...]] = ()
    """The fields that certificates state: with the dimension, all that the steps depend on."""
    not_protected: ClassVar[tuple[str, ...]] = ()
    """Sentences about what this strategy in particular leaves unprotected. They belong to the schema version too."""

    dim: int | None = None
    """Columns of the published matrix; None takes what suits the promise."""

    def __post_init__(self) -> None:
        if self.dim is None:
            return
        require_count(dim=self.dim)
        most, what = (MAX_LEARNT, "a learnt release") if self.learns else (MOST, "a release")
        if self.dim > most:
            raise ParameterError(f"{what} can have at most {most:,} numbers per user, got {self.dim:,}")
        object.__setattr__(self, "dim", int(self.dim))

    @property
    def columns(self) -> int:
        """``dim``, once :meth:`resolved` has settled it."""
        assert self.dim is not None
        return self.dim

    @property
    def catalogue(self) -> Ids | None:
        """The public item universe that the strategy brings along; None where it brings none."""
        return None

    @property
    def guide(self) -> GuideRows | None:
        """The release of the other party that it runs along; None where there is none."""
        return None

    @classmethod
    def default_dim(cls, guarantee: Guarantee) -> int | None:
        """Return the columns of a release where nobody asked for a number; None where more decides than ε."""
        return default_dim(guarantee)

    def with_dim(self, dim: int | None) -> Self:
        """Return the same strategy with ``dim`` columns."""
        return replace(self, dim=dim)

    def resolved(self, guarantee: Guarantee, users: Ids) -> Self:
        """Return the same strategy with a number of columns, by what is promised.

        Whatever could fail later for these users is refused here: nothing may fail once the budget is spent.
        """
        return self if self.dim is not None else self.with_dim(self.default_dim(guarantee))

    def parameters(self) -> dict[str, float]:
        """Return the public parameters for the certificate."""
        return {name: float(getattr(self, name)) for name in self.constants}

    @classmethod
    def described(cls, dim: int, parameters: dict[str, float]) -> Self:
        """Return the strategy that a certificate describes, to lay out its steps; the parameters come from outside."""
        if parameters.keys() != set(cls.constants):
            raise ParameterError(f"{cls.name} has {', '.join(cls.constants) or 'none'}")
        return cls(dim=dim, **{name: type(getattr(cls, name))(value) for name, value in parameters.items()})

    @abstractmethod
    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """Return what will be computed, at which sensitivity and for which share of μ²; the last step is "rows"."""

    @abstractmethod
    def publish(self, entries: Entries, run: Run) -> Float32Array:
        """Return the published matrix: one row per listed user."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection(Strategy):
    """A strategy whose item rows do not depend on the ratings: a user's row is the sum of its items' rows, and noise.

    A subclass says what the item rows are. They are forced into norm 1 here, so the promise holds for any.
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
        """Return the one step: rows; refuse periods, since a row is clipped as a whole."""
        if declared.unit is Unit.USER_PERIOD:
            rule = "its clip is on a user's whole row; spectral and guided bound a sum"
            raise ParameterError(f"strategy {self.name} cannot protect user-periods: {rule}")
        rows = Step(
            name="rows",
            purpose="adds up the rows of each user's items",
            sensitivity=declared.change,
            share=1.0,
            rows=declared.users,
            numbers=self.columns,
            moved=self.columns,
        )
        return (rows,)

    def publish(self, entries: Entries, run: Run) -> Float32Array:
        """Return exact products with item rows on the grid, clipped where declared, plus noise."""
        grid = run.step("rows").grid
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
