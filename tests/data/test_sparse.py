import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pricdr.data import sparse
from pricdr.data.ratings import Ratings
from pricdr.data.sparse import SparseMatrix
from pricdr.errors import InputError


@st.composite
def matrices(draw, kinds=(np.int64,)):
    """The same matrix as ours and as scipy's; sometimes a row is much longer than a piece."""
    rows, columns = draw(st.integers(1, 12)), draw(st.sampled_from([1, 3, 40, 300]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = rng.random((rows, 1)) * draw(st.sampled_from([0.0, 0.1, 1.0]))
    cells = rng.integers(-9, 10, (rows, columns)) * (rng.random((rows, columns)) < share)
    if draw(st.booleans()):
        cells = np.sign(np.abs(cells))  # ones, which are added without multiplication
    cells = cells.astype(draw(st.sampled_from(kinds)))
    return SparseMatrix.from_dense(cells), sp.csr_array(cells)


@given(matrices(kinds=(np.int32, np.int64)), st.sampled_from([1, 2, 7]), st.sampled_from([1, 16, 1 << 16]))
def test_products_equal_scipys_for_any_block_size(both, width, cells):
    ours, theirs = both
    dense = np.random.default_rng(0).integers(-(2**40), 2**40, (theirs.shape[1], width))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "_CELLS_AT_ONCE", cells)
        product = ours @ dense
    np.testing.assert_array_equal(product, theirs @ dense)
    assert product.dtype == (theirs @ dense).dtype
    back = np.random.default_rng(1).integers(-9, 9, (theirs.shape[0], width)).astype(theirs.dtype)
    np.testing.assert_array_equal(ours.transposed @ back, theirs.T @ back)
    np.testing.assert_array_equal(ours.row_sums(), theirs.sum(axis=1))
    np.testing.assert_array_equal(ours.transposed.toarray(), theirs.toarray().T)


def test_a_row_of_a_million_entries():
    data = np.random.default_rng(0).integers(0, 9, 10**6)
    long = SparseMatrix(data, np.zeros(10**6, dtype=np.int32), np.array([0, 0, 10**6, 10**6]), (3, 1))
    assert (long @ np.array([[2, -1]])).tolist() == [[0, 0], [2 * data.sum(), -data.sum()], [0, 0]]


@given(matrices(), st.data())
def test_slices_and_selections_equal_scipys(both, data):
    ours, theirs = both
    rows, columns = theirs.shape
    start, stop = sorted(data.draw(st.tuples(st.integers(0, rows), st.integers(0, rows))))
    np.testing.assert_array_equal(ours.rows(slice(start, stop)).toarray(), theirs.toarray()[start:stop])
    chosen = np.array(data.draw(st.permutations(range(rows)))[: data.draw(st.integers(0, rows))], dtype=np.int64)
    kept = np.flatnonzero(np.random.default_rng(0).random(columns) < 0.5)
    there = ours.at(rows=chosen, columns=kept)
    np.testing.assert_array_equal(there.toarray(), theirs.toarray()[chosen][:, kept])
    keep = np.random.default_rng(1).random(ours.nnz) < 0.5
    only = ours.only(keep)
    assert only.nnz == keep.sum()
    np.testing.assert_array_equal(only.data, ours.data[keep])
    np.testing.assert_array_equal(only.entry_rows, ours.entry_rows[keep])
    places = np.random.default_rng(2).integers(0, 3, columns)
    merged = ours.merged(places, 3)
    np.testing.assert_array_equal(merged.toarray(), theirs.toarray() @ np.eye(3, dtype=np.int64)[places])
    assert all(matrix.is_canonical() for matrix in (ours, there, only, merged, ours.transposed))
    assert (merged.to_scipy() != sp.csr_array(merged.toarray())).nnz == 0


def test_conversions_from_and_to_scipy_share_arrays():
    theirs = sp.csr_array(np.eye(3))
    ours = SparseMatrix.of(theirs)
    assert np.shares_memory(ours.data, theirs.data)
    assert all(np.shares_memory(getattr(ours.to_scipy(), a), getattr(ours, a)) for a in ("data", "indices", "indptr"))
    assert Ratings(theirs, ("a", "b", "c"), ("x", "y", "z")).matrix.toarray().tolist() == np.eye(3).tolist()


def test_only_whole_numbers_are_summed():
    half = SparseMatrix.from_dense(np.array([[0.5]]))
    for computed in (half.row_sums, lambda: half @ np.ones((1, 1)), lambda: half @ np.ones((1, 1), dtype=np.int64)):
        with pytest.raises(TypeError, match="only for whole numbers, got float64"):
            computed()


def _changed(**arrays):
    """A matrix of scipy whose arrays were replaced by invalid ones."""
    matrix = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    for name, array in arrays.items():
        setattr(matrix, name, np.asarray(array, dtype=getattr(matrix, name).dtype))
    return matrix


@pytest.mark.parametrize(
    "wrong",
    [
        _changed(indices=[0, 3, 1]),
        _changed(indices=[0, -1, 1]),
        _changed(indptr=[0, 4, 3]),
        _changed(indptr=[0, 3]),
        _changed(indptr=[1, 2, 3]),
        _changed(data=[1.0, 2.0]),
        _changed().tocsc(),
        _changed().tocoo(),
        np.eye(2),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_arrays_that_do_not_form_a_matrix_are_refused(wrong):
    with pytest.raises(InputError, match=r"do not fit 2 x 3|stored by rows \(CSR\), got"):
        SparseMatrix.of(wrong)


def test_a_repeated_entry_is_refused():
    with pytest.raises(InputError, match="more than once"):
        SparseMatrix.from_cells(np.array([0, 1, 0]), np.array([1, 1, 1]), np.ones(3), (2, 2))
