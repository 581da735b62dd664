"""``SparseMatrix``: a CSR matrix of plain numpy arrays, with exactly the operations that publishing needs.

Products are of whole numbers, whose sums are the same in any order: a release has the same bytes however its users are
divided into blocks. Training uses scipy's matrices instead, which share the arrays of this one (``to_scipy``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from pricdr.errors import InputError
from pricdr.extras import SPARSE

if TYPE_CHECKING:
    import scipy.sparse as sp

Numbers: TypeAlias = npt.NDArray[Any]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_PIECE: Final = 32
"""Entries of a row that are added one after another; longer rows are cut into pieces, whose sums are added."""
_CELLS_AT_ONCE: Final = 1 << 16
"""Cells of a product that are computed together: few enough to stay in a core's cache."""


class Compressed(Protocol):
    """The attributes of scipy's compressed matrices, by rows (``format`` csr) or by columns (csc)."""

    @property
    def format(self) -> str: ...  # noqa: D102

    data: Numbers
    indices: Numbers
    indptr: Numbers

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def T(self) -> "Compressed": ...  # noqa: D102, N802


def is_compressed(value: object) -> TypeGuard[Compressed]:
    """Return whether a value looks like one of scipy's compressed matrices; does not need scipy.

    >>> is_compressed(np.zeros((2, 3))), is_compressed(SparseMatrix.from_dense(np.zeros((2, 3))))
    (False, False)
    """
    return all(hasattr(value, name) for name in ("format", "data", "indices", "indptr", "shape"))


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A matrix that stores some of its entries, row by row; all others are 0.

    >>> matrix = SparseMatrix.from_dense(np.array([[0, 2], [1, 0], [3, 0]]))
    >>> (matrix @ np.array([[1, 10], [2, 20]])).tolist()
    [[4, 40], [1, 10], [3, 30]]
    """

    data: Numbers
    """The stored values, row after row."""
    indices: Numbers
    """The column of each value."""
    indptr: Numbers
    """Where each row starts in the other two arrays, and where the last row ends."""
    shape: tuple[int, int]

    @classmethod
    def of(cls, source: object) -> "SparseMatrix":
        """Return a sparse matrix as it is, or convert a CSR matrix of scipy, sharing its arrays.

        Raises:
            InputError: It is not a CSR matrix, or its arrays do not fit together.
        """
        if isinstance(source, SparseMatrix):
            return source
        if not is_compressed(source) or source.format != "csr" or len(source.shape) != 2:
            raise InputError(f"a sparse matrix must be stored by rows (CSR), got {type(source).__name__}")
        stored = int(source.indptr[-1]) if len(source.indptr) else 0
        rows, columns = source.shape
        matrix = cls(source.data[:stored], source.indices[:stored], source.indptr, (rows, columns))
        if not matrix._fits():  # a product would read out of bounds
            raise InputError(f"the arrays of a sparse matrix do not fit {rows:,} x {columns:,}")
        return matrix

    @classmethod
    def from_cells(cls, rows: Numbers, columns: Numbers, values: Numbers, shape: tuple[int, int]) -> "SparseMatrix":
        """Return the matrix of these entries, in any order; a repeated entry is refused."""
        codes = rows.astype(np.int64) * shape[1] + columns
        if (codes[1:] <= codes[:-1]).any():
            order = np.argsort(codes)
            codes, columns, values = codes[order], columns[order], values[order]
            if (codes[1:] == codes[:-1]).any():
                raise InputError("a (user, item) pair occurs more than once")
            rows = rows[order]
        index_type = _index_type(len(values), shape)
        return cls(values, columns.astype(index_type), _starts(rows, shape[0], index_type), shape)

    @classmethod
    def from_dense(cls, cells: Numbers) -> "SparseMatrix":
        """Return the matrix of all nonzero cells."""
        rows, columns = np.nonzero(cells)
        return cls.from_cells(rows, columns, cells[rows, columns], (cells.shape[0], cells.shape[1]))

    @property
    def nnz(self) -> int:
        """How many entries are stored."""
        return len(self.data)

    @property
    def counts(self) -> IntArray:
        """How many entries each row has."""
        return np.diff(self.indptr).astype(np.int64, copy=False)

    @property
    def entry_rows(self) -> IntArray:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int64), self.counts)

    def with_data(self, data: Numbers) -> "SparseMatrix":
        """Return a matrix with other values at the same positions."""
        return SparseMatrix(data, self.indices, self.indptr, self.shape)

    def rows(self, part: slice) -> "SparseMatrix":
        """Return a slice of the rows; values and columns are shared."""
        start, stop, _ = part.indices(self.shape[0])
        starts = self.indptr[start : max(start, stop) + 1]
        stored = slice(int(starts[0]), int(starts[-1]))
        return SparseMatrix(
            self.data[stored], self.indices[stored], starts - starts[0], (len(starts) - 1, self.shape[1])
        )

    def only(self, keep: BoolArray) -> "SparseMatrix":
        """Return the matrix of the stored entries where ``keep`` is true."""
        kept = np.concatenate([[0], np.cumsum(keep)])
        starts = kept[self.indptr].astype(self.indptr.dtype)
        return SparseMatrix(self.data[keep], self.indices[keep], starts, self.shape)

    def at(self, rows: IntArray | None = None, columns: IntArray | None = None) -> "SparseMatrix":
        """Return the matrix of these rows and columns, by their positions here, which must be distinct."""
        rows = np.arange(self.shape[0]) if rows is None else rows
        columns = np.arange(self.shape[1]) if columns is None else columns
        new_row, new_column = (np.full(size, -1, dtype=np.int64) for size in self.shape)
        new_row[rows], new_column[columns] = np.arange(len(rows)), np.arange(len(columns))
        return self.moved(new_row, new_column, (len(rows), len(columns)))

    def moved(self, new_row: IntArray, new_column: IntArray, shape: tuple[int, int]) -> "SparseMatrix":
        """Return the same entries at new positions, given for every row and column; those at −1 are left out."""
        rows, columns = new_row[self.entry_rows], new_column[self.indices]
        keep = (rows >= 0) & (columns >= 0)
        return SparseMatrix.from_cells(rows[keep], columns[keep], self.data[keep], shape)

    def merged(self, new_column: IntArray, n_columns: int) -> "SparseMatrix":
        """Return the same entries in new columns, given for every column; entries that share a cell are added."""
        codes = self.entry_rows * n_columns + new_column[self.indices]
        order = np.argsort(codes)
        codes = codes[order]
        first = np.flatnonzero(np.diff(codes, prepend=-1))
        sums = np.add.reduceat(self.data[order], first, dtype=self.data.dtype) if len(first) else self.data
        rows, columns = np.divmod(codes[first], n_columns)
        return SparseMatrix.from_cells(rows, columns, sums, (self.shape[0], n_columns))

    @cached_property
    def transposed(self) -> "SparseMatrix":
        """The transposed matrix, computed once."""
        order = _column_order(self.indices)
        index_type = self.indptr.dtype
        rows = np.repeat(np.arange(self.shape[0], dtype=index_type), np.diff(self.indptr))
        shape = self.shape[1], self.shape[0]
        return SparseMatrix(self.data[order], rows[order], _starts(self.indices, shape[0], index_type), shape)

    def row_sums(self) -> IntArray:
        """Return the exact sum of each row; the values must be whole numbers."""
        _require_whole(self.data)
        sums = np.concatenate([[0], np.cumsum(self.data, dtype=np.int64)])
        return np.asarray(sums[self.indptr[1:]] - sums[self.indptr[:-1]])

    def __matmul__(self, dense: Numbers) -> Numbers:
        """Return the exact product with a matrix of whole numbers, in the wider of both types."""
        _require_whole(self.data)
        _require_whole(dense)
        out = np.zeros((self.shape[0], dense.shape[1]), dtype=np.result_type(self.data, dense))
        dense = dense.astype(out.dtype, copy=False)
        weights = None if (self.data == 1).all() else self.data.astype(out.dtype, copy=False)
        for piece in _pieces(self.indptr, max(1, _CELLS_AT_ONCE // max(1, dense.shape[1]))):
            piece.add_to(out, dense, self.indices, weights)
        return out

    def toarray(self) -> Numbers:
        """Return the matrix as a dense array."""
        cells = np.zeros(self.shape, dtype=self.data.dtype)
        cells[self.entry_rows, self.indices] = self.data
        return cells

    def to_scipy(self) -> "sp.csr_array[Any, tuple[int, int]]":
        """Return the same matrix as a CSR array of scipy, sharing the arrays; needs the ``train`` extra."""
        SPARSE.require()
        import scipy.sparse as sp

        return sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def is_canonical(self) -> bool:
        """Return whether the columns of every row increase, so that no entry is stored twice."""
        steps = np.diff(self.indices.astype(np.int64))
        inner = self.indptr[1:-1]
        inner = inner[(inner > 0) & (inner < self.nnz)]
        steps[inner - 1] = 1  # a new row may start with any column
        return bool((steps > 0).all())

    def _fits(self) -> bool:
        """Return whether the arrays form a matrix of this shape."""
        starts, columns = self.indptr, self.indices
        if len(starts) != self.shape[0] + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
            return False
        same_length = len(self.data) == len(columns) == starts[-1]
        return bool(same_length and (not len(columns) or 0 <= columns.min() <= columns.max() < self.shape[1]))

    def __repr__(self) -> str:
        """Show sizes only: ratings are private."""
        return f"SparseMatrix({self.shape[0]} x {self.shape[1]}, {self.nnz} stored)"


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Pieces of rows, with at most 32 entries each, in the order of the rows."""

    rows: IntArray
    """The row of each piece."""
    starts: IntArray
    lengths: npt.NDArray[np.uint8]

    def add_to(self, out: Numbers, dense: Numbers, indices: Numbers, weights: Numbers | None) -> None:
        """Add the contribution of these pieces to the product.

        For every k, the k-th entries of all pieces are added at once. The longest pieces come first, so that those
        with a k-th entry are contiguous.
        """
        order = np.argsort(_PIECE - self.lengths, kind="stable")
        starts = self.starts[order]
        longer = len(order) - np.cumsum(np.bincount(self.lengths))
        sums = np.empty((len(order), dense.shape[1]), dtype=out.dtype)
        gathered = np.empty_like(sums)
        for k, count in enumerate([len(order), *longer[1:-1].tolist()]):
            at = starts[:count] + k
            rows = (gathered if k else sums)[:count]
            # Columns are known to be in range; mode "clip" saves numpy a copy.
            np.take(dense, indices[at], axis=0, out=rows, mode="clip")
            if weights is not None:
                rows *= weights[at][:, None]
            if k:
                sums[:count] += rows
        first = np.flatnonzero(np.diff(self.rows, prepend=-1))
        before = out[self.rows[0]].copy()  # the first row may have started in the previous pieces
        if len(first) == len(order):
            out[self.rows[order]] = sums
        else:
            gathered[order] = sums
            out[self.rows[first]] = np.add.reduceat(gathered, first, axis=0, dtype=out.dtype)
        out[self.rows[0]] += before


def _pieces(starts: Numbers, at_once: int) -> Iterator[_Pieces]:
    """Cut the rows that start at ``starts`` into pieces, and yield ``at_once`` of them at a time."""
    counts = np.diff(starts).astype(np.int64, copy=False)
    of_row = -(-counts // _PIECE)
    rows = np.repeat(np.arange(len(counts)), of_row)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(of_row) - of_row, of_row)
    begin = starts[rows] + number * _PIECE
    lengths = np.minimum(starts[rows + 1] - begin, _PIECE).astype(np.uint8)
    for at in range(0, len(rows), at_once):
        part = slice(at, at + at_once)
        yield _Pieces(rows[part], begin[part], lengths[part])


def _column_order(columns: Numbers) -> IntArray:
    """Return the positions of all entries, sorted by column; the order within a column is kept.

    Column and position are packed into one number and sorted in place: several times faster than an argsort.
    """
    codes = columns.astype(np.int64) << 32
    if len(codes) >> 32:  # positions no longer fit into 32 bits
        return np.argsort(columns, kind="stable")
    codes |= np.arange(len(codes))
    codes.sort()
    codes &= (1 << 32) - 1
    return codes


def _starts(rows: Numbers, n_rows: int, kind: type[np.signedinteger[Any]] | np.dtype[Any]) -> Numbers:
    """Return where each row starts, and where the last one ends."""
    starts = np.zeros(n_rows + 1, dtype=kind)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=starts[1:])
    return starts


def _index_type(entries: int, shape: tuple[int, int]) -> type[np.signedinteger[Any]]:
    return np.int32 if max(entries, *shape) < 2**31 else np.int64


def _require_whole(numbers: Numbers) -> None:
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"sums are exact only for whole numbers, got {numbers.dtype}")
