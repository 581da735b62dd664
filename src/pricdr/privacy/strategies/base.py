"""What every strategy answers."""

from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.blocks import Progress
from pricdr.data.ratings import Ids
from pricdr.randomness import Randomness

FloatArray: TypeAlias = npt.NDArray[np.float32]


class Strategy(Protocol):
    """Builds E, the matrix of item rows. It never sees the ratings, so E costs no privacy."""

    name: ClassVar[str]
    needs_catalogue: ClassVar[bool]
    """Whether E depends on which items exist, so that the item universe has to be public."""
    rows_cancel: ClassVar[bool]
    """Whether item rows point in independent random directions, so that t ratings add up like √t, not t."""

    @property
    def dim(self) -> int | None:
        """Columns of the published matrix; None leaves the choice to a small part of the budget."""
        ...

    def with_dim(self, dim: int) -> "Strategy":
        """The same strategy with ``dim`` columns."""
        ...

    def parameters(self) -> dict[str, float]:
        """Public parameters for the certificate."""
        ...

    def item_rows(self, items: Ids, randomness: Randomness, progress: Progress) -> FloatArray:
        """E: one row of norm at most 1 (up to rounding) per item, ``dim`` columns."""
        ...
