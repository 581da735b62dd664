"""Workers that judge one case after another, as a thread of the parent names them.

A worker may crash, hang or take too much memory at any case: that case has failed, and the next one gets a new worker.
"""

import faulthandler
import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from tests.fuzz.cases import Files, Kind, Outcome, Seed, run_judge, write_files

KINDS = {
    **dict.fromkeys(("releases", "notices"), "releases"),
    **dict.fromkeys(("ledgers", "alignments", "ratings"), "stage_one"),
    **dict.fromkeys(("models", "checkpoints", "specs"), "stage_two"),
}
"""Every kind of input, and the module whose table ``KINDS`` has it."""
_START_SECONDS = 180
_MAX_MEMORY = 16 << 30
"""Bytes that a worker can ask the system for: what runs away is stopped before the machine is."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to run, and how much of it."""

    count: int = 10_000
    first: int = 0
    seed: int = 1
    jobs: int = 1
    case_seconds: float = 30.0
    case_bytes: int = 1 << 30
    """Resident memory above what the honest seeds need."""
    plant: Callable[[Kind], Kind] | None = None
    """Plants a bug, to see that it is found."""
    show: Path | None = None
    """Where the files of a case are laid out, to be looked at afterwards."""


def run(kind: str, options: Options) -> dict[int, Outcome]:
    """Judge the cases of one kind; the number -1 stands for its honest seeds, where these fail."""
    shared = "/dev/shm"  # memory, where the system has such a folder
    numbers = range(options.first, options.first + options.count)
    with (
        tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None, prefix="fuzz-") as scratch,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        parts = [
            pool.submit(_run_some, kind, numbers[start :: options.jobs], options, Path(scratch) / str(start))
            for start in range(min(options.jobs, options.count))
        ]
        return {number: outcome for part in parts for number, outcome in part.result().items()}


def _run_some(kind: str, numbers: range, options: Options, scratch: Path) -> dict[int, Outcome]:
    outcomes: dict[int, Outcome] = {}
    worker = None
    try:
        for number in numbers:
            if worker is None:
                worker = _Worker(kind, options, scratch)
                if worker.seeds.result != "accepted":
                    return {**outcomes, -1: worker.seeds}
            outcomes[number] = worker.judge(number)
            if worker.lost:
                worker = None
    finally:
        if worker is not None:
            worker.end()
    return outcomes


class _Worker:
    """One process, what came of the honest seeds, and how much memory they took in it."""

    def __init__(self, kind: str, options: Options, scratch: Path) -> None:
        self.options, self.scratch, self.lost = options, scratch, False
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        (scratch / "log").touch()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, kind, scratch, options), daemon=True)
        self.process.start()
        theirs.close()
        self.seeds, self.honest = self._answer(_START_SECONDS)

    def judge(self, number: int) -> Outcome:
        """Return what came of a case."""
        self.connection.send(number)
        outcome, peak = self._answer(self.options.case_seconds)
        if peak - self.honest > self.options.case_bytes:
            self.end()  # the peak is of its whole life
            return Outcome("failed", f"took over {self.options.case_bytes >> 20:,} MiB more than honest input")
        return outcome

    def _answer(self, seconds: float) -> tuple[Outcome, int]:
        try:
            if self.connection.poll(seconds):
                answer: tuple[Outcome, int] = self.connection.recv()
                return answer
            reason = f"took over {seconds:g} seconds"
        except (EOFError, OSError):
            self.process.join(10)
            code = self.process.exitcode or 0
            reason = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        self.end()
        said = (self.scratch / "log").read_text(encoding="utf-8", errors="replace")
        return Outcome("failed", reason, said[-3000:]), 0

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()
        self.lost = True


def _work(connection: Connection, kind: str, scratch: Path, options: Options) -> None:
    """Make the honest seeds, see that they are accepted, and then judge cases until there are no more."""
    # Threads of several workers would only get in each other's way; what native code says goes into a log.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))
    log = os.open(scratch / "log", os.O_RDWR | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()
    bench = Bench(kind, scratch, options)
    connection.send((bench.judge_seeds(), _peak()))
    with suppress(EOFError):  # the parent has no more
        while True:
            outcome = bench.run(connection.recv())
            os.ftruncate(log, 0)
            connection.send((outcome, _peak()))


def _peak() -> int:
    """The largest resident memory of this process, in bytes; 0 where the system does not say."""
    with suppress(OSError):  # of getrusage a child begins with its parent's
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


class Bench:
    """Where cases are laid out and judged, in this process."""

    def __init__(self, kind: str, scratch: Path, options: Options) -> None:
        self.name, self.options, self.scratch = kind, options, scratch
        self.kind: Kind = import_module(f"tests.fuzz.{KINDS[kind]}").KINDS[kind]
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            self.seeds = self.kind.seeds(Path(folder))

    def judge_seeds(self) -> Outcome:
        """Return the first honest seed's outcome that is not acceptance; plant the bug, if any, after that."""
        for seed in self.seeds:
            outcome = self._judge(seed, seed.files)
            if outcome.result != "accepted":
                return Outcome("failed", f"honest seed {seed.name!r} is not accepted: {outcome}")
        if self.options.plant is not None:
            self.kind = self.options.plant(self.kind)
        return Outcome("accepted")

    def run(self, number: int) -> Outcome:
        """Make the case of this number, which depends on nothing else, and judge it."""
        rng = Random(f"{self.options.seed}/{self.name}/{number}")
        seed, other = rng.choice(self.seeds), rng.choice(self.seeds)
        try:
            files = self.kind.mutate(rng, seed, other)
        except Exception as error:  # our own fault, to be told from the product's
            return Outcome("failed", f"the fuzzer itself: {type(error).__name__}", traceback.format_exc())
        return self._judge(seed, files)

    def _judge(self, seed: Seed, files: Files) -> Outcome:
        case = self.options.show or self.scratch / "case"
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir(parents=True)
        write_files(case, files)
        return run_judge(self.kind, case, seed, files)
