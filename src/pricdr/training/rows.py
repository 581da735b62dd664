"""Sparse rows on a device, in batches: memory grows with the ratings, never with users x items."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import dropout

from pricdr.data.csr import CSR
from pricdr.training.pieces import Pieces
from pricdr.training.portions import Portion


class ColumnIndex(NamedTuple):
    """The entries of a matrix in the order of their columns."""

    order: Tensor
    """Positions of the entries, sorted by column."""
    rows: Tensor
    """The row of each entry, in that order."""
    offsets: Tensor
    """Where each column starts in that order."""
    by_row: Pieces
    by_column: Pieces


class Bags(NamedTuple):
    """A batch of sparse rows, in the form that an embedding bag takes."""

    columns: Tensor
    offsets: Tensor
    weights: Tensor
    row_of: Tensor
    """The batch row each entry belongs to."""
    column_index: "ColumnIndex | None" = None
    """The same entries by column; only where the batch is a whole matrix."""
    drawn_for: Portion | None = None
    """The position of these entries among those of the whole batch, if this is a portion of one."""

    def keep(self, chance: float) -> "Bags":
        """Return the batch with each entry kept with probability ``chance``, scaled to keep expected sums the same."""
        if chance >= 1:
            return self
        if self.column_index is not None:
            # Dropped entries stay with weight 0: shapes do not change, so nothing waits for a count from the GPU.
            return self._replace(weights=dropout(self.weights, 1 - chance))
        own, whole = self.drawn_for or Portion(slice(None), len(self.columns))
        kept = torch.nonzero(torch.rand(whole, device=self.columns.device)[own] < chance).squeeze(1)
        row_of = self.row_of[kept]
        counts = torch.bincount(row_of, minlength=len(self.offsets))
        return Bags(self.columns[kept], torch.cumsum(counts, 0) - counts, self.weights[kept] / chance, row_of)

    def transposed(self, n_columns: int) -> "Bags":
        """Return the transposed matrix: one row for each of the ``n_columns`` columns."""
        if self.column_index is None:
            return self.with_column_index(n_columns).transposed(n_columns)
        index = self.column_index
        return Bags(index.rows, index.offsets, self.weights[index.order], self.columns[index.order])

    def with_column_index(self, n_columns: int) -> "Bags":
        """Return the same batch with its column index."""
        order = torch.argsort(self.columns, stable=True)
        offsets = torch.searchsorted(self.columns[order], torch.arange(n_columns, device=order.device))
        pieces = [Pieces.of(starts, len(order)) for starts in (self.offsets, offsets)]
        return self._replace(column_index=ColumnIndex(order, self.row_of[order], offsets, *pieces))

    def dense(self, width: int) -> Tensor:
        """Return the batch as dense labels: 1 at every entry, 0 elsewhere."""
        labels = torch.zeros(len(self.offsets), width, device=self.columns.device)
        labels[self.row_of, self.columns] = 1.0
        return labels


class RowSelection(NamedTuple):
    """A batch of sparse rows, given by their numbers in a whole matrix. Only our own kernels can use it.

    Its tensors have the same sizes in every batch, so that no step waits for a count from the GPU.
    """

    whole: Bags
    numbers: Tensor
    """Distinct row numbers."""

    def keep(self, chance: float) -> "RowSelection":
        """Return the batch with each entry kept with probability ``chance``, scaled to keep expected sums the same."""
        return self._replace(whole=self.whole.keep(chance))


class SparseRows:
    """The rows of a matrix, each scaled by 1/√(number of entries), so that long and short rows have equal weight.

    With ``scaled=False`` every entry weighs 1, as in the published methods.
    """

    def __init__(self, matrix: CSR, device: torch.device, *, scaled: bool = True) -> None:
        counts = np.diff(matrix.indptr)
        weights = np.repeat(1 / np.sqrt(np.maximum(counts, 1)) if scaled else np.ones(len(counts)), counts)
        self.shape: tuple[int, int] = matrix.shape
        self.counts = torch.as_tensor(counts.astype(np.int64), device=device)
        self._starts = torch.as_tensor(matrix.indptr[:-1].astype(np.int64), device=device)
        self._columns = torch.as_tensor(matrix.indices.astype(np.int64), device=device)
        self._weights = torch.as_tensor(weights.astype(np.float32), device=device)

    def portion(self, rows: Tensor, portion: Portion) -> Bags:
        """Return the entries of a portion of these rows, placed among the entries of all of them for random draws."""
        if portion.is_all:
            return self.batch(rows)
        counts = self.counts[rows]
        before, own = int(counts[: portion.own.start].sum()), int(counts[portion.own].sum())
        return self.batch(rows[portion.own])._replace(
            drawn_for=Portion(slice(before, before + own), int(counts.sum())),
        )

    def batch(self, rows: Tensor) -> Bags:
        """Return the entries of these rows."""
        counts = self.counts[rows]
        offsets = torch.cumsum(counts, 0) - counts
        total = int(counts.sum())
        row_of = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts, output_size=total)
        # The position of each entry in the whole matrix: its position in the batch, shifted by the start of its row.
        positions = torch.arange(total, device=rows.device) + (self._starts[rows] - offsets)[row_of]
        return Bags(self._columns[positions], offsets, self._weights[positions], row_of)

    def all(self) -> Bags:
        """Return the entries of every row."""
        return self.batch(torch.arange(self.shape[0], device=self.counts.device))

    @cached_property
    def whole(self) -> Bags:
        """The entries of every row with their column index: for a matrix that is multiplied many times."""
        row_of = torch.repeat_interleave(torch.arange(self.shape[0], device=self.counts.device), self.counts)
        return Bags(self._columns, self._starts, self._weights, row_of).with_column_index(self.shape[1])

    def popularity(self) -> Tensor:
        """Return the number of entries in each column, as a CPU tensor."""
        return torch.bincount(self._columns.cpu(), minlength=self.shape[1]).float()
