"""The one matrix type of ratings: scipy's CSR arrays, and what publishing and models need around them.

scipy does not check arrays: with a row start or a column outside the matrix, its products read and write out of bounds.
So every matrix from outside passes :func:`checked_csr` first. Sums are of whole numbers, which are the same in any
order: a release has the same bytes however its users are divided into blocks.
"""

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pricdr.arrays import BoolArray, IntArray
from pricdr.errors import InputError

__all__ = ["CSC", "CSR", "RatingMatrix", "as_csr", "checked_csr", "csr_of_cells", "sp"]
Numbers: TypeAlias = npt.NDArray[Any]
if TYPE_CHECKING:
    CSR: TypeAlias = sp.csr_array[Any, tuple[int, int]]
    """A sparse matrix of any type of numbers, by rows."""
    CSC: TypeAlias = sp.csc_array[Any]
    """The same by columns: what transposing a matrix gives, without any work."""
    RatingMatrix: TypeAlias = sp.csr_array[np.float64, tuple[int, int]]
    """Users x items, of float64."""
else:  # older versions of scipy cannot be subscripted when the program runs
    RatingMatrix = CSR = sp.csr_array
    CSC = sp.csc_array


def as_csr(source: object) -> CSR:
    """Return a CSR matrix of scipy as a new one that shares its arrays, once they pass :func:`checked_csr`.

    Its own flags (sorted, canonical) are not believed: whoever changed its arrays may not have changed them.
    """
    if not isinstance(source, sp.csr_array | sp.csr_matrix) or len(source.shape) != 2:
        raise InputError(f"a sparse matrix must be stored by rows (CSR), got {type(source).__name__}")
    arrays = [np.asarray(part) for part in (source.data, source.indices, source.indptr)]
    for part, kinds in zip(arrays, ("biuf", "iu", "iu"), strict=True):
        if part.ndim != 1 or part.dtype.kind not in kinds:
            raise InputError(f"a sparse matrix holds a {part.ndim}-dimensional array of {part.dtype}")
    data, columns, starts = arrays
    stored = int(starts[-1]) if len(starts) else 0
    rows, width = (int(size) for size in source.shape)
    return checked_csr("a sparse matrix", data[:stored], columns[:stored], starts, (rows, width))


def checked_csr(what: str, data: Numbers, columns: Numbers, row_starts: Numbers, shape: tuple[int, int]) -> CSR:
    """Return the CSR matrix of these one-dimensional arrays; raise :class:`InputError` if they do not form one.

    Columns must increase within a row, so that no cell occurs twice; values must be finite.
    """
    if len(row_starts) != shape[0] + 1 or row_starts[0] != 0 or row_starts[-1] != len(columns):
        raise InputError(f"{what} has row starts that do not fit {shape[0]:,} rows of {len(columns):,} entries")
    if len(data) != len(columns):
        raise InputError(f"{what} has {len(data):,} values for {len(columns):,} columns")
    # Compared, not subtracted: the difference of two hostile numbers can overflow.
    if (row_starts[1:] < row_starts[:-1]).any():
        raise InputError(f"{what} has row starts that decrease")
    if len(columns) and not 0 <= columns.min() <= columns.max() < shape[1]:
        outside = columns[(columns < 0) | (columns >= shape[1])]
        raise InputError(f"{what} has column {outside[0]} (from 0), but only {shape[1]:,} columns")
    rises = columns[1:] > columns[:-1]
    inner = row_starts[1:-1]
    rises[inner[(inner > 0) & (inner < len(columns))] - 1] = True  # a new row may start with any column
    if not rises.all():
        raise InputError(f"{what} has columns that do not increase within a row")
    if not np.isfinite(data).all():
        raise InputError(f"{what} has a value that is not a finite number")
    return sp.csr_array((data, columns, row_starts), shape=shape)


def csr_of_cells(rows: Numbers, columns: Numbers, values: Numbers, shape: tuple[int, int]) -> CSR:
    """Return the matrix of these cells, in any order; a cell that occurs twice is refused."""
    codes = rows.astype(np.int64) * shape[1] + columns
    if (codes[1:] <= codes[:-1]).any():
        order = np.argsort(codes)
        codes, rows, columns, values = codes[order], rows[order], columns[order], values[order]
        if (codes[1:] == codes[:-1]).any():
            raise InputError("a (user, item) pair occurs more than once")
    starts = np.append(0, np.cumsum(np.bincount(rows, minlength=shape[0])))
    return sp.csr_array((values, columns, starts), shape=shape)


def row_counts(matrix: CSR) -> IntArray:
    """Return how many entries each row has."""
    return np.diff(matrix.indptr).astype(np.int64, copy=False)


def entry_rows(matrix: CSR) -> IntArray:
    """Return the row of each entry."""
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int64), row_counts(matrix))


def with_values(matrix: CSR, values: Numbers) -> CSR:
    """Return a matrix with other values at the same positions."""
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def kept_entries(matrix: CSR, keep: BoolArray) -> CSR:
    """Return the matrix of the stored entries where ``keep`` is true."""
    kept = np.concatenate([[0], np.cumsum(keep)])
    return sp.csr_array((matrix.data[keep], matrix.indices[keep], kept[matrix.indptr]), shape=matrix.shape)


def moved_entries(matrix: CSR, new_row: IntArray, new_column: IntArray, shape: tuple[int, int]) -> CSR:
    """Return the same entries at new positions, given for every row and column; those at −1 are left out."""
    columns = new_column[matrix.indices]
    if (unknown := columns < 0).any():
        matrix, columns = kept_entries(matrix, ~unknown), columns[~unknown]
    # Whole rows are copied, which is thirty times as fast as sorting entries; a new row is a copy of an empty last one.
    starts = np.append(matrix.indptr, matrix.indptr[-1])
    extended = sp.csr_array((matrix.data, columns, starts), shape=(len(new_row) + 1, shape[1]))
    old_row = np.full(shape[0], len(new_row))
    moved = new_row >= 0
    old_row[new_row[moved]] = np.flatnonzero(moved)
    result = extended[old_row]
    result.sort_indices()
    return result


def exact_product(matrix: CSR | CSC, dense: Numbers) -> Numbers:
    """Return the product with a matrix of whole numbers, in the wider of both types.

    Every entry is multiplied, whatever its value, so the time depends on where entries are and not on what they are.
    """
    if fractions := [str(numbers.dtype) for numbers in (matrix.data, dense) if numbers.dtype.kind not in "iu"]:
        raise TypeError(f"sums are exact only for whole numbers, got {fractions[0]}")
    return cast(Numbers, matrix @ dense)


def exact_product_by_pieces(matrix: CSR, dense: Numbers, entries: int, total: type[np.signedinteger[Any]]) -> Numbers:
    """Return the same in the type ``total``, where ``dense`` and sums of so many entries of a row fit into 16 bits.

    Rows are cut into pieces of at most ``entries``, which are added up in 16 bits: twice as fast as in 32, whose
    products scipy's compiled code does one by one. How a row is cut depends on how many entries it has alone.
    """
    of_row = np.maximum(-(-np.diff(matrix.indptr) // entries), 1)
    first = np.concatenate([[0], np.cumsum(of_row)])
    number = np.arange(first[-1]) - np.repeat(first[:-1], of_row)
    starts = np.append(np.repeat(matrix.indptr[:-1], of_row) + number * entries, matrix.indptr[-1])
    values = matrix.data.astype(np.int16)
    pieces = sp.csr_array((values, matrix.indices, starts), shape=(len(number), matrix.shape[1]))
    sums = exact_product(pieces, dense).astype(total)
    if len(sums) == matrix.shape[0]:
        return sums
    rows = sp.csr_array((np.ones(len(sums), total), np.arange(len(sums)), first), shape=(matrix.shape[0], len(sums)))
    return exact_product(rows, sums)


def exact_row_sums(matrix: CSR | CSC) -> IntArray:
    """Return the sum of each row; the values must be whole numbers."""
    return exact_product(matrix, np.ones((matrix.shape[1], 1), dtype=np.int64)).ravel()


def ones(ratings: CSR) -> CSR:
    """Return the same entries, each a 1."""
    return sp.csr_array((np.ones(ratings.nnz), ratings.indices, ratings.indptr), shape=ratings.shape)


def item_counts(ratings: CSR) -> npt.NDArray[np.int64]:
    """Return how often each item was rated."""
    return np.bincount(ratings.indices, minlength=ratings.shape[1])
