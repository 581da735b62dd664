"""Processes that train one network together: each computes its portion of every batch, and gradients are summed.

Batches, random draws and steps are the same as in a single process. ``DistributedDataParallel`` does not fit here: it
averages over equal parts of a batch, calls a network as one function, and sends whole gradients. In these networks
nearly all of a gradient belongs to the first layers of the towers, with one row per item or user, and a batch touches
few of those rows: only they are sent.

The processes exist once ``torch.distributed.init_process_group`` was called; under torchrun the command line calls it.
Only broadcast and all-reduce are used, which every backend has for every device.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pricdr.errors import ParameterError, TrainingError
from pricdr.training.checkpoints import State
from pricdr.training.portions import Portion

_TABLE: Final = 1 << 20
"""Gradients of at least this many numbers are sent by rows; smaller ones are sent whole."""
_MOST_ROWS: Final = 0.5
"""If more than this share of its rows was touched, a gradient is sent whole."""
_LOST = "another process of this training has ended or cannot be reached"


@dataclass(frozen=True)
class Processes:
    """The rank of this process, and the number of processes that train together."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes, reports and decides for all."""
        return self.rank == 0

    @property
    def on_this_machine(self) -> int:
        """How many of the processes share this machine's memory: as torchrun states it, or all."""
        stated = os.environ.get("LOCAL_WORLD_SIZE", "")
        return min(int(stated), self.count) if stated.isascii() and stated.isdigit() else self.count

    def portion(self, whole: int) -> Portion:
        """Return this process's portion of ``whole`` rows; the sizes of portions differ by at most one.

        >>> [Processes(rank, 3).portion(4).own for rank in range(3)]
        [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
        """
        return Portion(slice(self.rank * whole // self.count, (self.rank + 1) * whole // self.count), whole)

    def all_reduce(self, tensor: Tensor) -> Tensor:
        """Replace a tensor in place by its sum over all processes, and return it."""
        if self.count > 1:
            _exchange(dist.all_reduce, tensor)
        return tensor

    def gather_rows(self, rows: Tensor, portion: Portion) -> Tensor:
        """Return the rows of all processes, of which ``rows`` are this one's portion; gradients flow back to them."""
        if self.count == 1:  # not ``portion.is_all``: processes with an empty portion still need the rows
            return rows
        whole: Tensor = _GatherRows.apply(rows, portion, self)  # type: ignore[no-untyped-call]
        return whole

    def all_reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over all processes."""
        if self.count == 1:
            return
        # The autograd graph is the same everywhere: a parameter without a gradient has none in any process.
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        tables = [gradient for gradient in gradients if _is_table(gradient)]
        small = [gradient for gradient in gradients if not _is_table(gradient)]
        if small:
            flat = self.all_reduce(torch.cat([gradient.flatten() for gradient in small]))
            sums = torch.split(flat, [gradient.numel() for gradient in small])
            for gradient, summed in zip(small, sums, strict=True):
                gradient.copy_(summed.view_as(gradient))
        for table in tables:
            self._all_reduce_rows(table)

    def _all_reduce_rows(self, table: Tensor) -> None:
        """Sum the rows that any process has touched; all other rows are zero everywhere."""
        # By the largest absolute value: comparing every number would need a second table. A nan counts as touched.
        touched = self.all_reduce((torch.linalg.vector_norm(table, float("inf"), dim=1) != 0).float())
        rows = torch.nonzero(touched).squeeze(1)
        if len(rows) > _MOST_ROWS * len(table):
            self.all_reduce(table)
        elif len(rows):
            table[rows] = self.all_reduce(table[rows])

    def compute_on_first(self, compute: Callable[[], float], device: torch.device) -> float:
        """Return a number that only the first process computes; if that fails, every process raises."""
        if self.count == 1:
            return compute()
        result = torch.zeros(2, dtype=torch.float64, device=device)  # whether it failed, and the number
        failure: Exception | None = None
        if self.is_first:
            try:
                result[1] = compute()
            except Exception as error:
                result[0], failure = 1, error
        _exchange(dist.broadcast, result, src=0)
        if failure is not None:
            raise failure
        if result[0]:
            raise TrainingError("the first process of this training failed")
        return float(result[1])

    def require_same_run(self, fingerprint: str, device: torch.device) -> None:
        """Refuse to train if processes have different data or settings: the result would be the model of neither."""
        if self.count == 1:
            return
        own = torch.frombuffer(bytearray.fromhex(fingerprint), dtype=torch.uint8).to(device, torch.int64)
        first = own.clone()
        _exchange(dist.broadcast, first, src=0)
        differ = self.all_reduce((own != first).any().long().reshape(1))
        if differ.item():
            raise ParameterError(
                f"{int(differ)} of {self.count} processes have different data or settings than the first: give every "
                "process the same"
            )

    def broadcast_start(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> State:
        """Copy network, optimiser and state of the first process, which alone reads checkpoints; return the state."""
        if self.count == 1:
            return state
        device = next(network.parameters()).device
        run = torch.tensor([state.epoch, state.stale, state.metric], dtype=torch.float64, device=device)
        self._broadcast([run, *network.state_dict().values()])
        epoch, stale, metric = run.tolist()
        if not epoch:
            return State.fresh(network)
        self._broadcast(state.best.values())
        self._broadcast_moments(optimizer, device)
        return State(int(epoch), int(stale), metric, state.best)

    def _broadcast_moments(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        parameters: list[nn.Parameter] = [weights for group in optimizer.param_groups for weights in group["params"]]
        has_moments = torch.tensor([float(weights in optimizer.state) for weights in parameters], device=device)
        _exchange(dist.broadcast, has_moments, src=0)
        for parameter, has_state in zip(parameters, has_moments.tolist(), strict=True):
            if not has_state:  # it never had a gradient
                continue
            if not self.is_first:
                step = torch.zeros((), device=parameter.device)
                moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                optimizer.state[parameter] = {"step": step, **moments}
            self._broadcast(optimizer.state[parameter].values())

    def _broadcast(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            _exchange(dist.broadcast, tensor, src=0)


ALONE: Final = Processes()


def _is_table(gradient: Tensor) -> bool:
    return gradient.dim() == 2 and gradient.numel() >= _TABLE


def processes() -> Processes:
    """Return the processes that train together: only this one, unless there is a process group."""
    if not dist.is_available() or not dist.is_initialized():
        return ALONE
    return Processes(dist.get_rank(), dist.get_world_size())


class _GatherRows(torch.autograd.Function):
    """Gathers the rows of all processes; backward, it sums the gradients of this process's rows over all of them."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, portion: Portion, among: Processes) -> Tensor:  # noqa: ANN401 - torch's own
        ctx.portion, ctx.among = portion, among
        whole = rows.new_zeros(portion.whole, *rows.shape[1:])
        whole[portion.own] = rows
        return among.all_reduce(whole)  # each row has one summand that is not zero, so nothing is rounded

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ANN401 - torch's context, and one gradient per input
        summed = ctx.among.all_reduce(grads[0].float().contiguous().clone())
        return summed[ctx.portion.own].to(grads[0].dtype), None, None


def _exchange(operation: Callable[..., object], tensor: Tensor, **arguments: int) -> None:
    try:
        with torch.no_grad():
            operation(tensor, **arguments)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # what backends raise when a connection breaks or times out
        raise TrainingError(_LOST) from error
