"""Parts of a network in fewer passes over memory, which is what they cost on a GPU: the same values and gradients.

Written out in torch's own operations, most of a step's time goes into reading and writing tensors of items x hidden and
users x items. Here what is read twice is read once, and what can be overwritten is.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import dropout, softplus

from pricdr.training.rows import Bags


def dropped_relu(units: Tensor, share: float) -> Tensor:
    """Return ``dropout(relu(units), share)``; what comes out is remembered in place of what went in and the mask."""
    return _DroppedReLU.apply(units, share)  # type: ignore[no-any-return, no-untyped-call]


class _DroppedReLU(Function):
    @staticmethod
    def forward(ctx: Any, units: Tensor, share: float) -> Tensor:  # noqa: ANN401
        out = dropout(units.relu(), share)
        ctx.save_for_backward(out)
        ctx.scale = 1 / (1 - share)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        (out,) = ctx.saved_tensors
        # What is 0 was negative or dropped: either way nothing comes back through it.
        return torch.ops.aten.threshold_backward(grads[0], out, 0).mul_(ctx.scale), None


def unit_rows(rows: Tensor) -> Tensor:
    """Return the rows at length 1; rows of zeros stay."""
    return _UnitRows.apply(rows)  # type: ignore[no-any-return, no-untyped-call]


class _UnitRows(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:  # noqa: ANN401
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_(min=1e-12)
        unit: Tensor = rows / lengths
        ctx.save_for_backward(unit, lengths)
        return unit

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ANN401
        unit, lengths = ctx.saved_tensors
        (grad,) = grads
        # The part along a row changes its length alone, which is 1 whatever it was.
        along = torch.linalg.vecdot(unit, grad).unsqueeze(1)
        across: Tensor = torch.addcmul(grad, unit, along, value=-1).div_(lengths)
        return across


def all_items_loss(users: Tensor, items: Tensor, bias: Tensor, rated: Bags) -> Tensor:
    """Return the binary cross-entropy of users · itemsᵀ + bias, summed over all items, and its mean over users."""
    with torch.autocast(users.device.type, enabled=False):
        entries = rated.row_of * len(items) + rated.columns
        return _AllItemsLoss.apply(users.float(), items.float(), bias, entries)  # type: ignore[no-any-return, no-untyped-call]


class _AllItemsLoss(Function):
    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, bias: Tensor, entries: Tensor) -> Tensor:  # noqa: ANN401
        logits = torch.addmm(bias, users, items.T)
        ctx.save_for_backward(users, items, entries)
        ctx.logits = logits  # not saved as torch saves tensors: it is overwritten on the way back
        return (softplus(logits).sum() - logits.view(-1)[entries].sum()) / len(users)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # noqa: ANN401
        users, items, entries = ctx.saved_tensors
        scale = grads[0] / len(users)
        errors = ctx.logits.sigmoid_()  # σ(x) − y
        errors.view(-1)[entries] -= 1
        del ctx.logits
        return (errors @ items).mul_(scale), (errors.T @ users).mul_(scale), errors.sum(dim=0).mul_(scale), None
