"""The matrices of ratings: what is refused from outside, and products that are exact and take one path."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, strategies as st
from scipy.sparse import _sparsetools

from pricdr.data.blocks import as_matrix
from pricdr.data.csr import (
    as_csr,
    csr_of_cells,
    entry_rows,
    exact_product,
    exact_product_by_pieces,
    exact_row_sums,
    kept_entries,
    moved_entries,
)
from pricdr.data.ratings import Ratings
from pricdr.errors import InputError


@st.composite
def matrices(draw):
    rows, columns = draw(st.integers(1, 12)), draw(st.sampled_from([1, 3, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = rng.random((rows, 1)) * draw(st.sampled_from([0.0, 0.1, 1.0]))
    return sp.csr_array(rng.integers(-9, 10, (rows, columns)) * (rng.random((rows, columns)) < share))


@given(matrices(), st.sampled_from([np.int32, np.int64]), st.sampled_from([1, 2, 7]))
def test_sums_are_exact_in_the_wider_type_of_rows_and_of_columns(matrix, kind, width):
    matrix, cells = matrix.astype(kind), matrix.toarray().astype(object)
    for one, dense_of in ((matrix, cells), (matrix.T, cells.T)):
        vectors = np.random.default_rng(0).integers(-(2**40), 2**40, (one.shape[1], width))
        product = exact_product(one, vectors)
        assert product.dtype == np.int64
        np.testing.assert_array_equal(product, dense_of @ vectors.astype(object))
        np.testing.assert_array_equal(exact_row_sums(one), dense_of.sum(axis=1))
    assert exact_product(matrix, np.ones((matrix.shape[1], 2), dtype=np.int32)).dtype == kind


@given(matrices(), st.data())
def test_selections_hold_the_right_cells(matrix, data):
    (rows, columns), cells = matrix.shape, matrix.toarray()
    keep = np.random.default_rng(1).random(matrix.nnz) < 0.5
    kept = kept_entries(matrix, keep)
    np.testing.assert_array_equal(kept.data, matrix.data[keep])
    np.testing.assert_array_equal(entry_rows(kept), matrix.tocoo().row[keep])
    chosen = np.array(data.draw(st.permutations(range(rows)))[: data.draw(st.integers(0, rows))], dtype=np.int64)
    new_row, everywhere = np.full(rows, -1), np.arange(columns)[::-1]
    new_row[chosen] = np.arange(len(chosen))
    moved = moved_entries(matrix, new_row, everywhere, (len(chosen), columns))
    np.testing.assert_array_equal(moved.toarray(), cells[chosen][:, ::-1])
    assert all(one.has_canonical_format for one in (kept, moved))


@given(matrices(), st.sampled_from([1, 3, 200]), st.sampled_from([np.int32, np.int64]))
def test_sums_by_pieces_are_exact_up_to_the_last_bit_of_16(matrix, entries, total):
    """However a row is cut, and where every piece is as large as it may be."""
    largest = (2**15 - 1) // (9 * entries)
    dense = np.random.default_rng(0).integers(-largest, largest, (matrix.shape[1], 3), endpoint=True).astype(np.int16)
    product = exact_product_by_pieces(matrix, dense, entries, total)
    assert product.dtype == total
    np.testing.assert_array_equal(product, matrix.toarray() @ dense.astype(total))
    full = sp.csr_array(np.full((2, 200), 9))
    top = np.full((200, 1), largest, dtype=np.int16)
    assert exact_product_by_pieces(full, top, entries, total).ravel().tolist() == [200 * 9 * largest] * 2


def test_only_whole_numbers_are_summed():
    half = sp.csr_array(np.array([[0.5]]))
    whole = sp.csr_array(np.array([[1]]))
    for matrix, dense in ((half, np.ones((1, 1), dtype=np.int64)), (whole, np.ones((1, 1)))):
        with pytest.raises(TypeError, match="only for whole numbers, got float64"):
            exact_product(matrix, dense)


@pytest.mark.parametrize("by", ["csr", "csc"])
def test_a_product_takes_the_same_path_whatever_the_values_are(monkeypatch, by):
    """Ones, other ratings, or ratings forced to 0: the same compiled loop over as many entries of the same types."""
    name, seen = f"{by}_matvecs", []
    compiled = getattr(_sparsetools, name)

    def counting(*arguments):
        seen.append([part if isinstance(part, int) else (part.dtype, part.shape) for part in arguments])
        return compiled(*arguments)

    monkeypatch.setattr(_sparsetools, name, counting)
    pattern = sp.csr_array(np.random.default_rng(0).random((30, 20)) < 0.3).astype(np.int32)
    for values in (np.ones(pattern.nnz), np.arange(pattern.nnz), np.zeros(pattern.nnz)):
        matrix = sp.csr_array((values.astype(np.int32), pattern.indices, pattern.indptr), shape=pattern.shape)
        one = matrix if by == "csr" else matrix.T
        exact_product(one, np.ones((one.shape[1], 4), dtype=np.int32))
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]


def _changed(**arrays):
    """A matrix of scipy whose arrays were replaced by invalid ones, and which says that it is canonical."""
    matrix = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    assert matrix.has_canonical_format, "asked once, scipy remembers the answer"
    for name, array in arrays.items():
        setattr(
            matrix, name, array if isinstance(array, np.ndarray) else np.asarray(array, getattr(matrix, name).dtype)
        )
    return matrix


def test_what_does_not_form_a_matrix_is_refused():
    """A product would read out of bounds, or a cell would count twice and move a row by more than its bound."""
    for wrong in (
        *(_changed(indices=columns) for columns in ([0, 3, 1], [0, -1, 1], [0, 0, 1], [2, 0, 1])),
        *(_changed(indptr=starts) for starts in ([0, 4, 3], [0, 2**31 - 1, -(2**31)], [0, -1, 3], [0, 3], [1, 2, 3])),
        *(_changed(data=values) for values in ([1.0, 2.0], [1.0, np.nan, 2.0])),
        _changed(indices=np.array([0.0, 2.0, 1.0])),
        _changed(data=np.array([1.0, 1.0j, 2.0])),
        _changed(data=np.array([1, "x", 2], dtype=object)),
        _changed(data=np.ones((3, 1))),
        _changed().tocoo(),
        _changed().tocsc(),
        np.eye(2),
    ):
        for use in (as_csr, lambda one: Ratings(one, ("a", "b"), ("x", "y", "z")), as_matrix):
            with pytest.raises(InputError, match=r"^a sparse matrix "):
                use(wrong)


def test_a_cell_that_occurs_twice_is_refused_and_cells_may_come_in_any_order():
    with pytest.raises(InputError, match="more than once"):
        csr_of_cells(np.array([0, 1, 0]), np.array([1, 1, 1]), np.ones(3), (2, 2))
    made = csr_of_cells(np.array([1, 0, 0]), np.array([0, 2, 1]), np.array([1.0, 2.0, 3.0]), (2, 3))
    assert made.toarray().tolist() == [[0.0, 3.0, 2.0], [1.0, 0.0, 0.0]]


def test_ratings_share_the_arrays_of_a_matrix_and_do_not_change():
    theirs = sp.csr_array(np.eye(3))
    ratings = Ratings(theirs, ("a", "b", "c"), ("x", "y", "z"))
    assert np.shares_memory(ratings.matrix.data, theirs.data)
    with pytest.raises(ValueError, match="read-only"):
        ratings.matrix.data *= 2
    assert Ratings(sp.csr_matrix(np.eye(3, dtype=int)), ratings.users, ratings.items).matrix.dtype == np.float64
