"""A server under load: answers a second, latency, refusals, and memory.

    python -m benchmarks.serving                    capacity and twice that, 25,000 items with 64 numbers each
    python -m benchmarks.serving --soak 3600        half of the capacity for an hour: does memory grow?
    python -m benchmarks.serving --recall           more than a million items: what the approximate search misses
    python -m benchmarks.serving --methods          a single answer of other kinds of models

The load comes from wrk (a Debian package), which shares the processors of this machine with the server. Its clients
keep their connections and send the next request as soon as they are answered, or after a pause. ``p99`` is what wrk
measured over all responses, including refusals. ``answers within`` is the time within which the server sent 99 of 100
answers, by its own metrics, and ``CPU ms each`` is its processor time for an answer.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.recommend import random_model
from pricdr.models.fitted import FittedModel, Origin
from pricdr.models.interaction import Interaction
from pricdr.serving.search import ApproximateSearch, build_search
from pricdr.serving.snapshot import ItemsQuery, Snapshot

ROOT = Path(__file__).parents[1]
USERS = 20_000
SCRIPT = """
local threads, pause, users = {}, PAUSE, USERS
function setup(thread) table.insert(threads, thread) end
function init() n = 0; answered = 0; refused = 0; other = 0; without = 0 end
function delay() return pause end
function request()
  n = n + 7919
  return wrk.format("GET", string.format("/users/user%08d/recommendations", n % users))
end
function response(status, headers)
  if status == 200 then answered = answered + 1
  elseif status == 503 then
    refused = refused + 1
    if not headers["retry-after"] then without = without + 1 end
  else other = other + 1 end
end
function done(summary, latency)
  local t = threads[1]
  local e = summary.errors
  io.write(string.format(
    'RESULT {"seconds": %f, "answered": %d, "refused": %d, "other": %d, "p50": %f, "p99": %f}\\n',
    summary.duration / 1e6, t:get("answered"), t:get("refused"),
    t:get("other") + t:get("without") + e.connect + e.read + e.write + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""


def main() -> None:
    """Run the benchmark that the options select."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=25_000)
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--soak", type=int, metavar="SECONDS", help="half of the capacity for this long")
    parser.add_argument("--recall", action="store_true")
    parser.add_argument("--methods", action="store_true")
    options = parser.parse_args()
    if options.recall:
        show_recall(max(options.items, 1_200_000))
    elif options.methods:
        show_methods(options.items)
    else:
        with tempfile.TemporaryDirectory() as folder, serving(save_model(Path(folder), options.items)) as server:
            show_load(server, options.items, options.seconds, options.soak)


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    address: str

    def memory(self) -> float:
        """Return its memory in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def processor(self) -> float:
        """Return the processor time it has used, in seconds, which other programs on this machine hardly change."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def latencies(self) -> dict[float, float]:
        """Return the server's histogram of latencies: how many answers took at most each number of seconds."""
        with urllib.request.urlopen(f"{self.address}/metrics") as response:
            lines = response.read().decode().splitlines()
        buckets = [
            line for line in lines if line.startswith('pricdr_request_seconds_bucket{le="') and "/users/" in line
        ]
        return {float(line.split('"')[1]): float(line.split()[-1]) for line in buckets}


def save_model(folder: Path, items: int) -> Path:
    """Save a model of random vectors, with fifty rated items per user, and return its folder."""
    return replace(random_model(USERS, items), origin=Origin({}, None)).save(folder / "model")


@contextmanager
def serving(model: Path) -> Iterator[Server]:
    """Run ``pricdr serve`` until the block ends."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, "-m", "pricdr", "serve", str(model), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield Server(process, process.stdout.readline().split()[2].rstrip(","))
    finally:
        process.terminate()
        process.wait()


def load(server: Server, connections: int, seconds: int, pause: float = 0.0) -> dict[str, float]:
    """Return what wrk measured with this many connections, each pausing this many seconds before every request."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT.replace("PAUSE", str(round(pause * 1e3))).replace("USERS", str(USERS)))
        script.flush()
        before, used = server.latencies(), server.processor()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", script.name, "--timeout", "10"]
        done = subprocess.run([*command, server.address], stdout=subprocess.PIPE, text=True, check=True)
        after, used = server.latencies(), server.processor() - used
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    result: dict[str, float] = json.loads(line.removeprefix("RESULT "))
    counts = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    total = max(counts.values(), default=0.0)
    within = min((bound for bound, count in counts.items() if count >= 0.99 * total), default=float("inf"))
    return {**result, "within": within * 1e3, "each": used / max(result["answered"], 1) * 1e3}


def show_load(server: Server, items: int, seconds: int, soak: int | None) -> None:
    """Print a line for each number of clients, then twice the capacity, then the soak."""
    print(f"{items:,} items, 64 numbers each, {USERS:,} users; wrk shares {os.cpu_count()} processors with the server")
    print(f"{'clients':34}{'asked/s':>9}{'answered/s':>11}{'503/s':>8}{'errors':>8}{'p50 ms':>8}{'p99 ms':>8}", end="")
    print(f"{'answers within ms':>19}{'CPU ms each':>13}{'MiB':>6}")
    load(server, 16, 2)
    capacity = 0.0
    for connections in (1, 16, 32, 64):
        result = load(server, connections, seconds)
        capacity = max(capacity, result["answered"] / result["seconds"])
        show(f"{connections}, no pause", result, server)
    show("900, no pause: overload", load(server, 900, 2 * seconds), server)
    show_flood(server, 2 * capacity, 2 * seconds)
    show("16 again", load(server, 16, seconds), server)
    if soak is not None:
        show_soak(server, capacity / 2, soak)


def show(label: str, result: dict[str, float], server: Server) -> None:
    """Print one line of the table."""
    rates = [result[name] / result["seconds"] for name in ("answered", "refused")]
    counts = f"{sum(rates):9.0f}{rates[0]:11.0f}{rates[1]:8.0f}{result['other']:8.0f}"
    times = f"{result['p50']:8.1f}{result['p99']:8.1f}{result['within']:19.0f}{result['each']:13.2f}"
    print(f"{label:34}{counts}{times}{server.memory():6.0f}", flush=True)


def show_flood(server: Server, rate: float, seconds: int) -> None:
    """Print what becomes of twice as many requests as can be answered, sent whether or not any are answered."""
    command = [sys.executable, "-m", "benchmarks.open_loop", server.address, f"--rate={rate}", f"--seconds={seconds}"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    rates = {name: result[name] / result["seconds"] for name in ("sent", "answered", "refused")}
    print(
        f"open loop, {rates['sent']:.0f}/s for {seconds} s: {rates['answered']:.0f}/s answered (p99 "
        f"{result['answered p99']:.0f} ms), {rates['refused']:.0f}/s refused (p99 {result['refused p99']:.0f} ms), "
        f"{result['errors']} errors, {result['lost']} without an answer, {result['not sent']} not sent for want of "
        f"connections, {server.memory():.0f} MiB",
        flush=True,
    )


def show_soak(server: Server, rate: float, seconds: int) -> None:
    """Print memory while the server runs at half of its capacity, in ten parts."""
    clients = 32
    print(f"\nsoak: {rate:,.0f} requests a second for {seconds:,} seconds")
    first = None
    for part in range(1, 11):
        result = load(server, clients, max(1, seconds // 10), clients / rate)
        memory = server.memory()
        first = memory if first is None else first
        answered, failed = result["answered"] / result["seconds"], result["refused"] + result["other"]
        print(
            f"{part * seconds // 10:6,} s: {answered:6.0f}/s, {failed:.0f} not answered, p99 {result['p99']:.1f} ms, "
            f"{memory:.1f} MiB ({memory - first:+.1f} since the first tenth)",
            flush=True,
        )


def show_recall(items: int) -> None:
    """Print the recall of the approximate search, and the time of both searches."""
    print(f"Top 10 of {items:,} items, 64 numbers each, one user at a time")
    print(f"{'vectors':22}{'cells searched':>15}{'recall':>8}{'ms':>8}{'exact ms':>10}")
    for name, model in (("around 1,000 tastes", clustered_model(500, items)), ("random", random_model(500, items))):
        exact = build_search(model, exact=True)[1]
        users = [np.array([user]) for user in range(0, 500, 5)]
        started = time.perf_counter()
        expected = [exact.best(user, 10)[0][0] for user in users]
        exact_ms = (time.perf_counter() - started) / len(users) * 1e3
        for share in (1 / 64, 1 / 16, 1 / 4):
            search = ApproximateSearch(model, share)
            started = time.perf_counter()
            proposed = [search.best(user, 10)[0][0] for user in users]
            ms = (time.perf_counter() - started) / len(users) * 1e3
            recall = np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(expected, proposed, strict=True)])
            print(f"{name:22}{share:15.1%}{recall:8.3f}{ms:8.1f}{exact_ms:10.1f}", flush=True)


def clustered_model(users: int, items: int) -> FittedModel:
    """Return a model whose vectors are clustered around a thousand directions, roughly as in a trained model."""
    rng = np.random.default_rng(0)
    model = random_model(users, items)
    centres = rng.standard_normal((1000, 64), dtype=np.float32)
    item_vectors = centres[rng.integers(0, 1000, items)] + 0.5 * rng.standard_normal((items, 64), dtype=np.float32)
    user_vectors = centres[rng.integers(0, 1000, users)] + 0.5 * rng.standard_normal((users, 64), dtype=np.float32)
    return replace(model, user_vectors=user_vectors, item_vectors=item_vectors)


def show_methods(items: int) -> None:
    """Print the time of a single answer, and of 32 at once, for models that score in other ways."""
    users = 2000
    dense = random_model(users, items)
    rng = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:  # noqa: ANN401 - numpy's generator says no more
        return rng.standard_normal(shape, dtype=np.float32) / 8

    layers = ((numbers(32, 64), numbers(32)), (numbers(16, 32), numbers(16)), (numbers(1, 16), numbers(1)))
    models = {
        "vectors (bpr, dmf, hetero)": dense,
        "ratings x weights (ease)": replace(
            random_model(users, min(items, 10_000)),
            user_vectors=random_model(users, min(items, 10_000)).seen.astype(np.float32),
            item_vectors=np.asfortranarray(numbers(min(items, 10_000), min(items, 10_000))),
        ),
        "neighbours (itemknn)": replace(
            dense,
            user_vectors=sp.csr_array(dense.seen.astype(np.float32)),
            item_vectors=sp.csr_array(sp.random_array((items, items), density=50 / items, dtype=np.float32, rng=rng)),
        ),
        "a network (neumf)": replace(dense, interaction=Interaction(numbers(users, 64), numbers(items, 64), layers)),
    }
    print(f"{'model':30}{'items':>9}{'one user ms':>13}{'each of 32, ms':>16}")
    for name, model in models.items():
        snapshot = Snapshot(model)
        one, many = (timed(snapshot, count) for count in (1, 32))
        print(f"{name:30}{len(snapshot.model.items):9,}{one:13.2f}{many:16.2f}", flush=True)


def timed(snapshot: Snapshot, count: int) -> float:
    """Return the milliseconds per user when ``count`` users are answered together, the best of several runs."""
    queries = [ItemsQuery(user, 10) for user in snapshot.model.users[:count]]
    best = float("inf")
    for _ in range(8):
        started = time.perf_counter()
        snapshot.answers(queries)
        best = min(best, time.perf_counter() - started)
    return best / count * 1e3


if __name__ == "__main__":
    main()
