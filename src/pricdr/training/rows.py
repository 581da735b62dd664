"""Sparse rows on a device, handed out in batches: memory grows with the ratings, never with users x items."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import dropout

from pricdr.data.csr import CSR
from pricdr.training.pieces import Pieces
from pricdr.training.portions import Portion


class Mirror(NamedTuple):
    """Where the entries of a matrix lie when they are put in order by column."""

    order: Tensor
    rows: Tensor
    offsets: Tensor
    by_row: Pieces
    by_column: Pieces


class Bags(NamedTuple):
    """A batch of sparse rows, as an embedding bag takes them."""

    columns: Tensor
    offsets: Tensor
    weights: Tensor
    row_of: Tensor
    """The batch row each entry belongs to."""
    mirror: "Mirror | None" = None
    """The same entries by column, where the batch is a whole matrix."""
    drawn_for: Portion | None = None
    """Where these entries lie among those of the whole batch, if this is a portion of one."""

    def keep(self, chance: float) -> "Bags":
        """Return the batch with each entry kept with this probability, scaled so that expected sums stay the same."""
        if chance >= 1:
            return self
        if self.mirror is not None:
            # Left in with weight 0: the matrix stays as it is, and nobody waits to learn how many entries are left.
            return self._replace(weights=dropout(self.weights, 1 - chance))
        own, whole = self.drawn_for or Portion(slice(None), len(self.columns))
        kept = torch.nonzero(torch.rand(whole, device=self.columns.device)[own] < chance).squeeze(1)
        row_of = self.row_of[kept]
        counts = torch.bincount(row_of, minlength=len(self.offsets))
        return Bags(self.columns[kept], torch.cumsum(counts, 0) - counts, self.weights[kept] / chance, row_of)

    def transposed(self, n_columns: int) -> "Bags":
        """Return the same entries by column: a row for each of ``n_columns``, with the rows they came from."""
        if self.mirror is None:
            return self.mirrored(n_columns).transposed(n_columns)
        mirror = self.mirror
        return Bags(mirror.rows, mirror.offsets, self.weights[mirror.order], self.columns[mirror.order])

    def mirrored(self, n_columns: int) -> "Bags":
        """Return the same batch, which also knows where its entries lie when they are put in order by column."""
        order = torch.argsort(self.columns, stable=True)
        offsets = torch.searchsorted(self.columns[order], torch.arange(n_columns, device=order.device))
        pieces = [Pieces.of(starts, len(order)) for starts in (self.offsets, offsets)]
        return self._replace(mirror=Mirror(order, self.row_of[order], offsets, *pieces))

    def dense(self, width: int) -> Tensor:
        """Return the labels of a batch: 1 at every entry, 0 elsewhere."""
        labels = torch.zeros(len(self.offsets), width, device=self.columns.device)
        labels[self.row_of, self.columns] = 1.0
        return labels


class Picked(NamedTuple):
    """A batch of sparse rows, by their numbers in a whole matrix: as many entries in every batch, most without weight.

    So nothing has to be counted before it can be computed, and nobody waits for a GPU. Takes kernels of our own.
    """

    whole: Bags
    numbers: Tensor
    """No row twice."""

    def keep(self, chance: float) -> "Picked":
        """Return the batch with each entry kept with this probability, scaled so that expected sums stay the same."""
        return self._replace(whole=self.whole.keep(chance))


class SparseRows:
    """Rows of a matrix, each scaled by 1/√(its entries), so that long and short ones weigh in alike.

    With ``scaled`` false every entry weighs 1, as the printed methods have it.
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
        """Return the entries of a portion of these rows, which knows of the others what random draws must know."""
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
        # Where each entry lies in the whole matrix: its place in the batch, moved by its row's start.
        at = torch.arange(total, device=rows.device) + (self._starts[rows] - offsets)[row_of]
        return Bags(self._columns[at], offsets, self._weights[at], row_of)

    def all(self) -> Bags:
        """Return the entries of every row."""
        return self.batch(torch.arange(self.shape[0], device=self.counts.device))

    @cached_property
    def whole(self) -> Bags:
        """The entries of every row, which know their order by column too: for what is multiplied again and again."""
        row_of = torch.repeat_interleave(torch.arange(self.shape[0], device=self.counts.device), self.counts)
        return Bags(self._columns, self._starts, self._weights, row_of).mirrored(self.shape[1])

    def popularity(self) -> Tensor:
        """Return how many rows have each column, on the processor."""
        return torch.bincount(self._columns.cpu(), minlength=self.shape[1]).float()
