"""Which items a batch of users is trained on: all that they rated, and a sample of the others that stands for all."""

from typing import NamedTuple

import torch
from torch import Tensor

from pricdr.training.rows import Bags


class ItemSample(NamedTuple):
    """Some of the items, with what a batch of users makes of them."""

    items: Tensor
    """Their numbers."""
    labels: Tensor
    """One row per user, one column per item: 1 where the user rated it, 0 elsewhere."""
    weights: Tensor
    """How many items each of them stands for."""


def sample_items(rated: Bags, n_items: int, others: int) -> ItemSample:
    """Return every item that the batch rated, each for itself, and ``others`` more that stand for all the rest.

    The others are drawn without replacement, all alike. So a sum over the sample, weighted, is on average the sum over
    all items: exactly what training on every item would minimise, at a fraction of the work. What varies is little,
    since popular items, where most of a loss lies, are nearly always among those the batch rated.
    """
    device = rated.columns.device
    own, place = torch.unique(rated.columns, return_inverse=True)
    left = torch.ones(n_items, dtype=torch.bool, device=device)
    left[own] = False
    rest = torch.nonzero(left).squeeze(1)
    drawn = rest[torch.randperm(len(rest), device=device)[:others]]
    labels = torch.zeros(len(rated.offsets), len(own) + len(drawn), device=device)
    labels[rated.row_of, place] = 1.0
    weights = torch.ones(labels.shape[1], device=device)
    weights[len(own) :] = len(rest) / max(len(drawn), 1)
    return ItemSample(torch.cat([own, drawn]), labels, weights)
