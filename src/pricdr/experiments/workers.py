"""Independent runs on one data set, spread over processes; results come as they are ready.

A run that fails is named and the others go on: also where its process was killed, for want of memory perhaps.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from pricdr.errors import printable, require_count
from pricdr.experiments.data_spec import DataSpec
from pricdr.experiments.tasks import Task, load_task
from pricdr.models.catalogue import METHODS
from pricdr.parallel import process_pool
from pricdr.privacy.strategies import BY_NAME

T = TypeVar("T")
Plan: TypeAlias = tuple[Any, ...]
"""What one run is given beside data and device."""


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


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What came of one run: a value, or why there is none."""

    plan: Plan
    value: T | None = None
    failure: str = ""


def spread(work: Callable[..., T], data: DataSpec, context: RunContext, plans: Sequence[Plan]) -> Iterator[Outcome[T]]:
    """Yield what ``work(task, device, *plan)`` gives for every plan, in any order; ``work`` is a function of a module.

    With one job everything happens here; with more, each process loads the task once.
    """
    if not plans:
        return
    if context.jobs == 1:
        _set_up()
        task = load_task(data, context.data, context.prepared)
        for plan in plans:
            yield Outcome(plan, *_attempt(work, task, context.device, plan))
        return
    load_task(data, context.data, context.prepared)  # prepared once, and what is wrong with the data is said here
    waiting = list(plans)
    while waiting:
        for outcome in _in_processes(work, data, context, waiting):
            waiting = [plan for plan in waiting if plan is not outcome.plan]
            yield outcome
        # Where some are left, a process died and took the pool with it: one of those under way, which came first.
        suspects, waiting = waiting[: context.jobs], waiting[context.jobs :]
        for plan in suspects:
            alone = _in_processes(work, data, replace(context, jobs=1), [plan])
            yield next(alone, Outcome(plan, failure="its process was killed, for want of memory perhaps"))


def _in_processes(
    work: Callable[..., T], data: DataSpec, context: RunContext, plans: Sequence[Plan]
) -> Iterator[Outcome[T]]:
    """Yield the outcomes of all plans; of some of them only, where a process dies."""
    with process_pool(min(context.jobs, len(plans)), _take_task, data, context) as pool:
        running = {pool.submit(_work_on_task, work, plan): plan for plan in plans}
        for finished in as_completed(running):
            if not isinstance(finished.exception(), BrokenProcessPool):
                value, failure = finished.result()
                yield Outcome(running[finished], value, failure)


_TASK: list[tuple[Task, str]] = []
"""What a worker process holds."""


def _set_up() -> None:
    """Make arithmetic the same in one process and in many."""
    import torch

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # a GPU multiplies in TF32; processors take no notice


def _take_task(data: DataSpec, context: RunContext) -> None:
    _set_up()
    context.import_outside()
    _TASK.append((load_task(data, context.data, context.prepared), context.device))


def _work_on_task(work: Callable[..., T], plan: Plan) -> tuple[T | None, str]:
    return _attempt(work, *_TASK[0], plan)


def _attempt(work: Callable[..., T], task: Task, device: str, plan: Plan) -> tuple[T | None, str]:
    """Return what comes of a run, or one line that says what went wrong."""
    try:
        return work(task, device, *plan), ""
    except Exception as error:  # whatever it is, the other runs go on, and the caller names this one
        return None, printable(f"{type(error).__name__}: {error}")[:500]
