"""Workers over all cores, watched from outside: time, memory with all descendants, and death by a signal.

A worker is a process that judges one case after another, as its parent names them. It may crash, hang or be killed at
any of them: its parent, a thread for each worker, counts that case as failed and starts another.
"""

import faulthandler
import gc
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.fuzz.cases import Files, Kind, Outcome, Seed, run_judge, write_files

KINDS = {
    **dict.fromkeys(("releases", "notices"), "releases"),
    **dict.fromkeys(("ledgers", "alignments", "ratings"), "stage_one"),
    **dict.fromkeys(("models", "checkpoints", "specs"), "stage_two"),
}
"""Every kind of input, and the module whose table ``KINDS`` has it."""
_STRETCH = 100
_TICK = 0.1
_START_SECONDS = 180
_KEPT_PER_REASON = 3
_LOG_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run, and how much of it."""

    keep: Path
    """Where failing inputs are kept."""
    kinds: tuple[str, ...] = tuple(KINDS)
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

    @property
    def too_much(self) -> Outcome:
        """The outcome of a case that takes more memory."""
        return Outcome("failed", f"took over {self.case_bytes >> 20:,} MiB more than honest input")


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


def run(options: Options) -> dict[str, Tally]:
    """Run what ``options`` say and count what came of it, by kind."""
    options.keep.mkdir(parents=True, exist_ok=True)
    shared = "/dev/shm"  # memory, where the system has such a folder
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None, prefix="fuzz-") as scratch:
        work = _Run(options)
        threads = [threading.Thread(target=work.take_part, args=(Path(scratch) / str(n),)) for n in range(options.jobs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            work.stopped = True
            for thread in threads:
                thread.join()
        return work.tallies


class _Run:
    """What the threads share: the cases that are left, and what came of the others."""

    def __init__(self, options: Options) -> None:
        self.options, self.stopped, self.lock = options, False, threading.Lock()
        self.tallies = {kind: Tally() for kind in options.kinds}
        stop = options.first + options.count
        stretches = [range(at, min(at + _STRETCH, stop)) for at in range(options.first, stop, _STRETCH)]
        self.waiting = {kind: deque(stretches) for kind in options.kinds}
        self.started: dict[str, float] = {}
        """When the first worker of a kind had its seeds ready: that takes as long for one case as for all."""
        self.reported = time.monotonic()

    def take_part(self, scratch: Path) -> None:
        """Work off stretches of cases, one kind after another, with one worker at a time."""
        for kind in self.options.kinds:
            worker = None
            try:
                while self.waiting[kind] and not self.stopped:
                    with suppress(IndexError):  # another thread took the last one
                        for number in self.waiting[kind].popleft():
                            if worker is None:
                                worker = _Worker(kind, self.options, scratch, self)
                                self.started.setdefault(kind, time.monotonic())
                            used = time.monotonic() - self.started[kind]
                            if self.stopped or used > self.options.seconds / len(self.tallies):
                                self.waiting[kind].clear()
                                break
                            outcome, seconds, extra = worker.judge(number)
                            self._count(kind, number, outcome, seconds, extra)
                            if worker.dead:
                                worker = None
            except _Unfit as unfit:
                # There is nothing to compare with.
                self.tallies[kind].failures[-1] = Outcome("failed", str(unfit), _tail(scratch / "log"))
                self.waiting[kind].clear()
            finally:
                if worker is not None:
                    worker.kill()

    def _count(self, kind: str, number: int, outcome: Outcome, seconds: float, extra: int) -> None:
        with self.lock:
            tally, now = self.tallies[kind], time.monotonic()
            tally.add(number, outcome, seconds, extra)
            tally.seconds = now - self.started[kind]
            if now - self.reported > 10:
                self.reported = now
                done = f"{tally.cases:,} of {self.options.count:,}, {len(tally.failures):,} failures"
                self.options.progress(f"{kind}: {done}, {tally.cases / max(tally.seconds, 1e-9):.0f} a second")


class _Unfit(Exception):  # noqa: N818 - the seeds are
    """No case can be judged: the honest seeds fail."""


class _Lost(Exception):  # noqa: N818 - the worker is
    """A worker died, or has to."""


class _Worker:
    """One process, and the largest memory that was seen of it and its descendants in the current case."""

    def __init__(self, kind: str, options: Options, scratch: Path, run: _Run) -> None:
        self.kind, self.options, self.scratch, self.run = kind, options, scratch, run
        shutil.rmtree(scratch, ignore_errors=True)
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        sent = replace(options, progress=print)  # a function of the parent's stays there
        self.process = context.Process(target=_work, args=(theirs, kind, scratch, sent))
        self.process.start()
        theirs.close()
        self.known: list[psutil.Process] = []
        """The process and its descendants when they were last looked at."""
        self.dead, self.seen, self.honest = False, 0, 1 << 62
        try:
            fault, own = self._answer(_START_SECONDS)
        except _Lost as lost:
            self.kill()
            raise _Unfit(f"a worker was lost before its first case: {lost}") from lost
        if fault:
            self.kill()
            raise _Unfit(fault)
        self.honest = max(self.seen, own)

    def judge(self, number: int) -> tuple[Outcome, float, int]:
        """Return what came of a case, how long it took, and how much more memory than the honest seeds."""
        self.seen, since = 0, time.monotonic()
        try:
            self.connection.send(number)
            outcome, seconds, own = self._answer(self.options.case_seconds)
        except (_Lost, OSError) as lost:
            log = _tail(self.scratch / "log")
            self.kill()
            self._keep(number, str(lost), log)
            return Outcome("failed", str(lost), log), time.monotonic() - since, self.seen - self.honest
        extra = max(own, self.seen) - self.honest
        return self.options.too_much if extra > self.options.case_bytes else outcome, seconds, extra

    def _answer(self, seconds: float) -> Any:
        """Wait for the worker, and watch it."""
        since = time.monotonic()
        while not self.connection.poll(_TICK):
            resident = 0
            for process in self._tree():
                with suppress(psutil.Error):
                    resident += process.memory_info().rss
            self.seen = max(self.seen, resident)
            if time.monotonic() - since > seconds:
                raise _Lost(f"took over {seconds:g} seconds")
            if resident - self.honest > self.options.case_bytes:
                raise _Lost(self.options.too_much.reason)
            if self.run.stopped:
                raise _Lost("stopped")
        try:
            return self.connection.recv()
        except (EOFError, OSError) as error:
            self.process.join(10)
            code = self.process.exitcode
            killed = code is not None and code < 0
            raise _Lost(
                f"died of {signal.Signals(-code).name}" if killed else f"ended with exit code {code}"
            ) from error

    def _tree(self) -> list[psutil.Process]:
        """The process and all its descendants."""
        with suppress(psutil.Error):
            own = psutil.Process(self.process.pid)
            self.known = [own, *own.children(recursive=True)]
            return self.known
        return []

    def kill(self) -> None:
        """End the process and whatever it started, also where it is gone itself."""
        self._tree()
        for process in self.known:
            with suppress(psutil.Error):  # gone; psutil never takes a new process for an old one of the same number
                process.kill()
        self.process.join()
        self.connection.close()
        self.dead = True

    def _keep(self, number: int, reason: str, log: str) -> None:
        kept = self.options.keep / f"{self.kind}-{number}"
        with suppress(OSError, shutil.Error):  # kept already by another run, or the disk is full
            kept.mkdir(parents=True)
            (kept / "reason.txt").write_text(f"{reason}\n{log}\n", encoding="utf-8")
            shutil.copytree(self.scratch / "case", kept / "input", symlinks=True)  # without pipes, which it refuses


def _tail(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-3000:]
    except OSError:
        return ""


def _work(connection: Connection, kind: str, scratch: Path, options: Options) -> None:
    """Make the honest seeds, see that they are accepted, and then judge cases until there are no more."""
    # Threads of several workers would only get in each other's way; what native code says goes into a log.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ["RUST_BACKTRACE"] = "0"
    scratch.mkdir(parents=True, exist_ok=True)
    log = os.open(scratch / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()
    bench = _Bench(kind, scratch, options)
    _reset_peak()
    for seed in bench.seeds:
        outcome = bench.judge(seed, seed.files)
        if outcome.result != "accepted":
            connection.send((f"honest seed {seed.name!r} is not accepted: {outcome}", 0))
            return
    bench.honest = _peak()
    connection.send(("", bench.honest))
    with suppress(EOFError):  # the parent has no more
        while True:
            number, started = connection.recv(), time.perf_counter()
            outcome = bench.run(number)
            connection.send((outcome, time.perf_counter() - started, _peak()))


class _Bench:
    """Where cases are laid out and judged."""

    def __init__(self, kind: str, scratch: Path, options: Options) -> None:
        self.name, self.options, self.folder = kind, options, scratch / "case"
        self.kind: Kind = import_module(f"tests.fuzz.{KINDS[kind]}").KINDS[kind]
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            self.seeds = self.kind.seeds(Path(folder))
        if options.plant is not None:
            self.kind = import_module("tests.fuzz.planted").planted(self.kind, options.plant)
        self.kept: Counter[str] = Counter()
        self.honest = 0
        """Resident bytes that the honest seeds took at most."""

    def run(self, number: int) -> Outcome:
        """Make the case of this number, which depends on nothing else, and judge it."""
        if os.fstat(2).st_size > _LOG_BYTES:
            os.ftruncate(2, 0)
        rng = Random(f"{self.options.seed}/{self.name}/{number}")
        seed, other = rng.choice(self.seeds), rng.choice(self.seeds)
        try:
            files = self.kind.mutate(rng, seed, other)
        except Exception as error:  # our own fault, to be told from the product's
            return Outcome("failed", f"the fuzzer itself: {type(error).__name__}", traceback.format_exc())
        _reset_peak()
        outcome = self.judge(seed, files)
        if _peak() - self.honest > self.options.case_bytes:
            outcome = self.options.too_much
        if outcome.result == "failed":
            self._keep(number, seed, files, outcome)
        return outcome

    def judge(self, seed: Seed, files: Files) -> Outcome:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        write_files(self.folder, files)
        return run_judge(self.kind, self.folder, seed, files)

    def _keep(self, number: int, seed: Seed, files: Files, outcome: Outcome) -> None:
        self.kept[outcome.reason] += 1
        folder = self.options.keep / f"{self.name}-{number}"
        if self.kept[outcome.reason] <= _KEPT_PER_REASON and not folder.exists():
            (folder / "input").mkdir(parents=True)
            write_files(folder / "input", files)
            text = f"made from the honest seed {seed.name!r}\n{outcome.reason}\n{outcome.detail}\n"
            (folder / "reason.txt").write_text(text, encoding="utf-8", errors="backslashreplace")


def _reset_peak() -> None:
    """Let the largest resident memory be counted from here on, where the system can do that."""
    gc.collect(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The largest resident memory since it was reset, in bytes; 0 where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0
