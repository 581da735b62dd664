"""Scores of pairs of users and items, with gradients that never hold a vector for every pair."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


def pair_scores(user_vectors: Tensor, item_vectors: Tensor, users: Tensor, items: Tensor) -> Tensor:
    """Return ⟨P_u, Q_i⟩ for users (b,) and the items (b, c) that each of them meets.

    The same as gathering both vectors of every pair and multiplying them. But then the gathered vectors, their product
    and the gradients of both are written to memory and read back, which takes several times as long as the arithmetic.

    >>> import torch
    >>> pair_scores(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1]), torch.tensor([[0, 1]]))
    tensor([[2., 4.]])
    """
    scores: Tensor = _PairScores.apply(user_vectors, item_vectors, users, items)  # type: ignore[no-untyped-call]
    return scores


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, user_vectors: Tensor, item_vectors: Tensor, users: Tensor, items: Tensor) -> Tensor:  # noqa: ANN401 - torch's context
        own = user_vectors[users]
        ctx.save_for_backward(own, item_vectors, users, items)
        ctx.n_users = len(user_vectors)
        # ⟨P_u, Q_i⟩ is how fast Σ w Q_i grows along P_u with the weight w: torch has this, fused, as a gradient.
        weights = torch.zeros(items.shape, dtype=own.dtype, device=own.device, requires_grad=True)
        with torch.enable_grad():
            sums = embedding_bag(items, item_vectors.detach(), mode="sum", per_sample_weights=weights)
        return torch.autograd.grad(sums, weights, own)[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ANN401 - torch's context, and one gradient per input
        own, item_vectors, users, items = ctx.saved_tensors
        (grad,) = grads
        to_own = embedding_bag(items, item_vectors, mode="sum", per_sample_weights=grad.contiguous())
        to_users = torch.zeros(ctx.n_users, own.shape[1], dtype=own.dtype, device=own.device)
        to_users.index_add_(0, users, to_own)
        # Item by item: which rows of the batch met it, and with what weight.
        order = torch.argsort(items.flatten())
        counts = torch.bincount(items.flatten(), minlength=len(item_vectors))
        rows = torch.div(order, items.shape[1], rounding_mode="floor")
        to_items = embedding_bag(
            rows, own, torch.cumsum(counts, 0) - counts, mode="sum", per_sample_weights=grad.flatten()[order]
        )
        return to_users, to_items, None, None
