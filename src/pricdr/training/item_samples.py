"""The items a batch of users is trained on: every item they rated, and a weighted sample of the rest."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from pricdr.training.rows import Bags

LISTED: Final = 1_000_000
"""Up to this many items, the unrated ones are listed and drawn from. Beyond it, nothing of the size of the catalogue is
built in a step."""


class ItemSample(NamedTuple):
    """The items of one training step, with their labels for a batch of users."""

    items: Tensor
    """Positions of the items."""
    labels: Tensor
    """One row per user, one column per item: 1 where the user rated it, 0 elsewhere."""
    weights: Tensor
    """How many items each one stands for."""


def sample_items(rated: Bags, n_items: int, others: int) -> ItemSample:
    """Return every item the batch rated, with weight 1, and ``others`` more that stand for all the rest.

    The others are drawn uniformly without replacement, so the expected weighted sum over the sample is the sum over all
    items: what training on every item would minimise, at a fraction of the work. The variance is small, since popular
    items, which carry most of the loss, are nearly always among those the batch rated.
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
