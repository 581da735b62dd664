"""Sparse rows on a device, in batches, and draws of items that were not rated: memory grows with the ratings alone."""

from typing import Final, NamedTuple

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
    row_of: Tensor  # the batch row each entry belongs to

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
    """Rows of a matrix, scaled by 1/√(entries), so that long and short ones weigh the same; 1 if not ``scaled``."""

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


LISTED: Final = 1_000_000  # items whose unrated ones are listed; beyond it, no step builds anything of that size

_SLOTS_PER_RATING: Final = 32  # of a lookup table: about one unrated pair in 32 is then searched for needlessly
_ROUNDS: Final = 8  # of draws anew for rated items; the few that remain are negligible and harmless


class ItemSample(NamedTuple):
    """The items of one training step, with their labels for a batch of users."""

    items: Tensor  # positions of the items
    labels: Tensor  # one row per user, one column per item: 1 where the user rated it, 0 elsewhere
    weights: Tensor  # how many items each one stands for


def sample_items(rated: Bags, n_items: int, others: int) -> ItemSample:
    """Return every item the batch rated, with weight 1, and ``others`` more that stand for all the rest.

    Drawn uniformly without replacement, they make the expected sum that of all items, at a fraction of the work. It
    varies little, since popular items, which carry most of the loss, are nearly always among the rated ones.
    """
    device = rated.columns.device
    rated_items, label_columns = torch.unique(rated.columns, return_inverse=True)
    drawn = _draw_others(rated_items, n_items, others)
    labels = torch.zeros(len(rated.offsets), len(rated_items) + len(drawn), device=device)
    labels[rated.row_of, label_columns] = 1.0
    weights = torch.ones(labels.shape[1], device=device)
    weights[len(rated_items) :] = (n_items - len(rated_items)) / max(len(drawn), 1)
    return ItemSample(torch.cat([rated_items, drawn]), labels, weights)


def _draw_others(rated_items: Tensor, n_items: int, count: int) -> Tensor:
    """Return ``count`` items that are not in ``rated_items`` (ascending), or all of them if there are fewer."""
    if n_items > LISTED and 4 * (count + len(rated_items)) < n_items:
        # All sets of distinct draws of one size are equally likely, and so are random subsets of them.
        drawn = torch.unique(torch.randint(n_items, (2 * count + 64,), device=rated_items.device))
        nearest = torch.searchsorted(rated_items, drawn).clamp(max=max(len(rated_items) - 1, 0))
        rest = drawn[rated_items[nearest] != drawn] if len(rated_items) else drawn
    else:
        is_unrated = torch.ones(n_items, dtype=torch.bool, device=rated_items.device)
        is_unrated[rated_items] = False
        rest = torch.nonzero(is_unrated).squeeze(1)
    chosen: Tensor = rest[torch.randperm(len(rest), device=rated_items.device)[:count]]
    return chosen


class Negatives:
    """Uniform draws of items not rated in training: held-out ones too, or the model would learn which those are."""

    def __init__(self, ratings: CSR, device: torch.device) -> None:
        n_users, self._n_items = ratings.shape
        rows = np.repeat(np.arange(n_users, dtype=np.int64), np.diff(ratings.indptr))
        self._rated = torch.as_tensor(rows * self._n_items + ratings.indices.astype(np.int64), device=device)
        self._slots = 1 << (_SLOTS_PER_RATING * max(len(self._rated), 1) - 1).bit_length()
        self._may_be_rated = torch.zeros(self._slots, dtype=torch.bool, device=device)
        self._may_be_rated[self._rated % self._slots] = True

    def draw(self, users: Tensor, count: int) -> Tensor:
        """Return ``count`` items for each of ``users``, one row each."""
        drawn = torch.randint(self._n_items, (len(users), count), device=users.device)
        for _ in range(_ROUNDS):
            rated = self._is_rated(users, drawn)
            # Only on a CPU: a GPU would have to stop for the answer.
            if users.device.type == "cpu" and not rated.any():
                break
            drawn = torch.where(rated, torch.randint(self._n_items, drawn.shape, device=users.device), drawn)
        return drawn

    def _is_rated(self, users: Tensor, items: Tensor) -> Tensor:
        # Each pair as one number, to search for it among the sorted rated pairs.
        keys = users[:, None] * self._n_items + items
        if users.device.type != "cpu":
            return self._among_rated(keys)
        # One table lookup rules out nearly every pair; only the rest is searched for.
        rated = self._may_be_rated[keys & (self._slots - 1)]
        rated[rated.clone()] = self._among_rated(keys[rated])
        return rated

    def _among_rated(self, keys: Tensor) -> Tensor:
        nearest = torch.searchsorted(self._rated, keys).clamp(max=max(len(self._rated) - 1, 0))
        rated: Tensor = self._rated[nearest] == keys
        return rated
