"""Workers over all cores, watched from outside: time, memory with all descendants, and death by a signal."""

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from tests.fuzz.cases import Outcome, copy_files
from tests.fuzz.worker import Task, work

KINDS = ("releases", "notices", "models", "ledgers", "checkpoints", "specs", "ratings", "alignments")
_STRETCH = 100
_TICK = 0.1
_START_SECONDS = 180


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run, and how much of it."""

    keep: Path
    """Where failing inputs are kept."""
    kinds: tuple[str, ...] = KINDS
    count: int = 10_000
    first: int = 0
    seed: int = 1
    jobs: int = 1
    seconds: float = float("inf")
    """For the cases of all kinds together; each kind has an equal share."""
    case_seconds: float = 30.0
    case_bytes: int = 1 << 30
    """Resident memory above what the honest seeds need."""
    plant: str | None = None
    """A bug to plant, to see that it is found."""
    progress: Callable[[str], None] = lambda line: None


@dataclass
class Tally:
    """What came of the cases of one kind."""

    accepted: int = 0
    refused: int = 0
    failures: dict[int, Outcome] = field(default_factory=dict)
    """By number of the case; -1 stands for the honest seeds."""
    slowest: tuple[float, int] = (0.0, 0)
    """Seconds and case."""
    largest: tuple[int, int] = (0, 0)
    """Bytes above the honest need, and case."""
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        """How many were judged."""
        return self.accepted + self.refused + sum(number >= 0 for number in self.failures)

    def add(self, number: int, outcome: Outcome, seconds: float, extra: int) -> None:
        """Count one case."""
        self.slowest = max(self.slowest, (seconds, number))
        self.largest = max(self.largest, (extra, number))
        if outcome.result == "failed":
            self.failures[number] = outcome
        else:
            setattr(self, outcome.result, getattr(self, outcome.result) + 1)


class _Worker:
    """One process and what its parent knows of it."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self.task = task
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, task), daemon=False)
        self.process.start()
        theirs.close()
        self.known: list[psutil.Process] = []
        """The process and its descendants when they were last looked at."""
        self.since = time.monotonic()
        self.ready = False
        self.honest = 0
        """Resident bytes that the honest seeds took."""
        self.seen = 0
        """The most that was seen of the process and its descendants in the current case."""
        self.number: int | None = None
        """The case it is at."""
        self.begun = -1
        """The case it began last."""
        self.stretch = (0, 0)

    def tree(self) -> list[psutil.Process]:
        """The process and all its descendants."""
        with suppress(psutil.Error):
            own = psutil.Process(self.process.pid)
            self.known = [own, *own.children(recursive=True)]
            return self.known
        return []

    def kill(self) -> None:
        """End the process and whatever it started, also where it is gone itself."""
        self.tree()
        for process in self.known:
            with suppress(psutil.Error):  # gone; psutil never takes a new process for an old one of the same number
                process.kill()
        self.process.join()
        self.connection.close()


class _Run:
    def __init__(self, options: Options, scratch: Path) -> None:
        self.options, self.scratch = options, scratch
        self.tallies = {kind: Tally() for kind in options.kinds}
        stop = options.first + options.count
        self.waiting = {kind: deque([(options.first, stop)]) for kind in options.kinds}
        self.started: dict[str, float] = {}
        """When the first worker of a kind had its seeds ready: that takes as long for one case as for all."""
        self.workers: list[_Worker] = []
        self.free = list(range(options.jobs))
        self.last_report = time.monotonic()

    def all(self) -> dict[str, Tally]:
        try:
            while self._fill():
                for connection in wait([worker.connection for worker in self.workers], timeout=_TICK):
                    self._hear(next(worker for worker in self.workers if worker.connection is connection))
                self._watch()
        finally:
            for worker in self.workers:
                worker.kill()
        return self.tallies

    def _fill(self) -> bool:
        """Start workers while there is work for them; whether there is any left."""
        for kind in self.waiting:
            while self.free and self._wants_worker(kind):
                slot = self.scratch / f"worker-{self.free.pop()}"
                shutil.rmtree(slot, ignore_errors=True)
                self.workers.append(_Worker(self._task(kind, slot)))
        return bool(self.workers)

    def _wants_worker(self, kind: str) -> bool:
        """Whether there is more to do than those who are making their seeds will take."""
        cases = sum(stop - start for start, stop in self.waiting[kind])
        starting = sum(worker.task.kind == kind and not worker.ready for worker in self.workers)
        return cases > starting * _STRETCH and self._in_time(kind)

    def _task(self, kind: str, slot: Path) -> Task:
        options = self.options
        return Task(kind, options.seed, slot, options.keep, options.case_bytes, options.plant)

    def _in_time(self, kind: str) -> bool:
        used = time.monotonic() - self.started.get(kind, time.monotonic())
        return used < self.options.seconds / len(self.tallies)

    def _hear(self, worker: _Worker) -> None:
        try:
            while worker.connection.poll():
                self._answer(worker, worker.connection.recv())
                if worker not in self.workers:
                    return
        except (EOFError, OSError):
            worker.process.join(10)
            self._lost(worker, _death(worker))

    def _answer(self, worker: _Worker, message: tuple[Any, ...]) -> None:
        what, *details = message
        tally = self.tallies[worker.task.kind]
        worker.since = time.monotonic()
        if what == "begun":
            worker.number = worker.begun = details[0]
            worker.seen = 0
        elif what == "done":
            number, outcome, seconds, own = details
            worker.number = None
            extra = max(own, worker.seen) - worker.honest
            if extra > self.options.case_bytes:
                outcome = worker.task.too_much
            tally.add(number, outcome, seconds, extra)
            self._tell(worker.task.kind, tally)
        elif what == "unfit":
            self._abandon(worker, details[0])
        else:
            if what == "ready":
                self.started.setdefault(worker.task.kind, worker.since)
                worker.ready, worker.honest = True, max(worker.seen, details[0])
            self._next(worker)

    def _next(self, worker: _Worker) -> None:
        kind = worker.task.kind
        if self.waiting[kind] and self._in_time(kind):
            start, stop = self.waiting[kind].popleft()
            worker.stretch = (start, min(start + _STRETCH, stop))
            if worker.stretch[1] < stop:
                self.waiting[kind].appendleft((worker.stretch[1], stop))
            worker.connection.send(worker.stretch)
            return
        if not self._in_time(kind):
            self.waiting[kind].clear()
        worker.connection.send(None)
        self.tallies[kind].seconds = time.monotonic() - self.started[kind]
        worker.process.join(10)
        self._remove(worker)

    def _watch(self) -> None:
        for worker in list(self.workers):
            passed = time.monotonic() - worker.since
            resident = 0
            for process in worker.tree():
                with suppress(psutil.Error):
                    resident += process.memory_info().rss
            worker.seen = max(worker.seen, resident)
            if not worker.ready:
                if passed > _START_SECONDS:
                    self._abandon(worker, f"the honest seeds took over {_START_SECONDS} seconds")
            elif worker.number is not None and passed > self.options.case_seconds:
                self._lost(worker, f"took over {self.options.case_seconds:g} seconds")
            elif worker.number is not None and resident - worker.honest > self.options.case_bytes:
                self._lost(worker, worker.task.too_much.reason)

    def _lost(self, worker: _Worker, reason: str) -> None:
        """Count the case that a worker was lost over, and leave the rest of its stretch to the next one."""
        if worker.begun < 0:
            self._abandon(worker, f"a worker was lost before its first case: {reason}")
            return
        if worker.number is None:
            reason = f"{reason} after the case, which may have spoilt its memory"
        kind, number = worker.task.kind, worker.begun
        passed = time.monotonic() - worker.since
        worker.kill()
        log = _tail(worker.task.scratch / "log")
        self.tallies[kind].add(number, Outcome("failed", reason, log), passed, worker.seen - worker.honest)
        kept = self.options.keep / f"{kind}-{number}"
        with suppress(OSError, shutil.Error):  # kept already by another run, or the disk is full
            kept.mkdir(parents=True)
            (kept / "reason.txt").write_text(f"{reason}\n{log}\n", encoding="utf-8")
            copy_files(worker.task.scratch / "case", kept / "input")
        if number + 1 < worker.stretch[1]:
            self.waiting[kind].appendleft((number + 1, worker.stretch[1]))
        self._remove(worker)

    def _abandon(self, worker: _Worker, reason: str) -> None:
        """Give up a kind whose honest seeds fail: there is nothing to compare with."""
        self.tallies[worker.task.kind].failures[-1] = Outcome("failed", reason, _tail(worker.task.scratch / "log"))
        self.waiting[worker.task.kind].clear()
        worker.kill()
        self._remove(worker)

    def _remove(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.kill()
        self.free.append(int(worker.task.scratch.name.rpartition("-")[2]))

    def _tell(self, kind: str, tally: Tally) -> None:
        now = time.monotonic()
        if now - self.last_report > 10:
            self.last_report = now
            rate = tally.cases / max(now - self.started[kind], 1e-9)
            done = f"{tally.cases:,} of {self.options.count:,}, {len(tally.failures):,} failures"
            self.options.progress(f"{kind}: {done}, {rate:.0f} a second")


def run(options: Options) -> dict[str, Tally]:
    """Run what ``options`` say and count what came of it, by kind."""
    options.keep.mkdir(parents=True, exist_ok=True)
    shared = "/dev/shm"  # memory, where the system has such a folder
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None, prefix="fuzz-") as scratch:
        return _Run(options, Path(scratch)).all()


def _death(worker: _Worker) -> str:
    code = worker.process.exitcode
    if code is not None and code < 0:
        return f"died of {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _tail(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-3000:]
    except OSError:
        return ""
