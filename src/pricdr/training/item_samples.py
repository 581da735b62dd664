"""Which items a batch of users is trained on: all that they rated, and a sample of the others that stands for all."""

from typing import Final, NamedTuple

import torch
from torch import Tensor

from pricdr.training.rows import Bags

LISTED: Final = 1_000_000
"""Up to so many items, those that a batch did not rate are listed to draw from; of more, a step touches none but those
it is trained on."""


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
    drawn = _others(own, n_items, others)
    labels = torch.zeros(len(rated.offsets), len(own) + len(drawn), device=device)
    labels[rated.row_of, place] = 1.0
    weights = torch.ones(labels.shape[1], device=device)
    weights[len(own) :] = (n_items - len(own)) / max(len(drawn), 1)
    return ItemSample(torch.cat([own, drawn]), labels, weights)


def _others(own: Tensor, n_items: int, count: int) -> Tensor:
    """Return so many items that are not among ``own``, which ascend; fewer where there are fewer."""
    if n_items > LISTED and 4 * (count + len(own)) < n_items:
        # Any set of distinct draws is as likely as any other of its size. So is a part of one, taken at random.
        drawn = torch.unique(torch.randint(n_items, (2 * count + 64,), device=own.device))
        at = torch.searchsorted(own, drawn).clamp(max=max(len(own) - 1, 0))
        rest = drawn[own[at] != drawn] if len(own) else drawn
    else:
        left = torch.ones(n_items, dtype=torch.bool, device=own.device)
        left[own] = False
        rest = torch.nonzero(left).squeeze(1)
    chosen: Tensor = rest[torch.randperm(len(rest), device=own.device)[:count]]
    return chosen
