"""Processes that train one network together: each computes its portion of every batch, and gradients are added up.

The batches, the draws and the steps are those of one process. torch's own wrapper for this does not fit: it averages
over equal parts of a batch, calls a network as one function, and sends whole gradients. Here nearly all of a gradient
is the first layers of towers, one row per item or user, and a batch touches few of those rows: only they are sent.

Whoever called ``torch.distributed.init_process_group`` (the command line does, under torchrun) has such processes.
Two operations are used, broadcast and the sum over all: every backend has them, for every device.
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
"""Gradients of at least so many numbers are sent by rows; for smaller ones it is not worth asking which."""
_MOST_ROWS: Final = 0.5
"""Above this share of rows a gradient is sent whole."""
_LOST = "another process of this training ended, or cannot be reached any more"


@dataclass(frozen=True)
class Processes:
    """This process, and how many train together."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes, reports and decides for all."""
        return self.rank == 0

    @property
    def on_this_machine(self) -> int:
        """How many of them share this machine's memory: what torchrun says, or else all."""
        stated = os.environ.get("LOCAL_WORLD_SIZE", "")
        return min(int(stated), self.count) if stated.isascii() and stated.isdigit() else self.count

    def portion(self, whole: int) -> Portion:
        """Return this process's portion of so many rows; portions differ by one row at most.

        >>> [Processes(rank, 3).portion(4).own for rank in range(3)]
        [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
        """
        return Portion(slice(self.rank * whole // self.count, (self.rank + 1) * whole // self.count), whole)

    def add_up(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by the sum over all processes, and return it."""
        if self.count > 1:
            _exchange(dist.all_reduce, tensor)
        return tensor

    def gathered(self, rows: Tensor, portion: Portion) -> Tensor:
        """Return the rows of all processes, of which these are the own; gradients find their way back."""
        if self.count == 1:  # not where this process has all rows: others, who have none, wait for them
            return rows
        whole: Tensor = _Gathered.apply(rows, portion, self)  # type: ignore[no-untyped-call]
        return whole

    def add_up_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by the sum over all processes."""
        if self.count == 1:
            return
        # The graph is the same everywhere, so a parameter without a gradient has none in any process.
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        tables = [one for one in gradients if one.dim() == 2 and one.numel() >= _TABLE]
        others = [one for one in gradients if not any(one is table for table in tables)]
        if others:
            flat = self.add_up(torch.cat([one.flatten() for one in others]))
            for one, part in zip(others, torch.split(flat, [one.numel() for one in others]), strict=True):
                one.copy_(part.view_as(one))
        for table in tables:
            self._add_up_rows(table)

    def _add_up_rows(self, table: Tensor) -> None:
        """Add up the rows that any process has touched; the others are zero in all of them."""
        # The largest absolute value, not a comparison of every number: that would be a second table. A nan counts.
        touched = self.add_up((torch.linalg.vector_norm(table, float("inf"), dim=1) != 0).float())
        rows = torch.nonzero(touched).squeeze(1)
        if len(rows) > _MOST_ROWS * len(table):
            self.add_up(table)
        elif len(rows):
            table[rows] = self.add_up(table[rows])

    def from_first(self, compute: Callable[[], float], device: torch.device) -> float:
        """Return a number that the first process computes; where it fails there, all fail."""
        if self.count == 1:
            return compute()
        answer = torch.zeros(2, dtype=torch.float64, device=device)  # whether it failed, and the number
        failed: Exception | None = None
        if self.is_first:
            try:
                answer[1] = compute()
            except Exception as error:
                answer[0], failed = 1, error
        _exchange(dist.broadcast, answer, src=0)
        if failed is not None:
            raise failed
        if answer[0]:
            raise TrainingError("the first process of this training failed")
        return float(answer[1])

    def require_alike(self, fingerprint: str, device: torch.device) -> None:
        """Refuse to train where processes were given different data or settings: none would end with either's model."""
        if self.count == 1:
            return
        own = torch.frombuffer(bytearray.fromhex(fingerprint), dtype=torch.uint8).to(device, torch.int64)
        first = own.clone()
        _exchange(dist.broadcast, first, src=0)
        differ = self.add_up((own != first).any().long().reshape(1))
        if differ.item():
            raise ParameterError(
                f"{int(differ)} of {self.count} processes have other data or settings than the first: every process "
                "must be given the same"
            )

    def start_from_first(self, state: State, network: nn.Module, optimizer: torch.optim.Optimizer) -> State:
        """Put network and optimiser where the first process has them, and return its state: it alone reads files."""
        if self.count == 1:
            return state
        device = next(network.parameters()).device
        run = torch.tensor([state.epoch, state.stale, state.metric], dtype=torch.float64, device=device)
        self._take_all([run, *network.state_dict().values()])
        epoch, stale, metric = run.tolist()
        if not epoch:
            return State.fresh(network)
        self._take_all(state.best.values())
        self._take_moments(optimizer, device)
        return State(int(epoch), int(stale), metric, state.best)

    def _take_moments(self, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        parameters: list[nn.Parameter] = [one for group in optimizer.param_groups for one in group["params"]]
        moved = torch.tensor([float(one in optimizer.state) for one in parameters], device=device)
        _exchange(dist.broadcast, moved, src=0)
        for parameter, known in zip(parameters, moved.tolist(), strict=True):
            if not known:  # it never had a gradient
                continue
            if not self.is_first:
                step = torch.zeros((), device=parameter.device)
                moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                optimizer.state[parameter] = {"step": step, **moments}
            self._take_all(optimizer.state[parameter].values())

    def _take_all(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            _exchange(dist.broadcast, tensor, src=0)


ALONE: Final = Processes()


def processes() -> Processes:
    """Return the processes that train together: this one alone, unless somebody made a process group."""
    if not dist.is_available() or not dist.is_initialized():
        return ALONE
    return Processes(dist.get_rank(), dist.get_world_size())


class _Gathered(torch.autograd.Function):
    """The rows of all processes; back goes what all of them make of the own rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, portion: Portion, among: Processes) -> Tensor:  # noqa: ANN401 - torch's own
        ctx.portion, ctx.among = portion, among
        whole = rows.new_zeros(portion.whole, *rows.shape[1:])
        whole[portion.own] = rows
        return among.add_up(whole)  # of each row all but one summand are zero: nothing is rounded

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ANN401 - torch's context, and one gradient per input
        summed = ctx.among.add_up(grads[0].float().contiguous().clone())
        return summed[ctx.portion.own].to(grads[0].dtype), None, None


def _exchange(operation: Callable[..., object], tensor: Tensor, **arguments: int) -> None:
    try:
        with torch.no_grad():
            operation(tensor, **arguments)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # what backends raise where a connection breaks or times out
        raise TrainingError(_LOST) from error
