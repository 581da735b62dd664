"""A process that judges cases one after another, and tells its parent before and after each.

It may crash, hang or be killed at any of them: the parent knows which one it had begun.
"""

import faulthandler
import gc
import os
import shutil
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from tests.fuzz.cases import Files, Kind, Outcome, Seed, run_judge, write_files

KEPT_PER_REASON = 3
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_LOG_BYTES = 1 << 20


@dataclass(frozen=True)
class Task:
    """What a worker is to do all its life: cases of one kind and one seed."""

    kind: str
    seed: int
    scratch: Path
    keep: Path
    case_bytes: int
    """What one case may take more than the honest seeds."""
    plant: str | None = None

    @property
    def too_much(self) -> Outcome:
        """The outcome of a case that takes more."""
        return Outcome("failed", f"took over {self.case_bytes >> 20:,} MiB more than honest input")


def work(connection: Connection, task: Task) -> None:
    """Make the honest seeds, see that they are accepted, and then judge stretches of cases until there are no more."""
    _set_up(task.scratch)
    kind, seeds = _prepare(task)
    bench = _Bench(kind, seeds, task)
    reset_peak()
    for seed in seeds:
        outcome = bench.judge(seed, seed.files)
        if outcome.result != "accepted":
            connection.send(("unfit", f"honest seed {seed.name!r} is not accepted: {outcome}"))
            return
    bench.honest = peak()
    connection.send(("ready", bench.honest))
    while (stretch := connection.recv()) is not None:
        for number in range(*stretch):
            connection.send(("begun", number))
            started = time.perf_counter()
            outcome = bench.run(number)
            connection.send(("done", number, outcome, time.perf_counter() - started, peak()))
        connection.send(("idle",))


def _set_up(scratch: Path) -> None:
    """Threads of several workers would only get in each other's way; what native code says goes into a log."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ["RUST_BACKTRACE"] = "0"
    scratch.mkdir(parents=True, exist_ok=True)
    log = os.open(scratch / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable()


def _prepare(task: Task) -> tuple[Kind, list[Seed]]:
    kind: Kind = import_module(f"tests.fuzz.{task.kind}").KIND
    folder = task.scratch / "seeds"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    seeds = kind.seeds(folder)
    shutil.rmtree(folder)
    if task.plant is not None:
        kind = import_module("tests.fuzz.planted").planted(kind, task.plant)
    return kind, seeds


class _Bench:
    """Where cases are laid out and judged."""

    def __init__(self, kind: Kind, seeds: list[Seed], task: Task) -> None:
        self.kind, self.seeds, self.task = kind, seeds, task
        self.folder = task.scratch / "case"
        self.kept: Counter[str] = Counter()
        self.honest = 0
        """Resident bytes that the honest seeds took at most."""

    def run(self, number: int) -> Outcome:
        """Make the case of this number, which depends on nothing else, and judge it."""
        if os.fstat(2).st_size > _LOG_BYTES:
            os.ftruncate(2, 0)
        rng = Random(f"{self.task.seed}/{self.task.kind}/{number}")
        seed, other = rng.choice(self.seeds), rng.choice(self.seeds)
        try:
            files = self.kind.mutate(rng, seed, other)
        except Exception as error:  # our own fault, to be told from the product's
            return Outcome("failed", f"the fuzzer itself: {type(error).__name__}", traceback.format_exc())
        reset_peak()
        outcome = self.judge(seed, files)
        if peak() - self.honest > self.task.case_bytes:
            outcome = self.task.too_much
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
        folder = self.task.keep / f"{self.task.kind}-{number}"
        if self.kept[outcome.reason] <= KEPT_PER_REASON and not folder.exists():
            (folder / "input").mkdir(parents=True)
            write_files(folder / "input", files)
            text = f"made from the honest seed {seed.name!r}\n{outcome.reason}\n{outcome.detail}\n"
            (folder / "reason.txt").write_text(text, encoding="utf-8", errors="backslashreplace")


def reset_peak() -> None:
    """Let the largest resident memory be counted from here on, where the system can do that."""
    gc.collect(0)
    with suppress(OSError):
        _CLEAR.write_text("5")


def peak() -> int:
    """The largest resident memory since it was reset, in bytes; 0 where the system does not say."""
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0
