"""Compare the engines with each other and with the bare product, as the number of ratings grows.

Every run is the whole command in its own process, from Parquet parts to a release folder; the bare product is A times
E alone, with A already in memory. Memory is what the process and its children hold: *anonymous* (RssAnon, what counts
against a limit) and resident (with pages of files, which the system takes back when it needs them).

    make bench-scale                                     1 M and 10 M ratings
    python -m benchmarks.scale --ratings 1e6,1e7,1e8     100 M takes 5 GB of disk
        --same 1e5                                       also with the same users: does memory grow with ratings?
        --users 1e5,4e5,16e5                             also 4 M ratings of more and more users

One JSON line per run goes to a file; the tables are printed from it. Other work on the machine makes seconds longer;
processor seconds, of all cores together, change little.
"""

import argparse
import importlib.util
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import psutil
import scipy.sparse as sp

from pricdr.parallel import cores

PART: Final = 1_000_000
RATINGS_PER_USER: Final = 20
MAX_EXPONENT: Final = 1.05
DIM: Final = 8
ENGINES: Final = ("duckdb", "spark")


def main() -> None:
    """Measure the requested cases, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratings", default="1e6,1e7", help="numbers of ratings, separated by commas")
    parser.add_argument("--items", type=float, default=1e5, help="items, of which a Zipf law prefers the first")
    parser.add_argument("--same", type=float, default=0, help="also with this many users at every number of ratings")
    parser.add_argument(
        "--users", default="", help="also with these numbers of users (separated by commas) and --at ratings"
    )
    parser.add_argument("--at", type=float, default=4e6, help="ratings while users grow")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--strategy", default="spectral")
    parser.add_argument("--folder", type=Path, help="where ratings and releases are kept meanwhile")
    parser.add_argument("--out", type=Path, default=Path("build/bench-scale.jsonl"))
    options = parser.parse_args()
    items, engines = int(options.items), options.engines.split(",")
    by_ratings = [int(float(count)) for count in options.ratings.split(",") if count]
    cases = [("ratings", count, max(1, count // RATINGS_PER_USER)) for count in by_ratings]
    cases += [("ratings of the same users", count, int(options.same)) for count in by_ratings if options.same]
    cases += [("users", int(options.at), int(float(users))) for users in options.users.split(",") if users]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = []
    for grows, count, users in cases:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, options.out.open("a") as lines:
            for result in measure(Path(folder), count, users, items, engines, options.strategy):
                results.append({"grows": grows, "ratings": count, "users": users, "items": items, **result})
                lines.write(json.dumps(results[-1]) + "\n")
                lines.flush()
                print(row(results[-1]), flush=True)
    print()
    print_tables(results)


def measure(
    folder: Path, count: int, users: int, items: int, engines: list[str], strategy: str
) -> Iterator[dict[str, Any]]:
    """Yield one result for each engine, and one for the bare product."""
    size = generate(folder / "parts", count, users, items)
    product = bare_product(count, users, items)
    yield {"engine": "product", "seconds": product, "cores": 1, "parquet_mb": size / 1e6}
    for engine in engines:
        if reason := skip_reason(engine):
            yield {"engine": engine, "skipped": reason}
            continue
        figures = run_engine(folder, engine, strategy)
        yield {"engine": engine, "strategy": strategy, "product": product, "cores": cores(), **figures}


def skip_reason(engine: str) -> str | None:
    """Return why an engine is not measured here; None if it is."""
    if engine == "spark" and importlib.util.find_spec("pyspark") is None:
        return "the extra spark is not installed"
    return None


def chunks(count: int, users: int, items: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield users and items of ratings, part by part; the same for the same arguments."""
    rng = np.random.default_rng(0)
    weights = np.cumsum(1 / np.arange(1, items + 1))
    names = rng.permutation(items).astype(np.int32)
    for start in range(0, count, PART):
        size = min(PART, count - start)
        drawn = np.searchsorted(weights, rng.random(size) * weights[-1])
        yield rng.integers(0, users, size).astype(np.int32), names[np.minimum(drawn, items - 1)]


def generate(folder: Path, count: int, users: int, items: int) -> int:
    """Write the ratings as Parquet parts of a million rows, users in no order; return the bytes they take."""
    folder.mkdir()
    for number, (rows, columns) in enumerate(chunks(count, users, items)):
        frame = pl.DataFrame({"user": rows, "item": columns}).select(
            ("u" + pl.col("user").cast(pl.String).str.zfill(9)).alias("user"),
            ("i" + pl.col("item").cast(pl.String).str.zfill(7)).alias("item"),
        )
        frame.write_parquet(folder / f"part-{number:05d}.parquet")
    return sum(part.stat().st_size for part in folder.iterdir())


def bare_product(count: int, users: int, items: int) -> float:
    """Return the seconds of A times E, with A in memory, in one thread: the least that any engine must do once."""
    pairs = list(chunks(count, users, items))
    rows, columns = (np.concatenate([pair[at] for pair in pairs]) for at in (0, 1))
    matrix = sp.coo_array((np.ones(count, dtype=np.int32), (rows, columns)), shape=(users, items)).tocsr()
    vectors = np.random.default_rng(1).integers(-1000, 1000, (items, DIM)).astype(np.int32)
    start = time.perf_counter()
    _ = matrix @ vectors
    return time.perf_counter() - start


def run_engine(folder: Path, engine: str, strategy: str) -> dict[str, Any]:
    """Run the command once; return its seconds and its peak memory in MB."""
    out = folder / f"{engine}.release"
    command = [sys.executable, "-m", "pricdr", "publish", str(folder / "parts"), "--epsilon", "4", "--delta", "1e-6"]
    command += ["--strategy", strategy, "--dim", str(DIM), "--engine", engine, "--out", str(out)]
    with tempfile.TemporaryFile("w+") as errors:
        start, before = time.perf_counter(), processor_seconds()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors) as process:
            watch = Watch(process.pid)
            process.wait()
            seconds, busy = time.perf_counter() - start, processor_seconds() - before
            watch.stop()
        if process.returncode:
            errors.seek(0)
            return {"skipped": errors.read().strip().splitlines()[-1]}
    shutil.rmtree(out)
    memory = {"anonymous_mb": watch.anonymous / 1e6, "resident_mb": watch.resident / 1e6}
    return {"seconds": seconds, "processor_seconds": busy, **memory}


def processor_seconds() -> float:
    """Return the processor seconds of child processes that have ended: other work on the machine changes them least."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Watch:
    """Records the peak memory of a process and its children, sampled a hundred times a second."""

    def __init__(self, pid: int) -> None:
        self.anonymous = self.resident = 0
        self._pid, self._stopped = pid, threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stopped.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopped.wait(0.01):
            try:
                family = [psutil.Process(self._pid)]
                family += family[0].children(recursive=True)
            except psutil.NoSuchProcess:
                return
            anonymous = resident = 0
            for process in family:
                status = Path(f"/proc/{process.pid}/status")
                try:
                    fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
                    anonymous += int(fields["RssAnon"].split()[0]) * 1024
                    resident += int(fields["VmRSS"].split()[0]) * 1024
                except (OSError, KeyError):
                    continue
            self.anonymous, self.resident = max(self.anonymous, anonymous), max(self.resident, resident)


def print_tables(results: list[dict[str, Any]]) -> None:
    """Print every run, and how time and memory grow."""
    print(f"{'ratings':>14}{'users':>12}  {'engine':10}{'seconds':>9}{'x product':>11}{'ratings/s/core':>16}", end="")
    print(f"{'processor s':>13}{'anonymous MB':>14}{'resident MB':>13}")
    for result in results:
        print(row(result))
    for grows in ("ratings", "ratings of the same users", "users"):
        for engine in ENGINES:
            runs = [run for run in results if (run["grows"], run["engine"]) == (grows, engine) and "seconds" in run]
            if len(runs) < 2:
                continue
            for what in ("seconds", "processor_seconds", "anonymous_mb"):
                power = exponent([run[grows.split()[0]] for run in runs], [run[what] for run in runs])
                verdict = "" if what != "seconds" else " kept" if power <= MAX_EXPONENT else " MISSED"
                print(f"{engine}: {what.replace('_', ' ')} grow like ({grows})^{power:.2f}{verdict}")


def row(run: dict[str, Any]) -> str:
    """Return one run as a line of the table."""
    start = f"{run['ratings']:>14,}{run['users']:>12,}  {run['engine']:10}"
    if "skipped" in run:
        return f"{start}  not run: {run['skipped']}"
    line = f"{start}{run['seconds']:9.2f}"
    if run["engine"] == "product":
        return f"{line}{1.0:10.1f}x{run['ratings'] / run['seconds']:16,.0f}"
    speed = run["ratings"] / run["seconds"] / run["cores"]
    ratio = run["seconds"] / run["product"]
    memory = f"{run['anonymous_mb']:14,.0f}{run['resident_mb']:13,.0f}"
    return f"{line}{ratio:10.1f}x{speed:16,.0f}{run['processor_seconds']:13.1f}{memory}"


def exponent(sizes: list[int], values: list[float]) -> float:
    """Return the power by which ``values`` grow with ``sizes``, by least squares on their logarithms."""
    return float(np.polyfit([math.log(size) for size in sizes], [math.log(value) for value in values], 1)[0])


if __name__ == "__main__":
    main()
