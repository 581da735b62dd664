"""scipy's sparse matrices for models: the module, its types, and a constructor for untrusted arrays.

scipy does not check arrays: with a row start or a column outside the matrix, its products read and write out of bounds.
Nothing that publishes or checks a release imports this module; see ``pricdr.data.sparse``.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pricdr.data.sparse import IntArray
from pricdr.errors import InputError
from pricdr.extras import SPARSE

SPARSE.require()  # once, for all modules that import scipy's matrices from here

import scipy.sparse as sp  # noqa: E402

__all__ = ["CSR", "RatingMatrix", "checked_csr", "sp"]

if TYPE_CHECKING:
    RatingMatrix: TypeAlias = sp.csr_array[np.float64, tuple[int, int]]
    """Users x items, of float64."""
    CSR: TypeAlias = sp.csr_array[Any, tuple[int, int]]
    """A sparse matrix of any type of numbers."""
else:  # older versions of scipy cannot be subscripted when the program runs
    RatingMatrix = CSR = sp.csr_array


def checked_csr(
    what: str,
    data: npt.NDArray[Any],
    columns: IntArray,
    row_starts: IntArray,
    shape: tuple[int, int],
    *,
    sort: bool = False,
) -> CSR:
    """Return the CSR matrix of these one-dimensional arrays; raise :class:`InputError` if they do not form one.

    Columns must increase within a row, so that no cell occurs twice; values must be finite. With ``sort`` the columns
    of a row may be in any order.

    >>> checked_csr("seen", np.ones(1), np.array([7]), np.array([0, 1]), (1, 2))
    Traceback (most recent call last):
    ...
    pricdr.errors.InputError: seen has column 7 (from 0), but only 2 columns
    """
    if len(row_starts) != shape[0] + 1 or row_starts[0] != 0 or row_starts[-1] != len(columns):
        raise InputError(f"{what} has row starts that do not fit {shape[0]:,} rows of {len(columns):,} entries")
    if len(data) != len(columns):
        raise InputError(f"{what} has {len(data):,} values for {len(columns):,} columns")
    # Compared, not subtracted: the difference of two hostile numbers can overflow.
    if (row_starts[1:] < row_starts[:-1]).any():
        raise InputError(f"{what} has row starts that decrease")
    outside = columns[(columns < 0) | (columns >= shape[1])]
    if len(outside):
        raise InputError(f"{what} has column {outside[0]} (from 0), but only {shape[1]:,} columns")
    if sort:
        order = np.lexsort((columns, np.repeat(np.arange(shape[0]), np.diff(row_starts))))
        data, columns = data[order], columns[order]
    rises = columns[1:] > columns[:-1]
    inner = row_starts[1:-1]
    rises[inner[(inner > 0) & (inner < len(columns))] - 1] = True  # a new row may start with any column
    if not rises.all():
        raise InputError(f"{what} has columns that do not increase within a row")
    if not np.isfinite(data).all():
        raise InputError(f"{what} has a value that is not a finite number")
    return sp.csr_array((data, columns, row_starts), shape=shape)
