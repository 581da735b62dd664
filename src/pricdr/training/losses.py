"""Pure tensor functions."""

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def by_user(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy over every item, unobserved ones as 0, summed over items."""
    return binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(dim=1)


def all_items(logits: Tensor, labels: Tensor) -> Tensor:
    """The same, averaged over users."""
    return by_user(logits, labels).mean()


def normalised_cross_entropy(cosines: Tensor, labels: Tensor) -> Tensor:
    """DMF's loss on bare cosines, clamped into (0, 1): summed over items and users, as the paper prints it."""
    chance = cosines.clamp(1e-6, 1 - 1e-6)
    return -(labels * chance.log() + (1 - labels) * (1 - chance).log()).sum()


def alignment(left: Tensor, right: Tensor) -> Tensor:
    """Σ‖Uᴬ − Uᴮ‖² **per user**: row u of one with row u of the other, and nothing broadcast.

    >>> import torch
    >>> float(alignment(torch.ones(3, 2), torch.zeros(3, 2)))
    6.0
    """
    if left.shape != right.shape or left.dim() != 2:
        raise ValueError(f"alignment pairs user with user: {tuple(left.shape)} and {tuple(right.shape)} do not pair")
    return ((left - right) ** 2).sum()
