"""Training speed: steps of the target stage on large data.

It needs only numpy, scipy and torch, so that it also runs on a bare GPU machine:
``PYTHONPATH=src python -m benchmarks.training --device cuda``.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from pricdr.data.ratings import Ratings
from pricdr.models.methods.dmf import TargetStage, TargetStageConfig, TwoTowers
from pricdr.models.training_data import TrainingData
from pricdr.training.loop import TrainingOptions, train_network

USERS, ITEMS, RATINGS = 29_476, 41_884, 579_131
"""The paper's largest target domain."""
BATCH, STEPS = 512, 30


def main() -> None:
    """Print the time of a step on a sample of the items, and on all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    print(f"A step of {BATCH} users, {USERS:,} users x {ITEMS:,} items, {RATINGS:,} ratings, {device}")
    print(f"{'':15}{'ms':>9}{'items':>9}{'TFLOP/s':>9}{'of matmul peak':>16}")
    peak, ratings = matmul_peak(device), random_ratings()
    options = TrainingOptions(epochs=1, batch=BATCH, device=device)
    for name, others in (("sampled items", TargetStageConfig().other_items), ("all items", ITEMS)):
        data = TrainingData.of(ratings)
        stage = TargetStage(TwoTowers, data, TargetStageConfig(other_items=others), options)
        users = stage.examples[: BATCH * STEPS]
        run: Any = SimpleNamespace(network=stage.network, step=stage.step, examples=users, identity="benchmark")
        train_steps = partial(train_network, run, options)
        train_steps()
        seconds = best_of(3, device, train_steps) / STEPS
        items = len(stage.training_pass(users[:BATCH]).sample.items)
        rate = flops(items) / seconds / 1e12
        print(f"{name:15}{1e3 * seconds:9.2f}{items:9,}{rate:9.2f}{rate / peak:16.1%}")


def flops(items: int, hidden: int = 500, width: int = 200) -> float:
    """Return the operations of the dense products of a step, forward and backward (three products per layer)."""
    return 3.0 * (2 * hidden * width * (items + BATCH) + 2 * width * BATCH * items)


def matmul_peak(device: str) -> float:
    """Return the TFLOP/s of one large matrix product on this machine."""
    n = 8192 if device == "cuda" else 2048
    left = torch.randn(n, n, device=device)
    best_of(1, device, partial(torch.mm, left, left))
    return 2 * n**3 / best_of(3, device, partial(torch.mm, left, left)) / 1e12


def best_of(times: int, device: str, work: Callable[[], object]) -> float:
    """Return the shortest of several runs, in seconds."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def random_ratings() -> Ratings:
    """Return ratings of items with a heavy-tailed popularity."""
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(10, ITEMS + 10)
    rows = np.concatenate([np.arange(USERS), rng.integers(0, USERS, 2 * RATINGS)])
    columns = rng.choice(ITEMS, len(rows), p=weights / weights.sum())
    keys = np.unique(rows * ITEMS + columns)
    keys = np.sort(rng.permutation(keys)[:RATINGS])
    matrix = sp.csr_array((np.ones(len(keys)), (keys // ITEMS, keys % ITEMS)), shape=(USERS, ITEMS))
    matrix.sort_indices()
    return Ratings(
        matrix,
        tuple(f"u{u}" for u in range(USERS)),
        tuple(f"i{i}" for i in range(ITEMS)),
        has_values=False,
    )


if __name__ == "__main__":
    main()
