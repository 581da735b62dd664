"""The losses of the networks, as pure functions of tensors."""

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def cross_entropy_per_user(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each user's binary cross-entropy, summed over every item; unobserved items are labelled 0."""
    return binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(dim=1)


def mean_cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor, users: int | None = None) -> Tensor:
    """Return the binary cross-entropy as a weighted sum over items and a mean over users.

    ``users`` is the size of the whole batch where these rows are a portion of it; the portions' losses then add up.
    """
    summed = binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="sum")
    return summed / (len(labels) if users is None else users)


def normalised_cross_entropy(cosines: Tensor, labels: Tensor) -> Tensor:
    """Return DMF's loss on bare cosines, clamped into (0, 1), summed over items and users as the paper prints it."""
    chance = cosines.clamp(1e-6, 1 - 1e-6)
    return -(labels * chance.log() + (1 - labels) * (1 - chance).log()).sum()


def alignment(left: Tensor, right: Tensor) -> Tensor:
    """Return Σ‖Uᴬ − Uᴮ‖², user by user: row u of one against row u of the other, without broadcasting.

    >>> import torch
    >>> float(alignment(torch.ones(3, 2), torch.zeros(3, 2)))
    6.0
    """
    if left.shape != right.shape or left.dim() != 2:
        raise ValueError(f"alignment pairs user with user: {tuple(left.shape)} and {tuple(right.shape)} do not pair")
    return ((left - right) ** 2).sum()
