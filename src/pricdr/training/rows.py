"""Sparse rows on a device, in batches: memory grows with the ratings, never with users x items."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from pricdr.data.csr import CSR


class Bags(NamedTuple):
    """A batch of sparse rows, in the form that an embedding bag takes."""

    columns: Tensor
    offsets: Tensor
    weights: Tensor
    row_of: Tensor
    """The batch row each entry belongs to."""

    def keep(self, chance: float) -> "Bags":
        """Return the batch with each entry kept with probability ``chance``, scaled to keep expected sums the same."""
        if chance >= 1:
            return self
        kept = torch.nonzero(torch.rand(len(self.columns), device=self.columns.device) < chance).squeeze(1)
        row_of = self.row_of[kept]
        counts = torch.bincount(row_of, minlength=len(self.offsets))
        return Bags(self.columns[kept], torch.cumsum(counts, 0) - counts, self.weights[kept] / chance, row_of)

    def times(self, table: Tensor) -> Tensor:
        """Return, for each sparse row, the weighted sum of the table's rows at its columns."""
        return embedding_bag(self.columns, table, self.offsets, mode="sum", per_sample_weights=self.weights)

    def dense(self, width: int) -> Tensor:
        """Return the batch as dense labels: 1 at every entry, 0 elsewhere."""
        labels = torch.zeros(len(self.offsets), width, device=self.columns.device)
        labels[self.row_of, self.columns] = 1.0
        return labels


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

    def popularity(self) -> Tensor:
        """Return the number of entries in each column, as a CPU tensor."""
        return torch.bincount(self._columns.cpu(), minlength=self.shape[1]).float()
