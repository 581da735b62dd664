"""The data of an experiment, prepared once and kept as arrays; and independent runs on it, spread over processes.

Prepared arrays need numpy and scipy alone, so a machine with a GPU and little else can run what this one prepared. A
run that fails is named and the others go on: also where its process was killed, for want of memory perhaps.
"""

import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar
from zipfile import BadZipFile

import numpy as np

from pricdr.data.csr import sp
from pricdr.data.pairs import DomainPair
from pricdr.data.ratings import Ids, Ratings
from pricdr.data.splits import HeldOut, Split, hold_out
from pricdr.data.splits import official as official_split
from pricdr.errors import InputError, MissingDataError, printable, require_count
from pricdr.experiments.arms import DataSpec
from pricdr.experiments.known_files import find_files, read_pair
from pricdr.files import replace_file
from pricdr.models.catalogue import METHODS
from pricdr.parallel import process_pool
from pricdr.privacy.strategies import BY_NAME


@dataclass(frozen=True, eq=False)
class Task:
    """Two domains, and the official split where there is one."""

    pair: DomainPair
    official: Split | None
    cold: float

    def split(self, seed: int) -> Split:
        """Return the target's split for one seed; an official split is the same for all."""
        if self.official is not None:
            return self.official
        return hold_out(self.pair.target, seed=seed, cold=self.cold)


def is_present(spec: DataSpec, root: Path, prepared: Path | None = None) -> bool:
    """Return whether all files of the data are there, or its prepared arrays."""
    return not missing_files(spec, root, prepared)


def missing_files(spec: DataSpec, root: Path, prepared: Path | None = None) -> tuple[str, ...]:
    """Return, for people, which files of the data are not there; none where its prepared arrays are."""
    kept = _kept(spec, prepared)
    if kept is not None and kept.exists():
        return ()
    try:
        find_files(root, spec.folder, *(name for name in (spec.source, spec.target, spec.official) if name is not None))
    except MissingDataError as error:
        return error.expected
    return ()


def load_task(spec: DataSpec, root: Path, prepared: Path | None = None) -> Task:
    """Return the data, read and prepared; with ``prepared``, a folder, arrays are read from there and left there."""
    kept = _kept(spec, prepared)
    if kept is not None and kept.exists():
        try:
            return _load(kept, spec)
        except (OSError, ValueError, TypeError, LookupError, EOFError, BadZipFile, zlib.error) as error:
            raise InputError(f"{kept} does not hold prepared arrays, remove it: {error}") from error
    task = _prepare(spec, root)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        _save(kept, task)
    return task


def _kept(spec: DataSpec, prepared: Path | None) -> Path | None:
    return None if prepared is None else prepared / f"{spec.folder}-{_digest(spec)}.npz"


def _digest(spec: DataSpec) -> str:
    """Return what tells one preparation from another; which users are cold is decided later."""
    content = json.dumps({**spec.content(), "cold": None}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _prepare(spec: DataSpec, root: Path) -> Task:
    # Imported here: where arrays are prepared already, DuckDB need not be installed.
    from pricdr.data.pairs import prepare
    from pricdr.data.splits import read_official

    source, target = (file.ratings for file in read_pair(root, spec.folder, spec.source, spec.target))
    if spec.filtered:
        pair = DomainPair(source.positives().select(users=target.users), target.positives())
    else:
        prepared = prepare(source, target, threshold=spec.threshold, core=spec.core)
        pair = DomainPair(prepared.source.positives(), prepared.target.positives())
    if spec.distinct:
        pair = pair.without_duplicates()
    official = None if spec.official is None else read_official(root / spec.folder / spec.official, pair.target)
    return Task(pair, official, spec.cold)


def _save(path: Path, task: Task) -> None:
    arrays: dict[str, Any] = {"users": np.array(task.pair.users)}
    sides = [("source", task.pair.source), ("target", task.pair.target)]
    if task.official is not None:
        for name in ("validation", "test"):
            held_out: HeldOut = getattr(task.official, name)
            arrays[name] = np.column_stack([held_out.users, held_out.items, held_out.negatives]).astype(np.int32)
    for name, side in sides:
        arrays[f"{name}_items"] = np.array(side.items)
        arrays[f"{name}_indptr"] = side.matrix.indptr.astype(np.int32)
        arrays[f"{name}_indices"] = side.matrix.indices.astype(np.int32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(path, buffer.getvalue())


def _load(path: Path, spec: DataSpec) -> Task:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        users: Ids = tuple(arrays["users"].tolist())

        def side(name: str) -> Ratings:
            items: Ids = tuple(arrays[f"{name}_items"].tolist())
            indices = arrays[f"{name}_indices"]
            parts = (np.ones(len(indices)), indices.astype(np.int64), arrays[f"{name}_indptr"].astype(np.int64))
            matrix = sp.csr_array(parts, shape=(len(users), len(items)))
            return Ratings(matrix, users, items, has_values=False)

        def held_out(name: str, n_items: int) -> HeldOut:
            columns = arrays[name].astype(np.int64)
            held = HeldOut(columns[:, 0], columns[:, 1], columns[:, 2:])
            for part, most in ((held.users, len(users)), (columns[:, 1:], n_items)):
                if part.size and not 0 <= part.min() <= part.max() < most:
                    raise ValueError(f"{name} has a position outside the ratings")
            return held

        target, official = side("target"), None
        if spec.official is not None:
            parts = (held_out(name, len(target.items)) for name in ("validation", "test"))
            official = official_split(target, *parts)
        return Task(DomainPair(side("source"), target), official, spec.cold)


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
            METHODS.resolve_reference(text)
        for text in self.strategies:
            BY_NAME.resolve_reference(text)


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
