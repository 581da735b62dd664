"""``torchrun … -m pricdr train``: processes that train together speak with one voice.

torchrun starts the same command several times and says which is which in environment variables. The first process says
what there is to say. Where something fails, the process that fails first says why; the others, which lose it in the
middle of a training or fail alike, end without a word.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Protocol

from pricdr.errors import InputError, ParameterError, PriCDRError

_PATIENCE: Final = timedelta(hours=1)
"""How long a process waits for the others, who may be reading or validating; one that ended is noticed at once."""
_FAILED: Final = "pricdr/failed"


class _Store(Protocol):
    """What all processes can count in: torchrun keeps it, so it outlives any of them."""

    def add(self, key: str, amount: int, /) -> int:
        """Return the number under ``key`` after adding to it."""
        ...


def started() -> int:
    """Return how many processes torchrun started with this command; 1 where it was not torchrun."""
    return _stated("WORLD_SIZE", 1) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def is_first() -> bool:
    """Return whether this process writes and speaks for all."""
    return started() == 1 or _stated("RANK", 0) == 0


def require_one_process(command: str) -> None:
    """Refuse a command that has no use for several processes: each would publish, and each would spend."""
    if started() > 1 and command != "train":
        raise ParameterError(f"torchrun is for pricdr train alone: run pricdr {command} without it")


@contextmanager
def together() -> Iterator[None]:
    """Join the processes that torchrun started, if it did, and leave them together in the end."""
    if started() == 1:
        yield
        return
    store = _joined()
    import torch
    import torch.distributed as dist

    from pricdr.training.distributed import processes

    try:
        yield
        # A process that left earlier would look like one that was lost, while the first still writes the model.
        processes().all_reduce(torch.zeros(1))
    except BaseException as error:
        # Asked before the connection is closed: that is what the others notice.
        if _comes_first(store):
            raise
        raise SystemExit(error.exit_code if isinstance(error, PriCDRError) else 2) from None
    dist.destroy_process_group()


def take_gpu(device: str) -> None:
    """Let each process have a GPU of its own, where GPUs are used."""
    import torch

    if started() == 1 or device == "cpu" or not torch.cuda.is_available():
        return
    here, gpus = _stated("LOCAL_WORLD_SIZE", 1), torch.cuda.device_count()
    if here > gpus:
        raise ParameterError(
            f"--nproc-per-node {here} needs as many GPUs, and this machine has {gpus}: start fewer processes, or use "
            "--device cpu"
        )
    torch.cuda.set_device(_stated("LOCAL_RANK", 0))


def idle_gpus(device: str) -> str | None:
    """Return how to train on the GPUs that one process leaves idle; None where it leaves none."""
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
        store, rank, count = next(rendezvous("env://", _stated("RANK", 0), started(), timeout=_PATIENCE))
        dist.init_process_group(store=store, rank=rank, world_size=count, timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the processes that torchrun started do not find each other: {error}") from error
    found: _Store = store
    return found


def _comes_first(store: _Store) -> bool:
    """Return whether no other process has failed before."""
    try:
        return bool(store.add(_FAILED, 1) == 1)
    except RuntimeError:  # whoever kept the store is gone, and says nothing any more
        return True


def _stated(variable: str, otherwise: int) -> int:
    stated = os.environ.get(variable, "")
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 10 else otherwise
