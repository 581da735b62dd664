"""The interface of ratings for publishing, wherever they are kept: in memory, on disk, or on a cluster.

A computation is a *work*: a pure function of a block of users and of the position of its first user. A user's rows
depend only on that user's ratings and position, and sums are whole numbers. So the result is the same, bit for bit,
however an engine cuts the users into blocks, and however often and by whichever process it runs a work.
"""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import CSR, as_csr
from pricdr.data.ids import Ids
from pricdr.parallel import cores, each_slice
from pricdr.progress import Progress, silent

if TYPE_CHECKING:
    from pricdr.data.periods import Window

Numbers: TypeAlias = npt.NDArray[Any]
Whole: TypeAlias = npt.NDArray[np.int64]
Convert: TypeAlias = Callable[[CSR], CSR]
"""Converts the ratings of a block of users, each user on its own."""
RowFunction: TypeAlias = Callable[[CSR, int], Numbers]
"""Computes one row of numbers per user of a block: from their ratings, and the position of the first of them."""
SumFunction: TypeAlias = Callable[[CSR, int], Whole]
"""Computes whole numbers from the same; the results of all blocks are added up."""
_MIN_SUMMED_ROWS: Final = 1024
"""Users in a block that is worth a thread."""


@runtime_checkable
class Matrix(Protocol):
    """A matrix of users x items in whole units, wherever it is kept."""

    shape: tuple[int, int]

    def rows(
        self, work: RowFunction, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user; blocks have at most ``block_rows`` users."""

    def total(self, work: SumFunction) -> Whole:
        """Return the sum of the results of ``work`` over all blocks."""

    def array(self, columns: int, dtype: npt.DTypeLike) -> Numbers:
        """Return an empty array with one row per user: in memory, or in a file where it is large."""
        return np.empty((self.shape[0], columns), dtype=dtype)

    def __repr__(self) -> str:  # sizes only: ratings are private
        return f"{type(self).__name__}({self.shape[0]} users x {self.shape[1]} items)"


class RatingsSource:
    """Ratings as publishing needs them, wherever they are kept; ``Ratings`` says what the fields mean."""

    users: Ids
    items: Ids
    filtered_by: str | None
    has_values: bool
    threshold: float | None
    window: "Window | None" = None

    def __len__(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:  # sizes only: ratings are private
        return f"{type(self).__name__}({len(self.users)} users x {len(self.items)} items, {len(self)} rated)"

    def over(self, users: Ids, items: Ids) -> Self:
        """Return the ratings over exactly these users and items, in this order."""
        raise NotImplementedError

    def units(self, convert: Convert) -> Matrix:
        """Return the values as whole units, as ``convert`` computes them."""
        raise NotImplementedError

    def select(self, users: Ids | None = None, items: Ids | None = None) -> Self:
        """Return the ratings of exactly these users and items, in this order; unknown ids get empty rows or columns.

        >>> from pricdr import Ratings
        >>> r = Ratings.from_triples(["a", "b"], ["x", "y"]).select(users=("b", "c"))
        >>> r.users, r.matrix.toarray().tolist()
        (('b', 'c'), [[0.0, 1.0], [0.0, 0.0]])
        """
        users, items = self.users if users is None else users, self.items if items is None else items
        return self if (users, items) == (self.users, self.items) else self.over(users, items)


class LocalMatrix(Matrix):
    """A matrix whose blocks threads of this process work on."""

    def block(self, part: slice) -> CSR:
        """Return the rows of some users."""
        raise NotImplementedError

    def cut(self, block_rows: int, *, for_sums: bool = False) -> list[slice]:
        """Return all users in slices of at most so many; ``for_sums`` of as many as a whole sum each is worth."""
        size = max(_MIN_SUMMED_ROWS, -(-self.shape[0] // cores())) if for_sums else block_rows
        return [slice(start, min(start + size, self.shape[0])) for start in range(0, self.shape[0], size)]

    def rows(
        self, work: RowFunction, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user."""

        def fill(part: slice) -> None:
            out[part] = work(self.block(part), part.start)

        each_slice(self.cut(block_rows), fill, what=what, progress=progress)

    def total(self, work: SumFunction) -> Whole:
        """Return the sum of the results of ``work`` over all blocks, each of which makes a whole sum."""
        total = Total()
        # Without users there is one empty block: it gives zeros of the right shape.
        slices = self.cut(self.shape[0], for_sums=True) or [slice(0, 0)]
        each_slice(slices, lambda part: total.add(work(self.block(part), part.start)))
        return total.sum


class InMemory(LocalMatrix):
    """A matrix in memory, in one piece."""

    def __init__(self, matrix: CSR) -> None:
        self.matrix, self.shape = matrix, matrix.shape

    def block(self, part: slice) -> CSR:
        """Return the rows of some users."""
        return self.matrix[part]


class Total:
    """A running sum of whole numbers. Its addends are overwritten: partial sums are as secret as the ratings."""

    sum: Whole

    def __init__(self) -> None:
        self._lock = Lock()

    def add(self, part: Whole) -> None:
        """Add one part, from any thread; its array must not be used afterwards."""
        with self._lock:
            if not hasattr(self, "sum"):
                self.sum = part
                return
            self.sum += part
        part.fill(0)


def as_matrix(given: Matrix | CSR) -> Matrix:
    """Return a matrix that works can run on."""
    return given if isinstance(given, Matrix) else InMemory(as_csr(given))
