"""Sums of rows of a table, picked and weighted by sparse rows: the first layer of every tower.

An embedding bag is as good as any for a batch of rows. On a GPU its time is that of the longest bag: the raters of the
most popular item, one after the other. Where the rows are a whole matrix, a sparse product shares them among threads
and takes a fifth of that time; backwards it needs the matrix by columns, which is put in order once.
"""

import warnings
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import embedding_bag

from pricdr.training.pieces import Pieces
from pricdr.training.rows import Bags, Picked


def weighted_sums(rows: Bags, table: Tensor) -> Tensor:
    """Return, for each sparse row, the sum of the table's rows at its columns, times their weights."""
    if rows.mirror is None:
        return embedding_bag(rows.columns, table, rows.offsets, mode="sum", per_sample_weights=rows.weights)
    # In single precision also where other products are in bfloat16: sparse ones gain nothing from it.
    with torch.autocast(table.device.type, enabled=False):
        summed: Tensor = SparseProduct.apply(table, rows)  # type: ignore[no-untyped-call]
    return summed


def hidden_units(kernels: ModuleType, rows: Bags | Picked, table: Tensor, share: float) -> Tensor:
    """Return ``dropout(relu(S · table), share)``, where S is a whole matrix or some of its rows, and columns 1, 0, ….

    The layer after it has its bias there: its gradient comes with that of the weights, without a pass of its own. The
    zeros make rows begin at multiples of 16 bytes, which are read faster.
    """
    with torch.autocast(table.device.type, enabled=False):
        seed = torch.randint(2**62, (1,), device=table.device)
        return _HiddenUnits.apply(kernels, table, rows, share, seed)  # type: ignore[no-any-return, no-untyped-call]


class _HiddenUnits(Function):
    """One pass forward, and one over the gradient before Sᵀ · g."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        kernels: ModuleType,
        table: Tensor,
        rows: Bags | Picked,
        share: float,
        seed: Tensor,
    ) -> Tensor:
        whole, numbers = rows if isinstance(rows, Picked) else (rows, None)
        assert whole.mirror is not None
        ctx.whole, ctx.numbers, ctx.width, ctx.kernels = whole, numbers, table.shape[1], kernels
        ctx.scale = 1 / (1 - share)
        entries, pieces = (whole.columns, whole.weights), whole.mirror.by_row
        left_out = {"seed": seed, "share": share, "scale": ctx.scale}
        count = len(pieces.bounds) if numbers is None else len(numbers)
        units = table.new_empty(count, ctx.width + 4 - ctx.width % 4)
        if numbers is None:
            _add_by_pieces(kernels, units, table, pieces, entries, {}, left_out)
        else:
            kernels.add_rows(units, table, pieces.bounds, *entries, read_at=numbers, **left_out)
        ctx.save_for_backward(units)
        return units

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (units,) = ctx.saved_tensors
        # What is 0 was negative or dropped: either way nothing comes back through it.
        grad = torch.ops.aten.threshold_backward(grads[0].contiguous(), units, 0)
        mirror, places = ctx.whole.mirror, None
        if ctx.numbers is not None:
            places = torch.full((len(mirror.by_row.bounds),), -1, device=grad.device)
            places[ctx.numbers] = torch.arange(len(ctx.numbers), device=grad.device)
        of_table = grad.new_empty(len(mirror.by_column.bounds), ctx.width)
        entries, found_at = (mirror.rows, ctx.whole.weights), {"order": mirror.order, "places": places}
        _add_by_pieces(ctx.kernels, of_table, grad, mirror.by_column, entries, found_at, {"scale": ctx.scale})
        return None, of_table, None, None, None


def _add_by_pieces(
    kernels: ModuleType,
    out: Tensor,
    table: Tensor,
    pieces: Pieces,
    entries: tuple[Tensor, Tensor],
    found_at: dict[str, Any],
    then: dict[str, Any],
) -> None:
    """Write the weighted sums of a table's rows at the entries of a sparse matrix, long rows piece by piece.

    ``found_at`` says where rows and weights of entries are, and ``then`` what becomes of sums once they are complete.
    """
    sums = table.new_empty(len(pieces.cuts), min(table.shape[1], out.shape[1]))
    kernels.add_rows(sums, table, pieces.cuts, *entries, **found_at)
    kernels.add_rows(
        out, table, pieces.bounds, *entries, read_at=pieces.short, write_at=pieces.short, **found_at, **then
    )
    kernels.add_rows(out, sums, pieces.cuts_of, write_at=pieces.long, **then)


class SparseProduct(Function):
    """S · table and its gradient Sᵀ · g, both by sparse products in compressed rows."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Bags) -> Tensor:  # noqa: ANN401
        """Return S · table, where S has these rows."""
        ctx.rows, ctx.n = rows, len(table)
        return _compressed(rows, len(table)) @ table

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        """Return Sᵀ · g."""
        (grad,) = grads
        transposed = ctx.rows.transposed(ctx.n)
        return _compressed(transposed, len(grad)) @ grad.contiguous(), None


def _compressed(rows: Bags, n_columns: int) -> Tensor:
    _hear_remarks()
    ends = torch.full((1,), len(rows.columns), dtype=rows.offsets.dtype, device=rows.offsets.device)
    return torch.sparse_csr_tensor(
        torch.cat([rows.offsets, ends]),
        rows.columns,
        rows.weights,
        (len(rows.offsets), n_columns),
        check_invariants=False,
    )


@cache
def _hear_remarks() -> None:
    """Let torch say once, to nobody, that compressed rows are new to it and that nobody checks them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.ones(1)
        torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), one, (1, 1), check_invariants=False)
