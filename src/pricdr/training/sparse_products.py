"""Products of sparse rows and a table of weights: the first layer of every tower.

An embedding bag works well for a batch of rows. On a GPU it takes as long as its longest bag: all raters of the most
popular item, one after the other. For a whole matrix, a sparse product spreads them over threads and takes a fifth of
that time. Its backward pass needs the matrix by columns, which is sorted once.
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
from pricdr.training.rows import Bags, RowSelection


def weighted_sums(rows: Bags, table: Tensor) -> Tensor:
    """Return, for each sparse row, the weighted sum of the table's rows at its columns."""
    if rows.column_index is None:
        return embedding_bag(rows.columns, table, rows.offsets, mode="sum", per_sample_weights=rows.weights)
    # In single precision even where other products use bfloat16: sparse products gain nothing from it.
    with torch.autocast(table.device.type, enabled=False):
        summed: Tensor = SparseProduct.apply(table, rows)  # type: ignore[no-untyped-call]
    return summed


def hidden_units(kernels: ModuleType, rows: Bags | RowSelection, table: Tensor, share: float) -> Tensor:
    """Return ``dropout(relu(S · table), share)``, S a whole matrix or some of its rows, with extra columns 1, 0, ….

    The next layer keeps its bias in the column of ones, so that the bias gets its gradient together with the weights.
    The zeros pad rows to a multiple of 16 bytes, which are read faster.
    """
    with torch.autocast(table.device.type, enabled=False):
        seed = torch.randint(2**62, (1,), device=table.device)
        return _HiddenUnits.apply(kernels, table, rows, share, seed)  # type: ignore[no-any-return, no-untyped-call]


class _HiddenUnits(Function):
    """Computes the hidden units in one pass, and masks the gradient in one pass before Sᵀ · g."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        kernels: ModuleType,
        table: Tensor,
        rows: Bags | RowSelection,
        share: float,
        seed: Tensor,
    ) -> Tensor:
        whole, numbers = rows if isinstance(rows, RowSelection) else (rows, None)
        assert whole.column_index is not None
        ctx.whole, ctx.numbers, ctx.width, ctx.kernels = whole, numbers, table.shape[1], kernels
        ctx.scale = 1 / (1 - share)
        entries, pieces = (whole.columns, whole.weights), whole.column_index.by_row
        dropout_options = {"seed": seed, "share": share, "scale": ctx.scale}
        count = len(pieces.bounds) if numbers is None else len(numbers)
        units = table.new_empty(count, ctx.width + 4 - ctx.width % 4)
        if numbers is None:
            _add_by_pieces(kernels, units, table, pieces, entries, {}, dropout_options)
        else:
            kernels.add_rows(units, table, pieces.bounds, *entries, read_at=numbers, **dropout_options)
        ctx.save_for_backward(units)
        return units

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (units,) = ctx.saved_tensors
        # A 0 was negative or dropped: its gradient is 0 either way.
        grad = torch.ops.aten.threshold_backward(grads[0].contiguous(), units, 0)
        index, places = ctx.whole.column_index, None
        if ctx.numbers is not None:
            places = torch.full((len(index.by_row.bounds),), -1, device=grad.device)
            places[ctx.numbers] = torch.arange(len(ctx.numbers), device=grad.device)
        of_table = grad.new_empty(len(index.by_column.bounds), ctx.width)
        entries, lookups = (index.rows, ctx.whole.weights), {"order": index.order, "places": places}
        _add_by_pieces(ctx.kernels, of_table, grad, index.by_column, entries, lookups, {"scale": ctx.scale})
        return None, of_table, None, None, None


def _add_by_pieces(
    kernels: ModuleType,
    out: Tensor,
    table: Tensor,
    pieces: Pieces,
    entries: tuple[Tensor, Tensor],
    lookups: dict[str, Any],
    final: dict[str, Any],
) -> None:
    """Write the product of a sparse matrix and a table to ``out``, summing long rows piece by piece.

    ``lookups`` are the arguments of ``add_rows`` that find an entry's row and weight; ``final`` are those that apply to
    complete sums only.
    """
    sums = table.new_empty(len(pieces.cuts), min(table.shape[1], out.shape[1]))
    kernels.add_rows(sums, table, pieces.cuts, *entries, **lookups)
    kernels.add_rows(
        out, table, pieces.bounds, *entries, read_at=pieces.short, write_at=pieces.short, **lookups, **final
    )
    kernels.add_rows(out, sums, pieces.cuts_of, write_at=pieces.long, **final)


class SparseProduct(Function):
    """S · table and its gradient Sᵀ · g, both as sparse products in CSR form."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Bags) -> Tensor:  # noqa: ANN401
        """Return S · table, where S consists of these rows."""
        ctx.rows, ctx.n = rows, len(table)
        return _compressed(rows, len(table)) @ table

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        """Return Sᵀ · g."""
        (grad,) = grads
        transposed = ctx.rows.transposed(ctx.n)
        return _compressed(transposed, len(grad)) @ grad.contiguous(), None


def _compressed(rows: Bags, n_columns: int) -> Tensor:
    _silence_csr_warnings()
    ends = torch.full((1,), len(rows.columns), dtype=rows.offsets.dtype, device=rows.offsets.device)
    return torch.sparse_csr_tensor(
        torch.cat([rows.offsets, ends]),
        rows.columns,
        rows.weights,
        (len(rows.offsets), n_columns),
        check_invariants=False,
    )


@cache
def _silence_csr_warnings() -> None:
    """Make torch issue its two one-time warnings about CSR tensors (beta, unchecked) where they are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        indptr, columns, values = torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1)
        torch.sparse_csr_tensor(indptr, columns, values, (1, 1), check_invariants=False)
