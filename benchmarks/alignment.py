"""Private set intersection: time and memory of each step, beside the bare X25519 exchange.

    python -m benchmarks.alignment                          10,000 and 100,000 ids on each side
    python -m benchmarks.alignment --ids 100000 1000000     a million: about five minutes on two cores

Every step is the command itself, in a process of its own; memory is that of all its processes together, sampled.
Half of the ids are common. The bare exchange is what ``cryptography`` does on one core, times the number of processes:
what a step would take if it did nothing but multiply.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import psutil
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

STEPS = {"start": 1, "answer": 2, "finish": 1, "accept": 0}
"""Points that each step multiplies, for every id of one side."""
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print one table for each size, and how time grows from the first to the last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    totals = [measured(ids, given.processes) for ids in given.ids]
    for (few, before), (many, after) in pairwise(zip(given.ids, totals, strict=True)):
        print(f"\nfrom {few:,} to {many:,} ids time grows as n^{math.log(after / before) / math.log(many / few):.2f}")


def measured(ids: int, processes: int) -> float:
    """Print what the steps of one session take, and return their seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, first in (("a", 0), ("b", ids // 2)):
            (folder / f"{side}.txt").write_text("".join(f"user{first + at:09}\n" for at in range(ids)))
        commands = {
            "start": "start a.txt --out m1 --state a.state --both",
            "answer": "answer m1 b.txt --out m2 --state b.state",
            "finish": "finish m2 --state a.state --out users.txt",
            "accept": "accept users.txt --state b.state",
        }
        bare = bare_rate()
        print(f"\n{ids:,} x {ids:,} ids, {processes} processes; one bare exchange takes {1e6 / bare:.1f} µs of a core")
        print(f"{'step':<8}{'seconds':>9}{'points/s':>10}{'x bare':>8}{'peak MiB':>10}")
        total, largest = 0.0, 0.0
        for step, command in commands.items():
            words = command.split() + (["--processes", str(processes)] if STEPS[step] else [])
            seconds, peak = run(folder, words)
            points = STEPS[step] * ids
            speed = f"{points / seconds:10,.0f}{seconds * bare * processes / points:8.2f}" if points else " " * 18
            print(f"{step:<8}{seconds:9.1f}{speed}{peak:10.0f}")
            total, largest = total + seconds, max(largest, peak)
        common = len((folder / "users.txt").read_text().splitlines())
        if common != ids - ids // 2:
            sys.exit(f"{common:,} common users were found, and there are {ids - ids // 2:,}")
        print(
            f"{'all':<8}{total:9.1f}{4 * ids / total:10,.0f}{total * bare * processes / (4 * ids):8.2f}{largest:10.0f}"
        )
        print(f"messages: {sum((folder / m).stat().st_size for m in ('m1', 'm2')) / 2**20:,.0f} MiB")
    return total


def bare_rate(count: int = 5_000) -> float:
    """Return how many exchanges one core does in a second of its time."""
    key = X25519PrivateKey.generate()
    points = [os.urandom(31) + b"\x01" for _ in range(count)]
    begun = time.process_time()
    for point in points:
        key.exchange(X25519PublicKey.from_public_bytes(point))
    return count / (time.process_time() - begun)


def run(folder: Path, words: list[str]) -> tuple[float, float]:
    """Return the seconds and the peak of memory, in MiB, of one command and all its processes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    begun, peak = time.perf_counter(), 0
    with subprocess.Popen(
        [sys.executable, "-m", "pricdr", "align", *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL
    ) as child:
        process = psutil.Process(child.pid)
        while child.poll() is None:
            try:
                everyone = [process, *process.children(recursive=True)]
                peak = max(peak, sum(one.memory_info().rss for one in everyone))
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.05)
    if child.returncode:
        sys.exit(f"align {' '.join(words)} failed")
    return time.perf_counter() - begun, peak / 2**20


if __name__ == "__main__":
    main()
