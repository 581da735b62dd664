"""Our own GPU kernels, written in Triton: what a step on all items does between its dense products.

Each of torch's operations reads and writes whole tensors of items x hidden or users x items. These kernels do the work
of several in one pass. Triton comes with torch's CUDA builds. Without it this module can be imported but not used:
:func:`pricdr.training.accelerated.kernels_for` then returns None.

Sums are added in a fixed order and random numbers come from a counter, so equal seeds give equal results.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
    from triton.language import constexpr
except ImportError:
    triton, constexpr = None, int

# The sizes below were tuned on one H200, on 29,476 users x 41,884 items; other sizes give the same sums, more slowly.
_AT_ONCE, _ENTRIES, _WARPS = 32, 2, 2
"""Entries that a program loads at once, table rows that it reads at once, and its warps (groups of 32 threads)."""
_UNITS = 512
"""The most units that one program sums; wider rows are split among programs."""
_SEGMENT, _COLUMNS = 8192, 2048
"""Scores that one program turns into errors, and how many of them at a time."""
_WIDEST, _BLOCK = 4096, 2048
"""The widest row that one program normalises, and the numbers it handles: narrower rows share a program."""

Pointer = Any
"""What a kernel receives for a tensor."""


def _kernel(function: Callable[..., None]) -> Any:  # noqa: ANN401
    return function if triton is None else triton.jit(function)


def _launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **sizes: int) -> None:  # noqa: ANN401
    """Launch a kernel on the device of its first tensor, which need not be torch's current device."""
    with torch.cuda.device_of(arguments[0]):  # type: ignore[no-untyped-call]
        kernel[grid](*arguments, **sizes)


@_kernel
def _sums(
    table: "Pointer",
    bounds: "Pointer",
    columns: "Pointer",
    weights: "Pointer",
    order: "Pointer",
    places: "Pointer",
    read_at: "Pointer",
    write_at: "Pointer",
    left_rows: "Pointer",
    left_weights: "Pointer",
    out: "Pointer",
    seed: "Pointer",
    share: float,
    scale: float,
    WIDTH: constexpr,
    FROM: constexpr,
    TO: constexpr,
    UNITS: constexpr,
    AT_ONCE: constexpr,
    ENTRIES: constexpr,
) -> None:
    piece, part = tl.program_id(0), tl.program_id(1)
    unit = part * UNITS + tl.arange(0, UNITS)
    source = piece if read_at is None else tl.load(read_at + piece)
    target = piece.to(tl.int64) if write_at is None else tl.load(write_at + piece)
    start, end = tl.load(bounds + 2 * source), tl.load(bounds + 2 * source + 1)
    total = tl.zeros((ENTRIES, UNITS), tl.float32)
    for first in range(start, end, AT_ONCE):
        entry = first + tl.arange(0, AT_ONCE)
        inside = entry < end
        row = entry.to(tl.int64) if columns is None else tl.load(columns + entry, mask=inside, other=0)
        if places is not None:
            row = tl.load(places + row, mask=inside, other=-1)
            inside = inside & (row >= 0)
        if weights is None:
            weight = tl.where(inside, 1.0, 0.0)
        else:
            at = entry if order is None else tl.load(order + entry, mask=inside, other=0)
            weight = tl.load(weights + at, mask=inside, other=0.0)
        # Most entries have weight 0. The others are packed together first, so that no table row is read for a zero.
        some = weight != 0
        to = first + tl.cumsum(some.to(tl.int32), 0) - 1
        tl.debug_barrier()  # all threads have read what the previous round packed
        tl.store(left_rows + to, row.to(tl.int32), mask=some)
        tl.store(left_weights + to, weight, mask=some)
        tl.debug_barrier()
        left = first + tl.sum(some.to(tl.int32), 0)
        for begin in range(first, left, ENTRIES):
            next = begin + tl.arange(0, ENTRIES)
            from_row = tl.load(left_rows + next, mask=next < left, other=0).to(tl.int64)
            times = tl.load(left_weights + next, mask=next < left, other=0.0)
            mask = (next < left)[:, None] & (unit < WIDTH)[None, :]
            total += times[:, None] * tl.load(table + from_row[:, None] * FROM + unit[None, :], mask=mask, other=0.0)
    summed = tl.sum(total, 0) * scale
    if seed is not None:
        kept = tl.rand(tl.load(seed), (target * WIDTH + unit).to(tl.int32)) >= share
        summed = tl.where(kept & (summed > 0), summed, 0.0)
    tl.store(out + target * TO + unit, tl.where(unit == WIDTH, 1.0, summed), mask=unit < TO)


def add_rows(
    out: Tensor,
    table: Tensor,
    bounds: Tensor,
    columns: Tensor | None = None,
    weights: Tensor | None = None,
    *,
    order: Tensor | None = None,
    places: Tensor | None = None,
    read_at: Tensor | None = None,
    write_at: Tensor | None = None,
    seed: Tensor | None = None,
    share: float = 0.0,
    scale: float = 1.0,
) -> None:
    """Write a weighted sum of table rows, times ``scale``, into each row of ``out``.

    Args:
        out: the result. If it is wider than the table, each sum is followed by a 1 and then zeros.
        table: the rows to add. If it is wider than ``out``, the extra columns are ignored.
        bounds: the first entry and the end of each sum.
        columns: the table row of each entry; by default entry n is row n.
        weights: the weight of each entry, by default 1. Rows of entries with weight 0 are not read.
        order: the position of each entry's weight in ``weights``.
        places: the position of each row in the table; -1 for a row that is missing, which adds nothing.
        read_at: which bounds to use, in this order; by default all of them.
        write_at: which rows of ``out`` to write to.
        seed: apply ReLU and dropout, drawn from this seed.
        share: the share of units that dropout sets to 0.
        scale: the factor of every sum.
    """
    count = len(read_at if read_at is not None else write_at if write_at is not None else bounds)
    if not count:
        return
    units = min(triton.next_power_of_2(out.shape[1]), _UNITS)
    parts = triton.cdiv(out.shape[1], units)
    entries = len(columns if columns is not None else table)
    left_rows = torch.empty(entries, dtype=torch.int32, device=out.device)
    left_weights = table.new_empty(entries)
    _launch(
        _sums,
        (count, parts),
        *(table, bounds, columns, weights, order, places, read_at, write_at, left_rows, left_weights, out, seed),
        *(share, scale),
        WIDTH=min(table.shape[1], out.shape[1]),
        FROM=table.shape[1],
        TO=out.shape[1],
        UNITS=units,
        AT_ONCE=_AT_ONCE,
        ENTRIES=_ENTRIES,
        num_warps=_WARPS,
    )


@_kernel
def _unit(
    rows: "Pointer", unit: "Pointer", lengths: "Pointer", n: int, WIDTH: constexpr, BLOCK: constexpr, ROWS: constexpr
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    mask = (row < n)[:, None] & (column < WIDTH)[None, :]
    at = row[:, None] * WIDTH + column[None, :]
    values = tl.load(rows + at, mask=mask, other=0.0)
    length = tl.maximum(tl.sqrt(tl.sum(values * values, 1)), 1e-12)
    tl.store(unit + at, values / length[:, None], mask=mask)
    tl.store(lengths + row, length, mask=row < n)


def unit_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows scaled to length 1, and their original lengths."""
    unit, lengths = torch.empty_like(rows), rows.new_empty(len(rows), 1)
    block, count = _row_blocks(rows)
    grid = (triton.cdiv(len(rows), count),)
    _launch(_unit, grid, rows, unit, lengths, len(rows), WIDTH=rows.shape[1], BLOCK=block, ROWS=count)
    return unit, lengths


@_kernel
def _unit_back(
    grads: "Pointer",
    unit: "Pointer",
    lengths: "Pointer",
    out: "Pointer",
    n: int,
    STRIDE: constexpr,
    WIDTH: constexpr,
    BLOCK: constexpr,
    ROWS: constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    mask = (row < n)[:, None] & (column < WIDTH)[None, :]
    at = row[:, None] * WIDTH + column[None, :]
    direction = tl.load(unit + at, mask=mask, other=0.0)
    grad = tl.load(grads + row[:, None] * STRIDE + column[None, :], mask=mask, other=0.0)
    length = tl.load(lengths + row, mask=row < n, other=1.0)
    across = grad - direction * tl.sum(direction * grad, 1)[:, None]
    tl.store(out + at, across / length[:, None], mask=mask)


def unit_rows_back(grad: Tensor, unit: Tensor, lengths: Tensor) -> Tensor:
    """Return the gradient of :func:`unit_rows` with respect to its input."""
    out = torch.empty_like(unit)
    block, count = _row_blocks(unit)
    grad = grad if grad.stride(1) == 1 else grad.contiguous()
    _launch(
        _unit_back,
        (triton.cdiv(len(unit), count),),
        *(grad, unit, lengths, out, len(unit)),
        STRIDE=grad.stride(0),
        WIDTH=unit.shape[1],
        BLOCK=block,
        ROWS=count,
    )
    return out


def fits_unit_rows(rows: Tensor) -> bool:
    """Return whether :func:`unit_rows` supports these rows."""
    return rows.dtype == torch.float32 and rows.is_contiguous() and 0 < rows.shape[1] <= _WIDEST and len(rows) > 0


def _row_blocks(rows: Tensor) -> tuple[int, int]:
    """Return the power of 2 that a row fits in, and the number of rows per program."""
    block = triton.next_power_of_2(rows.shape[1])
    return block, max(_BLOCK // block, 1)


@_kernel
def _errors(
    logits: "Pointer",
    bounds: "Pointer",
    columns: "Pointer",
    users: "Pointer",
    losses: "Pointer",
    N: constexpr,
    SEGMENT: constexpr,
    COLUMNS: constexpr,
    RATED: constexpr,
) -> None:
    place, segment = tl.program_id(0), tl.program_id(1)
    user = tl.load(users + place)
    start, end = tl.load(bounds + 2 * user), tl.load(bounds + 2 * user + 1)
    row = logits + place.to(tl.int64) * N
    begin = segment * SEGMENT
    rated = tl.zeros((RATED,), tl.float32)
    for first in range(start, end, RATED):
        entry = first + tl.arange(0, RATED)
        item = tl.load(columns + entry, mask=entry < end, other=-1)
        rated += tl.load(row + item, mask=(item >= begin) & (item < begin + SEGMENT), other=0.0)
    tl.debug_barrier()  # read the scores of rated items before any is overwritten
    total = tl.zeros((COLUMNS,), tl.float32)
    product = tl.full((COLUMNS,), 1.0, tl.float32)
    for first in range(begin, begin + SEGMENT, COLUMNS):
        item = first + tl.arange(0, COLUMNS)
        x = tl.load(row + item, mask=item < N, other=float("-inf"))
        small = tl.exp(-tl.abs(x))
        chance = 1.0 / (1.0 + small)
        tl.store(row + item, tl.where(x >= 0, chance, small * chance), mask=item < N)
        # log(1 + small): by its series where 1 + small would lose most digits of small, as for nearly all items. For
        # the others, one logarithm of a product of a few factors, each of them at most 2.
        series = small * (1.0 - small * (0.5 - small * (1.0 / 3.0)))
        total += tl.maximum(x, 0.0) + tl.where(small < 0.01, series, 0.0)
        product *= tl.where(small < 0.01, 1.0, 1.0 + small)
    tl.debug_barrier()  # write all errors before 1 is subtracted from those of rated items
    for first in range(start, end, RATED):
        entry = first + tl.arange(0, RATED)
        item = tl.load(columns + entry, mask=entry < end, other=-1)
        mask = (item >= begin) & (item < begin + SEGMENT)
        tl.store(row + item, tl.load(row + item, mask=mask, other=0.0) - 1.0, mask=mask)
    tl.store(losses + place * tl.num_programs(1) + segment, tl.sum(total + tl.log(product), 0) - tl.sum(rated, 0))


def cross_entropy_errors(logits: Tensor, bounds: Tensor, columns: Tensor, users: Tensor) -> Tensor:
    """Replace scores of all items by their errors, σ(x) − y, and return partial sums of the binary cross-entropy.

    Args:
        logits: one row of scores per user of the batch; overwritten.
        bounds: for every user of the matrix, the first entry and the end.
        columns: the item of each entry, distinct within a user.
        users: the users of the batch, as rows of the matrix.
    """
    n = logits.shape[1]
    losses = logits.new_empty(len(logits), triton.cdiv(n, _SEGMENT))
    if len(logits):
        _launch(
            _errors,
            tuple(losses.shape),
            *(logits, bounds, columns, users, losses),
            N=n,
            SEGMENT=_SEGMENT,
            COLUMNS=_COLUMNS,
            RATED=128,
            num_warps=8,
        )
    return losses
