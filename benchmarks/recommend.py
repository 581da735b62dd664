"""Recommending at scale: a sample of users against a million items, compared with the bare matrix product.

    python -m benchmarks.recommend                      20,000 users x 1,000,000 items, 64 numbers each, two threads
    python -m benchmarks.recommend --users 2000         a smaller sample

The sample is measured; the figures for 5,000,000 users are arithmetic, and labelled so. The time per user does not
depend on the number of users: the work is the same for each of them.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from pricdr.data.splits import HeldOut
from pricdr.evaluation.ranking import ranks
from pricdr.models.fitted import FittedModel
from pricdr.models.recommend import Recommender, model_memory

WIDTH = 64
RATINGS_EACH = 50
EVERYBODY = 5_000_000
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--ranked", type=int, default=4_000, help="users who are evaluated among a tenth of the items")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        plan = json.loads(options.one)
        result = measure_recommending(plan) if plan["kind"] == "recommend" else measure_ranking(plan)
        sys.stdout.write(json.dumps(result) + "\n")
        return
    recommending = {"kind": "recommend", "users": options.users, "items": options.items}
    ranking = {"kind": "rank", "users": options.ranked, "items": options.items // 10}
    show_recommending(child(recommending, options.threads), options)
    show_ranking(child(ranking, options.threads), options)


def show_recommending(result: dict[str, float], options: argparse.Namespace) -> None:
    """Print the measurements of a sample of users, and the arithmetic for all of them."""
    users, items = options.users, options.items
    print(f"\nTop 10 of {items:,} items for {users:,} users, {WIDTH} numbers each, {options.threads} threads")
    rate, bare = users / result["seconds"], result["bare_rate"]
    flops = 2 * WIDTH * items
    print(f"{'':34}{'users/s':>9}{'GFLOP/s':>9}{'peak MiB':>10}")
    print(f"{'the bare product, in blocks':34}{bare:9.0f}{bare * flops / 1e9:9.1f}")
    print(f"{'recommend_to, Parquet':34}{rate:9.0f}{rate * flops / 1e9:9.1f}{result['peak']:10.0f}")
    print(f"{'share of the bare product':34}{rate / bare:9.0%}")
    print(f"model {result['model']:.0f} MiB of it; stated beforehand {result['stated']:.0f} MiB in total")
    scale = EVERYBODY / users
    more = (EVERYBODY - users) * result["per_user"] / 2**20
    print(
        f"by arithmetic, not measured: {EVERYBODY:,} users take {EVERYBODY / rate / 3600:.1f} hours here, "
        f"{(result['peak'] + more) / 1024:.1f} GiB of memory ({result['per_user']:.0f} bytes a user, "
        f"{RATINGS_EACH} ratings included), {result['bytes'] * scale / 2**30:.1f} GiB of Parquet"
    )


def show_ranking(result: dict[str, float], options: argparse.Namespace) -> None:
    """Print the measurements of a full ranking, and the arithmetic for more users."""
    items, rate = options.items // 10, options.ranked / result["seconds"]
    print(f"\nFull ranking of {options.ranked:,} users among {items:,} items")
    print(f"{rate:.0f} users/s, {result['grown']:.0f} MiB besides model and split")
    print(f"by arithmetic, not measured: 200,000 users take {200_000 / rate / 60:.0f} minutes and no more memory")


def child(plan: dict[str, object], threads: int) -> dict[str, float]:
    """Measure in a new process, so that peak memory is measured separately."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")}
    environment = {**os.environ, **limits, "PYTHONPATH": os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "benchmarks.recommend", "--one", json.dumps(plan)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT, env=environment)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure_recommending(plan: dict[str, int]) -> dict[str, float]:
    """Return the seconds, memory and output size of a run, and the rate of the bare product between its blocks."""
    model = random_model(plan["users"], plan["items"])
    stated = Recommender(model, model.users, 10).memory()
    bare = BareProduct(model)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        written = model.recommend_to(Path(folder) / "all.parquet", progress=bare)
        seconds = time.perf_counter() - started - bare.seconds
        size = written.path.stat().st_size
    peak = peak_mib()
    per_user = (model_memory(model) - model_memory(random_model(0, plan["items"]))) / plan["users"] + 8
    return {
        "seconds": seconds,
        "bare_rate": bare.users / bare.seconds,
        "peak": peak,
        "model": model_memory(model) / 2**20,
        "stated": stated / 2**20,
        "per_user": per_user,
        "bytes": size,
    }


class BareProduct:
    """Computes a third of the bare product, in the same blocks, after every block of users.

    So both are measured under the same load, whatever else the machine is doing.
    """

    def __init__(self, model: FittedModel) -> None:
        self._users, self._items = model.user_vectors[:1024], model.item_vectors
        self._out = np.empty((len(self._users), 8192), dtype=np.float32)
        self.seconds = self.users = 0.0

    def __call__(self, what: str, done: float, total: int, note: str = "") -> None:
        """Multiply after a block of users is finished."""
        started = time.perf_counter()
        starts = range(0, len(self._items) - 8192 + 1, 3 * 8192)
        for start in starts:
            np.matmul(self._users, self._items[start : start + 8192].T, out=self._out)
        self.seconds += time.perf_counter() - started
        self.users += len(self._users) * len(starts) * 8192 / len(self._items)


def measure_ranking(plan: dict[str, int]) -> dict[str, float]:
    """Return the seconds of a full ranking, and how much it raised the peak memory."""
    model = random_model(plan["users"], plan["items"])
    rng = np.random.default_rng(1)
    negatives = rng.integers(0, plan["items"], (plan["users"], 99))
    held_out = HeldOut(np.arange(plan["users"]), rng.integers(0, plan["items"], plan["users"]), negatives)
    before, started = peak_mib(), time.perf_counter()
    ranks(model.score, held_out, model.seen)
    return {"seconds": time.perf_counter() - started, "grown": peak_mib() - before}


def random_model(users: int, items: int) -> FittedModel:
    """Return a model of random vectors, with fifty rated items per user."""
    rng = np.random.default_rng(0)
    step = items // RATINGS_EACH
    rated = np.arange(RATINGS_EACH, dtype=np.int32) * step + rng.integers(
        0, step, (users, RATINGS_EACH), dtype=np.int32
    )
    starts = np.arange(0, users * RATINGS_EACH + 1, RATINGS_EACH, dtype=np.int32)
    seen = sp.csr_array((np.ones(users * RATINGS_EACH, dtype=np.int8), rated.ravel(), starts), shape=(users, items))
    return FittedModel(
        method="bpr",
        users=tuple(f"user{at:08}" for at in range(users)),
        items=tuple(f"item{at:08}" for at in range(items)),
        user_vectors=rng.standard_normal((users, WIDTH), dtype=np.float32),
        item_vectors=rng.standard_normal((items, WIDTH), dtype=np.float32),
        item_bias=rng.standard_normal(items, dtype=np.float32),
        seen=seen,
        in_release=np.zeros(users, dtype=bool),
    )


def peak_mib() -> float:
    """Return the peak memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
