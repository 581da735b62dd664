"""Losses, and the scores of user-item pairs, as pure functions of tensors."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, embedding_bag


def cross_entropy_per_user(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each user's binary cross-entropy, summed over every item; unobserved items are labelled 0."""
    return binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(dim=1)


def mean_cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the binary cross-entropy as a weighted sum over items and a mean over users."""
    return binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="sum") / len(labels)


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


def pair_scores(user_vectors: Tensor, item_vectors: Tensor, item_bias: Tensor, users: Tensor, items: Tensor) -> Tensor:
    """Return ⟨P_u, Q_i⟩ + b_i for users (b,) and their candidate items (b, c).

    This equals gathering both vectors of every pair and multiplying them. But that writes the gathered vectors, their
    product and both gradients to memory and reads them back, which takes several times as long as the arithmetic.

    >>> import torch
    >>> items, bias = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0.0, 0.5])
    >>> pair_scores(torch.eye(2), items, bias, torch.tensor([1]), torch.tensor([[0, 1]]))
    tensor([[2.0000, 4.5000]])
    """
    scores: Tensor = _PairScores.apply(user_vectors, item_vectors, item_bias, users, items)  # type: ignore[no-untyped-call]
    return scores


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        user_vectors: Tensor,
        item_vectors: Tensor,
        item_bias: Tensor,
        users: Tensor,
        items: Tensor,
    ) -> Tensor:
        own = user_vectors[users]
        ctx.save_for_backward(own, item_vectors, users, items)
        ctx.n_users = len(user_vectors)
        # ⟨P_u, Q_i⟩ is the derivative of ⟨P_u, Σ w Q_i⟩ by the weight w, which torch computes in one fused operation.
        weights = torch.zeros(items.shape, dtype=own.dtype, device=own.device, requires_grad=True)
        with torch.enable_grad():
            sums = embedding_bag(items, item_vectors.detach(), mode="sum", per_sample_weights=weights)
        return torch.autograd.grad(sums, weights, own)[0] + item_bias[items]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ANN401 - torch's context, and one gradient per input
        own, item_vectors, users, items = ctx.saved_tensors
        grad, flat_items = grads[0].contiguous(), items.flatten()
        to_own = embedding_bag(items, item_vectors, mode="sum", per_sample_weights=grad)
        to_users = torch.zeros(ctx.n_users, own.shape[1], dtype=own.dtype, device=own.device)
        to_users.index_add_(0, users, to_own)
        # For each item: the rows of the batch that scored it, and their weights.
        order = torch.argsort(flat_items)
        counts = torch.bincount(flat_items, minlength=len(item_vectors))
        rows = torch.div(order, items.shape[1], rounding_mode="floor")
        to_items = embedding_bag(
            rows, own, torch.cumsum(counts, 0) - counts, mode="sum", per_sample_weights=grad.flatten()[order]
        )
        to_bias = torch.bincount(flat_items, grad.flatten(), minlength=len(item_vectors)).to(own.dtype)
        return to_users, to_items, to_bias, None, None
