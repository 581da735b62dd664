"""How long a training takes from start to end, and how good the model is: ours, an older version's, and ``implicit``'s.

Two real shapes, from the files that ``PRICDR_DATA`` points at: Books of Amazon Movies→Books (users with six ratings or
more), and Electronics→Cell Phones (3-core). Every training runs in a process of its own with two threads, and is
pinned to two cores where ``--slots`` trainings run at once. Needs numpy, scipy and torch alone.

    python -m benchmarks.speed --before OLDER/src --before-epochs 5

compares with another checkout, whose trainings are stopped after some epochs: it is the seconds per epoch that count
there. ``implicit`` is measured where it is installed.
"""

import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pricdr.data.csr import CSR
    from pricdr.data.splits import Split

DATA = Path(os.environ.get("PRICDR_DATA", "../shared/data"))
THREADS = 2
Plan: TypeAlias = dict[str, Any]
"""What to train, and then what came of it."""
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print a line per training, and then what they come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="the src folder of an older version")
    parser.add_argument("--before-epochs", type=int, default=4, help="epochs after which an older training is stopped")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=1, help="trainings at once, each on two cores of its own")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        sys.stdout.write(json.dumps(measure(json.loads(given.one))) + "\n")
        return
    plans: list[Plan] = []
    if given.before is not None:
        plans += [
            {"data": data, "method": method, "seed": 0, "version": "before", "epochs": given.before_epochs}
            for data in ("cell", "book")
            for method in ("dmf", "bpr")
        ]
    plans += [
        {"data": data, "method": method, "seed": seed, "version": "now"}
        for data in ("cell", "book")
        for method in ("dmf", "bpr")
        for seed in range(given.seeds)
    ]
    plans += [
        {"data": data, "method": method, "seed": 0, "version": "implicit"}
        for data in ("cell", "book")
        for method in ("als", "bpr")
    ]
    plans += [{"data": data, "method": "reference", "seed": 0, "version": "reference"} for data in ("cell", "book")]
    slots: Queue[int] = Queue()
    for slot in range(given.slots):
        slots.put(slot)

    def run(plan: Plan) -> Plan:
        slot = slots.get()
        try:
            row = child(plan, given.before, slot if given.slots > 1 else None)
        finally:
            slots.put(slot)
        print(json.dumps(row), flush=True)
        return row

    with ThreadPoolExecutor(given.slots) as pool:
        found = list(pool.map(run, plans))
    table(found)


def table(found: list[Plan]) -> None:
    """Print mean seconds, epochs and NDCG@10 with standard errors, by data, method and version."""
    heads = f"{'seconds':>9}{'per epoch':>11}{'epochs':>8}{'NDCG@10 of warm users':>28}"
    print(f"\n{'data':6}{'method':11}{'version':11}{heads}")
    keys = sorted({(row["data"], row["method"], row["version"]) for row in found})
    for key in keys:
        rows = [row for row in found if (row["data"], row["method"], row["version"]) == key]
        if "missing" in rows[0]:
            print(f"{key[0]:6}{key[1]:11}{key[2]:11}{rows[0]['missing']:>9}")
            continue
        ndcg = np.array([row["ndcg"] for row in rows if row["ndcg"] is not None])
        error = ndcg.std(ddof=1) / len(ndcg) ** 0.5 if len(ndcg) > 1 else float("nan")
        shown = f"{ndcg.mean():.4f} ± {error:.4f}" if len(ndcg) else "stopped early"
        seconds, epoch, epochs = (np.mean([row[name] for row in rows]) for name in ("seconds", "epoch", "epochs"))
        print(f"{key[0]:6}{key[1]:11}{key[2]:11}{seconds:9.1f}{epoch:11.3f}{epochs:8.0f}{shown:>28}")


def child(plan: Plan, before: Path | None, slot: int | None) -> Plan:
    """Measure one training in a fresh process."""
    source = before if plan["version"] == "before" else ROOT / "src"
    command = [sys.executable, "-m", "benchmarks.speed", "--one", json.dumps(plan)]
    if slot is not None:
        command = ["taskset", "-c", f"{THREADS * slot}-{THREADS * slot + THREADS - 1}", *command]
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(source), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return {**plan, "missing": done.stderr.strip().splitlines()[-1][:100]}
    row: Plan = json.loads(done.stdout.splitlines()[-1])
    return row


def measure(plan: Plan) -> Plan:
    """Train once, and return the seconds, the epochs and the NDCG@10 of users with a history."""
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import split

    matrix = pairs(plan["data"])
    users, items = (tuple(f"{kind}{n}" for n in range(size)) for kind, size in zip("ui", matrix.shape, strict=True))
    made = split(Ratings(matrix, users, items, has_values=False), seed=plan["seed"], cold=0.1)
    kinds = {"implicit": by_implicit, "reference": reference_epoch}
    return {**plan, **kinds.get(plan["version"], by_pricdr)(plan, made)}


def by_pricdr(plan: Plan, made: "Split") -> Plan:
    """Train with this version or another one."""
    from dataclasses import replace

    import torch

    from pricdr.models.catalogue import configure
    from pricdr.training.run_log import RunLog

    torch.set_num_threads(THREADS)
    method: Any = configure(plan["method"], {})
    changes = {"epochs": plan["epochs"]} if "epochs" in plan else {}
    method = replace(method, options=replace(method.options, seed=plan["seed"], device="cpu", **changes))
    log = Path(f"/proc/self/fd/{os.memfd_create('log')}")
    started = time.perf_counter()
    model = method.fit(made.train, validation=made.validation, log=RunLog(file=log))
    seconds = time.perf_counter() - started
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {
        "seconds": seconds,
        "epoch": float(np.median([line["seconds"] for line in lines])),
        "epochs": len(lines),
        "ndcg": None if "epochs" in plan else ndcg(model.score_candidates, made),
    }


def by_implicit(plan: Plan, made: "Split") -> Plan:
    """Train with the package ``implicit``, its defaults and 64 factors."""
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking

    kind = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking}[plan["method"]]
    model = kind(factors=64, random_state=0, num_threads=THREADS)
    rows = sp.csr_matrix(made.train.matrix.astype(np.float32))
    started = time.perf_counter()
    model.fit(rows, show_progress=False)
    seconds = time.perf_counter() - started

    return {
        "seconds": seconds,
        "epoch": seconds / model.iterations,
        "epochs": model.iterations,
        "ndcg": ndcg(
            lambda users, items: np.einsum("uw,ucw->uc", model.user_factors[users], model.item_factors[items]), made
        ),
    }


def reference_epoch(plan: Plan, made: "Split") -> Plan:
    """One epoch as the paper's public code does it: all items, elementwise products, batches of 128.

    A batch is measured, the epoch is its multiple: an epoch alone takes minutes.
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    torch.set_num_threads(THREADS)
    n_users, n_items = made.train.matrix.shape
    batch, width = 128, 200
    users, items = (torch.randn(n, width, requires_grad=True) for n in (batch, n_items))
    labels = torch.zeros(batch, n_items)
    started = time.perf_counter()
    scores = (users[:, None] * items[None]).sum(2)
    binary_cross_entropy_with_logits(scores, labels, reduction="sum").backward()  # type: ignore[no-untyped-call]
    epoch = (time.perf_counter() - started) * n_users / batch
    return {"seconds": epoch, "epoch": epoch, "epochs": 1, "ndcg": None}


def ndcg(score: "Callable[..., Any]", made: "Split") -> float:
    """Return NDCG@10 of the test items of warm users among their stored negatives."""
    from pricdr.evaluation.metrics import per_user
    from pricdr.evaluation.ranking import sampled_ranks

    return float(per_user(sampled_ranks(score, made.test))["NDCG@10"][made.strata()["warm"]].mean())


def pairs(name: str) -> "CSR":
    """Return who rated what, as a sparse matrix."""
    if name == "book":
        rated = read("amazon_movie_book_implicit/book.csv.gz")
        counts = Counter(user for user, _ in rated)
        return as_matrix([pair for pair in rated if counts[pair[0]] >= 6])
    source, target = (read(f"amazon_electronics_cell/{part}.csv.gz") for part in ("electronic", "cell"))
    before = -1
    while before != len(source) + len(target):
        before = len(source) + len(target)
        both = {user for user, _ in source} & {user for user, _ in target}
        source, target = (core([pair for pair in part if pair[0] in both], 3) for part in (source, target))
    return as_matrix(target)


def core(rated: list[tuple[str, str]], least: int) -> list[tuple[str, str]]:
    """Leave out users, then items, with fewer ratings."""
    for side in (0, 1):
        counts = Counter(pair[side] for pair in rated)
        rated = [pair for pair in rated if counts[pair[side]] >= least]
    return rated


def read(path: str) -> list[tuple[str, str]]:
    """Return users and items of a file."""
    with gzip.open(DATA / path, "rt", encoding="utf-8", newline="") as file:
        return [(row["user"], row["item"]) for row in csv.DictReader(file)]


def as_matrix(rated: list[tuple[str, str]]) -> "CSR":
    """Return a 1 for every pair."""
    users, items = (sorted({pair[side] for pair in rated}) for side in (0, 1))
    row, column = ({name: at for at, name in enumerate(names)} for names in (users, items))
    cells = ([row[user] for user, _ in rated], [column[item] for _, item in rated])
    matrix = sp.csr_array((np.ones(len(rated)), cells), shape=(len(users), len(items)))
    matrix.sort_indices()
    return matrix


if __name__ == "__main__":
    main()
