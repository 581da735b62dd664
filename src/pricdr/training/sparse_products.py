"""Sums of rows of a table, picked and weighted by sparse rows: the first layer of every tower.

An embedding bag is as good as any for a batch of rows. On a GPU its time is that of the longest bag: the raters of the
most popular item, one after the other. Where the rows are a whole matrix, a sparse product shares them among threads
and takes a fifth of that time; backwards it needs the matrix by columns, which is put in order once.
"""

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import embedding_bag

from pricdr.training.rows import Bags


def weighted_sums(rows: Bags, table: Tensor) -> Tensor:
    """Return, for each sparse row, the sum of the table's rows at its columns, times their weights."""
    if rows.mirror is None:
        return embedding_bag(rows.columns, table, rows.offsets, mode="sum", per_sample_weights=rows.weights)
    # In single precision also where other products are in bfloat16: sparse ones gain nothing from it.
    with torch.autocast(table.device.type, enabled=False):
        summed: Tensor = SparseProduct.apply(table, rows)  # type: ignore[no-untyped-call]
    return summed


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
