"""Private set intersection: time and memory of each step, compared with bare X25519 exchanges.

    python -m benchmarks.alignment                          10,000 and 100,000 ids on each side
    python -m benchmarks.alignment --ids 100000 1000000     a million: some minutes on two cores

Every step runs the command in a new process; memory is sampled over all of its processes together. Half of the ids are
common. "x bare" compares the core seconds of a step with those of as many bare exchanges by ``cryptography``, so it
hardly depends on what else runs on the machine; "seconds" and "points/s" do.
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

STEPS = {
    "start": (1, "start a.txt --out m1 --state a.state --both"),
    "answer": (2, "answer m1 b.txt --out m2 --state b.state"),
    "finish": (1, "finish m2 --state a.state --out users.txt"),
    "accept": (0, "accept users.txt --state b.state"),
}
"""How many points each step multiplies per id of one side, and its command."""
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print a table for each size, and how the work grows from one size to the next."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    work = [(ids, measure(ids, arguments.processes)) for ids in arguments.ids]
    for (few, before), (many, after) in pairwise(work):
        power = math.log(after / before) / math.log(many / few)
        print(f"\nfrom {few:,} to {many:,} ids core seconds grow as n^{power:.2f}")


def measure(ids: int, processes: int) -> float:
    """Print the time and memory of each step of a session, and return the core seconds of all steps."""
    bare = bare_rate()
    print(f"\n{ids:,} x {ids:,} ids, {processes} processes; one bare exchange takes {1e6 / bare:.1f} µs of a core")
    print(f"{'step':<8}{'seconds':>9}{'points/s':>10}{'core s':>8}{'x bare':>8}{'peak MiB':>10}")
    total, cores, largest = 0.0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, first in (("a", 0), ("b", ids // 2)):
            (folder / f"{side}.txt").write_text("".join(f"user{first + at:09}\n" for at in range(ids)))
        for step, (points, command) in STEPS.items():
            seconds, used, peak = run(folder, [*command.split(), *(["--processes", str(processes)] if points else [])])
            print(line(step, seconds, points * ids, used, bare, peak), flush=True)
            total, cores, largest = total + seconds, cores + used, max(largest, peak)
        common = (folder / "users.txt").read_bytes().count(b"\n")
        sent = sum((folder / message).stat().st_size for message in ("m1", "m2"))
    if common != ids - ids // 2:
        sys.exit(f"{common:,} common users were found, but there are {ids - ids // 2:,}")
    print(line("all", total, 4 * ids, cores, bare, largest))
    print(f"messages: {sent / 2**20:,.0f} MiB")
    return cores


def line(step: str, seconds: float, points: int, used: float, bare: float, peak: float) -> str:
    """Return one row of the table; a step that multiplies no points has no rate."""
    speed, ratio = (f"{points / seconds:,.0f}", f"{used * bare / points:.2f}") if points else ("", "")
    return f"{step:<8}{seconds:9.1f}{speed:>10}{used:8.1f}{ratio:>8}{peak:10.0f}"


def bare_rate(count: int = 5_000) -> float:
    """Return the number of X25519 exchanges per second of one core."""
    key = X25519PrivateKey.generate()
    points = [os.urandom(31) + b"\x01" for _ in range(count)]
    begun = time.process_time()
    for point in points:
        key.exchange(X25519PublicKey.from_public_bytes(point))
    return count / (time.process_time() - begun)


def run(folder: Path, arguments: list[str]) -> tuple[float, float, float]:
    """Return the seconds, core seconds and peak memory in MiB of a command, all its processes included."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    begun, before, peak = time.perf_counter(), core_seconds(), 0
    with subprocess.Popen(
        [sys.executable, "-m", "pricdr", "align", *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    ) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            with suppress(psutil.NoSuchProcess):
                processes = [process, *process.children(recursive=True)]
                peak = max(peak, sum(running.memory_info().rss for running in processes))
            time.sleep(0.05)
    if child.returncode:
        sys.exit(f"align {' '.join(arguments)} failed")
    return time.perf_counter() - begun, core_seconds() - before, peak / 2**20


def core_seconds() -> float:
    """Return the core seconds that all commands so far have used, including their workers."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
