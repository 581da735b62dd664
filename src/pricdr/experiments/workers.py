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
from pricdr.models.catalogue import METHODS
from pricdr.privacy.registry import BY_NAME

T = TypeVar("T")


@dataclass(frozen=True)
class RunContext:
    """Where the data is, on what device to run, and how many runs at a time."""

    data: Path
    """The folder of data sets."""
    prepared: Path | None = None
    """A folder of prepared arrays."""
    device: str = "auto"
    jobs: int = 1
    methods: tuple[str, ...] = ()
    """As module:Class, those that the user named: a spec may use them, and every process has to import them."""
    strategies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_count(jobs=self.jobs)

    def import_outside(self) -> None:
        """Make the methods and strategies known that the user named."""
        for text in self.methods:
            METHODS.named(text)
        for text in self.strategies:
            BY_NAME.named(text)


def spread(
    work: Callable[..., T], data: DataSpec, context: RunContext, plans: Iterable[tuple[Any, ...]]
) -> Iterator[T]:
    """Yield ``work(task, device, *plan)`` for every plan, in any order; ``work`` is a function of a module.

    With one job everything happens here; with more, each process loads the task once.
    """
    waiting = list(plans)
    if not waiting:
        return
    if context.jobs == 1:
        _set_up()
        task = load_task(data, context.data, context.prepared)
        for plan in waiting:
            yield work(task, context.device, *plan)
        return
    load_task(data, context.data, context.prepared)  # prepared once, and what is wrong with the data is said here
    # Fresh interpreters: a forked one cannot use a GPU.
    spawning = multiprocessing.get_context("spawn")
    jobs = min(context.jobs, len(waiting))
    with (
        _safe_imports(),
        ProcessPoolExecutor(jobs, mp_context=spawning, initializer=_start_worker, initargs=(data, context)) as pool,
    ):
        running = [pool.submit(_work_on_task, work, plan) for plan in waiting]
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
    """Make arithmetic the same in one process and in many."""
    import torch

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # a GPU multiplies in TF32; processors take no notice


def _start_worker(data: DataSpec, context: RunContext) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's business
    _set_up()
    context.import_outside()
    _TASK.append((load_task(data, context.data, context.prepared), context.device))


def _work_on_task(work: Callable[..., T], plan: tuple[Any, ...]) -> T:
    return work(*_TASK[0], *plan)
