"""What every strategy answers."""

from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.ratings import Ids
from pricdr.privacy.guarantee import Guarantee
from pricdr.privacy.run import Entries, Run
from pricdr.privacy.steps import Declared, Step
from pricdr.progress import Progress
from pricdr.randomness import Randomness

FloatArray: TypeAlias = npt.NDArray[np.float32]


class Strategy(Protocol):
    """The steps from ratings to published rows.

    A strategy first lays out its steps, from declared figures alone; once their noise is settled and paid for, it runs
    them. ``publish`` does the rest: no strategy decides how much noise there is.
    """

    name: ClassVar[str]
    rows_cancel: ClassVar[bool]
    """Whether item rows point in independent random directions, so that t ratings add up like √t, not t."""
    needs_catalogue: ClassVar[bool]
    """Whether the release depends on which items exist, so that the item universe has to be public."""
    learns: ClassVar[bool]
    """Whether item rows are computed from the ratings; if so a clip bounds the sum of a user's ratings."""

    @property
    def dim(self) -> int | None:
        """Columns of the published matrix; None leaves the choice open."""
        ...

    def with_dim(self, dim: int | None) -> "Strategy":
        """The same strategy with ``dim`` columns, or with the choice left open."""
        ...

    def resolved(self, guarantee: Guarantee, users: Ids) -> "Strategy":
        """The same strategy, its dimension chosen by what is promised (itself where that takes the ratings).

        Whatever could fail later for these users is refused here: nothing may fail once the budget is spent.
        """
        ...

    @classmethod
    def described(cls, dim: int, parameters: dict[str, float]) -> "Strategy":
        """The strategy that a certificate describes: good for laying out its steps."""
        ...

    def parameters(self) -> dict[str, float]:
        """Public parameters for the certificate: with the dimension, all that the steps depend on."""
        ...

    def steps(self, declared: Declared) -> tuple[Step, ...]:
        """What will be computed, at which sensitivity and for which share of μ²; the last step is called "rows"."""
        ...

    def publish(self, entries: Entries, run: Run) -> FloatArray:
        """The published matrix: one row per listed user."""
        ...


class Projection(Strategy, Protocol):
    """A strategy whose item rows do not depend on the ratings."""

    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> FloatArray:
        """E: one row of norm at most 1 (up to rounding) per item, ``dim`` columns."""
        ...
