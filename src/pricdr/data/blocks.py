"""The interface of ratings for publishing, wherever they are kept: in memory, on disk, or on a cluster.

A computation on ratings is a *work*: a pure function of a block of users and of the position of its first user. An
engine keeps the ratings, cuts them into blocks and runs works on them. A user's rows depend only on that user's ratings
and position, and sums are whole numbers. So the result is the same, bit for bit, however the users are cut, and however
often and by whichever process a work is run.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from pricdr.data.csr import CSC, CSR, as_csr, sp
from pricdr.data.ids import Ids
from pricdr.parallel import cores, each_block
from pricdr.progress import Progress, silent

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
    """Users, items."""

    def rows(
        self, work: RowFunction, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user; blocks have at most ``block_rows`` users."""
        ...

    def total(self, work: SumFunction, *, what: str = "", progress: Progress = silent) -> Whole:
        """Return the sum of the results of ``work`` over all blocks."""
        ...

    def converted(self, convert: Convert, n_columns: int) -> "Matrix":
        """Return the matrix of the converted blocks, which have ``n_columns`` columns."""
        ...

    def array(self, columns: int, dtype: npt.DTypeLike) -> Numbers:
        """Return an empty array with one row per user: in memory, or in a file where it is large."""
        return np.empty((self.shape[0], columns), dtype=dtype)

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        return f"{type(self).__name__}({self.shape[0]} users x {self.shape[1]} items)"


@runtime_checkable
class RatingsSource(Protocol):
    """Ratings as publishing needs them; ``Ratings`` implements it in memory."""

    @property
    def users(self) -> Ids:
        """One id per row."""
        ...

    @property
    def items(self) -> Ids:
        """One id per column."""
        ...

    @property
    def filtered_by(self) -> str | None:
        """The filter on counts that a certificate must disclose."""
        ...

    @property
    def has_values(self) -> bool:
        """Whether the stored values are ratings."""
        ...

    @property
    def threshold(self) -> float | None:
        """The declared threshold: only pairs rated at least this were kept; None without one."""
        ...

    def __len__(self) -> int:
        """Return the number of rated (user, item) pairs."""
        ...

    def select(self, users: Ids | None = None, items: Ids | None = None) -> Self:
        """Return the ratings over exactly these users and items, in this order."""
        ...

    def outside(self, users: Ids, items: Ids) -> Self:
        """Return the ratings of all other users than these, over these items."""
        ...

    def units(self, convert: Convert) -> Matrix:
        """Return the values as whole units, as ``convert`` computes them."""
        ...


class InMemory(Matrix):
    """A matrix in memory, in one piece."""

    def __init__(self, matrix: CSR) -> None:
        self.matrix, self.shape = matrix, matrix.shape

    def rows(
        self, work: RowFunction, out: Numbers, *, block_rows: int, what: str = "", progress: Progress = silent
    ) -> None:
        """Fill ``out`` with the results of ``work`` for every user."""

        def fill(part: slice) -> None:
            out[part] = work(self.matrix[part], part.start)

        each_block(self.shape[0], block_rows, fill, what=what, progress=progress)

    def total(self, work: SumFunction, *, what: str = "", progress: Progress = silent) -> Whole:
        """Return the sum of the results of ``work``: one block for each core, since every block makes a whole sum."""
        if not self.shape[0]:  # an empty block gives zeros of the right shape
            return work(self.matrix, 0)
        total = Total()

        def add(part: slice) -> None:
            total.add(work(self.matrix[part], part.start))

        rows = max(_MIN_SUMMED_ROWS, -(-self.shape[0] // cores()))
        each_block(self.shape[0], rows, add, what=what, progress=progress)
        return total.sum

    def converted(self, convert: Convert, n_columns: int) -> "InMemory":
        """Return the converted matrix."""
        return InMemory(convert(self.matrix))


class Transposed:
    """The same matrix with users and items exchanged: what is summed over users can also be summed over items."""

    def __init__(self, of: Matrix) -> None:
        self.of = of

    @property
    def shape(self) -> tuple[int, int]:
        """Items, users."""
        return self.of.shape[1], self.of.shape[0]


class Total:
    """A running sum of whole numbers. Its addends are overwritten: partial sums are as secret as the ratings."""

    def __init__(self) -> None:
        self._sum: Whole | None = None
        self._lock = Lock()

    def add(self, part: Whole) -> None:
        """Add one part, from any thread; its array must not be used afterwards."""
        with self._lock:
            if self._sum is None:
                self._sum = part
                return
            self._sum += part
        part.fill(0)

    @property
    def sum(self) -> Whole:
        """The sum of all parts."""
        assert self._sum is not None, "there are users"
        return self._sum


def as_matrix(given: "Matrix | Transposed | CSR | CSC") -> "Matrix | Transposed":
    """Return a matrix that works can run on; scipy's CSC format becomes rows of the transposed matrix."""
    if isinstance(given, Matrix | Transposed):
        return given
    if isinstance(given, sp.csc_array | sp.csc_matrix):
        return Transposed(InMemory(as_csr(given.T)))
    return InMemory(as_csr(given))
