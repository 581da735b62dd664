"""Scores of user-item pairs, with gradients that never hold one vector per pair."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


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
