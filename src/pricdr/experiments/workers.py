"""Independent runs on one data set, spread over processes; results come as they are ready."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pricdr.errors import require_count
from pricdr.experiments.spec import DataSpec
from pricdr.experiments.tasks import Task, load_task

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Where to run and where the data is."""

    data: Path
    """The folder of data sets."""
    prepared: Path | None = None
    """A folder of prepared arrays."""
    device: str = "auto"
    jobs: int = 1

    def __post_init__(self) -> None:
        require_count(jobs=self.jobs)


def spread(work: Callable[..., T], data: DataSpec, place: Place, plans: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """``work(task, device, *plan)`` for every plan, in any order; ``work`` is a function of a module.

    With one job everything happens here; with more, each process loads the task once.
    """
    waiting = list(plans)
    if not waiting:
        return
    if place.jobs == 1:
        _set_up()
        task = load_task(data, place.data, place.prepared)
        for plan in waiting:
            yield work(task, place.device, *plan)
        return
    load_task(data, place.data, place.prepared)  # prepared once, and what is wrong with the data is said here
    # Fresh interpreters: a forked one cannot use a GPU.
    context = multiprocessing.get_context("spawn")
    jobs = min(place.jobs, len(waiting))
    with (
        _safe_imports(),
        ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(data, place)) as pool,
    ):
        running = [pool.submit(_here, work, plan) for plan in waiting]
        try:
            for finished in as_completed(running):
                yield finished.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():  # else they would finish what they have begun
                process.terminate()
            raise


@contextmanager
def _safe_imports() -> Iterator[None]:
    """Let no new interpreter import from the working folder, where a spec from elsewhere may lie beside a socket.py."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONSAFEPATH", None)
        else:
            os.environ["PYTHONSAFEPATH"] = before


_TASK: list[tuple[Task, str]] = []
"""What a worker process holds."""


def _set_up() -> None:
    """The same arithmetic in one process and in many."""
    import torch

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # a GPU multiplies in TF32; processors take no notice


def _begin(data: DataSpec, place: Place) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's business
    _set_up()
    _TASK.append((load_task(data, place.data, place.prepared), place.device))


def _here(work: Callable[..., T], plan: tuple[Any, ...]) -> T:
    return work(*_TASK[0], *plan)
