"""Parts of a network in fewer passes over memory, with the same values and gradients.

With torch's own operations, a GPU spends most of a step reading and writing tensors of items x hidden and users x
items. Here a tensor is read once instead of twice, and overwritten where possible.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import dropout, softplus

from pricdr.training.accelerated import kernels_for
from pricdr.training.rows import Bags, RowSelection


def dropped_relu(units: Tensor, share: float) -> Tensor:
    """Return ``dropout(relu(units), share)``, saving only the result for the backward pass: no input and no mask."""
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
        # A 0 was negative or dropped: its gradient is 0 either way.
        return torch.ops.aten.threshold_backward(grads[0], out, 0).mul_(ctx.scale), None


def unit_rows(rows: Tensor) -> Tensor:
    """Return the rows scaled to length 1; rows of zeros stay as they are."""
    return _UnitRows.apply(rows)  # type: ignore[no-any-return, no-untyped-call]


class _UnitRows(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:  # noqa: ANN401
        kernels = kernels_for(rows.device)
        ctx.kernels = kernels if kernels is not None and kernels.fits_unit_rows(rows) else None
        unit: Tensor
        if ctx.kernels is not None:
            unit, lengths = ctx.kernels.unit_rows(rows)
        else:
            lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_(min=1e-12)
            unit = rows / lengths
        ctx.save_for_backward(unit, lengths)
        return unit

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ANN401
        unit, lengths = ctx.saved_tensors
        (grad,) = grads
        if ctx.kernels is not None:
            back: Tensor = ctx.kernels.unit_rows_back(grad, unit, lengths)
            return back
        # The component along a row only changes its length, which is normalised to 1 anyway.
        along = torch.linalg.vecdot(unit, grad).unsqueeze(1)
        across: Tensor = torch.addcmul(grad, unit, along, value=-1).div_(lengths)
        return across


def all_items_loss(users: Tensor, items: Tensor, bias: Tensor, rated: Bags | RowSelection) -> Tensor:
    """Return the binary cross-entropy of users · itemsᵀ + bias, summed over all items, as a mean over users."""
    with torch.autocast(users.device.type, enabled=False):
        return _AllItemsLoss.apply(users.float(), items.float(), bias, rated)  # type: ignore[no-any-return, no-untyped-call]


class _AllItemsLoss(Function):
    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, bias: Tensor, rated: Bags | RowSelection) -> Tensor:  # noqa: ANN401
        logits = torch.addmm(bias, users, items.T)
        loss = _replace_by_errors(logits, rated) / len(users)
        # Kept outside of save_for_backward, so that it can be freed as soon as it was used.
        ctx.errors = logits
        ctx.save_for_backward(users, items)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # noqa: ANN401
        (users, items), errors = ctx.saved_tensors, ctx.errors
        del ctx.errors
        scale = grads[0] / len(users)
        # A column of ones makes the product sum the errors of each item too, at no extra cost. Zeros pad the rows to a
        # multiple of 16 bytes, which are read faster.
        width = users.shape[1]
        right = torch.nn.functional.pad(users, (0, 4 + -width % 4))
        right[:, width] = 1
        to_items = errors.T @ right.mul_(scale)
        return (errors @ items).mul_(scale), to_items[:, :width], to_items[:, width], None


def _replace_by_errors(logits: Tensor, rated: Bags | RowSelection) -> Tensor:
    """Replace the scores of all items by their errors, σ(x) − y, in place; return the binary cross-entropy."""
    if isinstance(rated, RowSelection):
        kernels, index = kernels_for(logits.device), rated.whole.column_index
        assert kernels is not None
        assert index is not None
        losses: Tensor = kernels.cross_entropy_errors(logits, index.by_row.bounds, rated.whole.columns, rated.numbers)
        return losses.sum()
    entries = rated.row_of * logits.shape[1] + rated.columns
    loss = softplus(logits).sum() - logits.view(-1)[entries].sum()
    logits.sigmoid_().view(-1)[entries] -= 1
    return loss
