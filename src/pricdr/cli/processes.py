"""``torchrun … -m pricdr train``: of the processes that train together, one writes to the screen.

torchrun starts the same command several times and numbers the processes in environment variables. The first process
writes all output. If something fails, the process that fails first reports why; the others, which lose its connection
or fail in the same way, end silently.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Protocol

from pricdr.errors import InputError, ParameterError, PriCDRError

_TIMEOUT: Final = timedelta(hours=1)
"""How long a process waits for the others, which may be reading or validating; one that ended is noticed at once."""
_FAILED: Final = "pricdr/failed"


class _Store(Protocol):
    """Counters that all processes share: torchrun keeps them, so they outlive any process."""

    def add(self, key: str, amount: int, /) -> int:
        """Return the number under ``key`` after adding to it."""
        ...


def started() -> int:
    """Return how many processes torchrun started with this command; 1 without torchrun."""
    return _environment_number("WORLD_SIZE", 1) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def is_first() -> bool:
    """Return whether this process writes the output for all."""
    return started() == 1 or _environment_number("RANK", 0) == 0


def require_one_process(command: str) -> None:
    """Refuse a command that does not support several processes: each of them would publish and spend."""
    if started() > 1 and command != "train":
        raise ParameterError(f"torchrun is only for pricdr train: run pricdr {command} without it")


@contextmanager
def together() -> Iterator[None]:
    """Join the processes that torchrun started, if any, and leave them together at the end."""
    if started() == 1:
        yield
        return
    store = _joined()
    import torch
    import torch.distributed as dist

    from pricdr.training.distributed import processes

    try:
        yield
        # A process that left now would look lost to the first one, which is still writing the model.
        processes().all_reduce(torch.zeros(1))
    except BaseException as error:
        # Before the connection is closed, which is what the others notice.
        if _fails_first(store):
            raise
        raise SystemExit(error.exit_code if isinstance(error, PriCDRError) else 2) from None
    dist.destroy_process_group()


def take_gpu(device: str) -> None:
    """Give each process its own GPU, if GPUs are used."""
    import torch

    if started() == 1 or device == "cpu" or not torch.cuda.is_available():
        return
    here, gpus = _environment_number("LOCAL_WORLD_SIZE", 1), torch.cuda.device_count()
    if here > gpus:
        raise ParameterError(
            f"--nproc-per-node {here} needs as many GPUs, and this machine has {gpus}: start fewer processes, or use "
            "--device cpu"
        )
    torch.cuda.set_device(_environment_number("LOCAL_RANK", 0))


def idle_gpus(device: str) -> str | None:
    """Return a hint how to use the GPUs that one process leaves idle; None if there are none."""
    import torch

    if started() > 1 or device == "cpu" or not torch.cuda.is_available():
        return None
    gpus = torch.cuda.device_count()
    if gpus < 2:
        return None
    return f"one of {gpus} GPUs is used: torchrun --nproc-per-node {gpus} -m pricdr train … would use all of them"


def _joined() -> _Store:
    """Return the store of a new process group: gloo between processors, nccl between GPUs."""
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    try:
        store, rank, count = next(rendezvous("env://", _environment_number("RANK", 0), started(), timeout=_TIMEOUT))
        dist.init_process_group(store=store, rank=rank, world_size=count, timeout=_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the processes that torchrun started cannot connect to each other: {error}") from error
    joined: _Store = store
    return joined


def _fails_first(store: _Store) -> bool:
    """Return whether this process is the first that failed."""
    try:
        return bool(store.add(_FAILED, 1) == 1)
    except RuntimeError:  # the process that kept the store is gone, and reports nothing
        return True


def _environment_number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default
