"""Stage two side by side: an epoch by matrix products against the same epoch by elementwise products, and a large one.

Every variant runs in a process of its own, so that its peak memory is its own. Needs numpy, scipy and torch alone: it
also runs on a bare GPU machine: ``PYTHONPATH=src python -m benchmarks.training --device cuda``.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from pricdr.data.ratings import Ratings
from pricdr.data.sparse import SparseMatrix
from pricdr.models.pricdr._networks import TargetNetwork, TwoTowers
from pricdr.models.pricdr._target_stage import TargetStage, TargetStageConfig
from pricdr.training.loop import train
from pricdr.training.options import TrainingOptions
from pricdr.training.steps import build_step

PAPER = (924, 4_228, 48_309)
LARGEST = (29_476, 41_884, 579_131)
"""Users, items and ratings of Douban Book→Music (official split) and of the paper's largest target domain."""


class Elementwise(TwoTowers):
    """The same network, scored by a (batch, 1, h) x (1, items, h) product summed over h."""

    def logits(self, vectors: Tensor, items: Tensor) -> Tensor:
        """Scores of all items, the slow way."""
        return (self.users(vectors)[:, None, :] * items[None, :, :]).sum(dim=2) + self.item_bias


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="leave out the large epoch")
    parser.add_argument("--large", action="store_true", help="the large epoch only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        sys.stdout.write(json.dumps(measure(json.loads(given.one))) + "\n")
        return
    if not given.large:
        against_elementwise(given.device)
    if not given.quick:
        large(given.device)


def against_elementwise(device: str) -> None:
    """One epoch at the paper's Douban size, batch 128, h = 200."""
    idle = child({"kind": "idle", "device": device})
    rows = {
        kind: child({"kind": kind, "size": PAPER, "batch": 128, "device": device}) for kind in ("matmul", "elementwise")
    }
    users, items, _ = PAPER
    print(f"\nOne epoch, {users:,} users x {items:,} items, h = 200, batch 128, {device}")
    print(f"{'':34}{'seconds':>9}{'peak MiB':>10}")
    for kind, found in rows.items():
        print(f"{kind:34}{found['seconds']:9.3f}{found['peak'] - idle['peak']:10.0f}")
    left, right = rows["matmul"], rows["elementwise"]
    memory = (right["peak"] - idle["peak"]) / (left["peak"] - idle["peak"])
    print(f"{'ratio':34}{right['seconds'] / left['seconds']:8.1f}x{memory:9.1f}x")


def large(device: str) -> None:
    """Steps on the paper's largest target domain, batch 512: on a sample of the items, and on all of them.

    A GPU's own time is what its kernels take. Beyond it, the machine that starts them is the slower one.
    """
    users, items, ratings = LARGEST
    print(f"\nA step of 512 users, {users:,} users x {items:,} items, {ratings:,} ratings, {device}")
    heads = ("ms", "on the GPU", "peak MiB", "TFLOP/s", "of matmul peak", "on the GPU")
    print(f"{'':24}{heads[0]:>9}{heads[1]:>12}{heads[2]:>10}{heads[3]:>9}{heads[4]:>16}{heads[5]:>12}")
    peak = matmul_peak(device)
    for name, others in (("sampled items", 1024), ("all items", items)):
        found = child({"kind": "matmul", "size": LARGEST, "batch": 512, "device": device, "others": others})
        work = flops(512, found["items"]) / 1e12
        busy = found["busy"]
        own = (f"{1e3 * busy:12.2f}", f"{work / busy / peak:12.1%}") if busy else ("", "")
        rate = work / found["step"]
        print(
            f"{name:24}{1e3 * found['step']:9.2f}{own[0]:12}{found['peak']:10.0f}{rate:9.2f}{rate / peak:16.1%}{own[1]}"
        )


def flops(batch: int, items: float, hidden: int = 500, width: int = 200) -> float:
    """Multiplications and additions of the dense products of a step, forward and backward (three for each layer)."""
    return 3.0 * (2 * hidden * width * (items + batch) + 2 * width * batch * items)


def matmul_peak(device: str) -> float:
    """TFLOP/s of one large product on this machine."""
    n = 8192 if device == "cuda" else 2048
    left = torch.randn(n, n, device=device)
    left @ left
    return 2 * n**3 / best_of(3, device, lambda: left @ left) / 1e12


def child(plan: dict[str, object]) -> dict[str, float]:
    """Measure one variant in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.training", "--one", json.dumps(plan)]
    paths = os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": paths},
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(plan: dict[str, object]) -> dict[str, float]:
    """Seconds of an epoch (the second: the first pays for start-up) and peak memory of the process, or of the GPU."""
    device = str(plan["device"])
    seconds, steps = 0.0, dict[str, float]()
    if plan["kind"] == "idle":
        torch.zeros(1, device=device)
    else:
        users, items, ratings = (int(part) for part in np.array(plan["size"]))
        network: type[TargetNetwork] = TwoTowers if plan["kind"] == "matmul" else Elementwise
        options = TrainingOptions(epochs=1, batch=int(str(plan["batch"])), device=device)
        others = int(str(plan.get("others", TargetStageConfig().other_items)))
        config = TargetStageConfig(other_items=others)
        run = TargetStage(network, random_ratings(users, items, ratings), config, options)
        everyone = run.examples
        few = everyone[: 2 * options.batch]
        fixed = run.has_fixed_shapes
        train(run.network, run.step, few, replace(options, seed=1))
        seconds = best_of(1, device, lambda: train(run.network, run.step, everyone, options, fixed_shapes=fixed))
        steps = measured_steps(run, options.batch, device)
    cuda = device == "cuda"
    memory = (
        torch.cuda.max_memory_allocated() / 2**20 if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )
    return {"seconds": seconds, "peak": memory, **steps}


def measured_steps(run: TargetStage, batch: int, device: str, count: int = 30) -> dict[str, float]:
    """Seconds of a step, those that a GPU's kernels take of it, and the items that it is trained on."""
    users = run.examples
    batches = [users[torch.randperm(len(users), device=users.device)[:batch]] for _ in range(count)]
    take_step = build_step(run.network, run.step, run.options, fixed_shapes=run.has_fixed_shapes)[1]
    run.network.train()

    def steps() -> None:
        for part in batches:
            take_step(part)

    steps()
    seconds = best_of(3, device, steps) / count
    sampled = np.mean([len(run.training_pass(part).sample.items) for part in batches[:5]])
    busy = 0.0
    if device == "cuda":
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            steps()
            torch.cuda.synchronize()
        # What ran on the device; the calls that started it bear the same times.
        # Without the mark that torch puts around a step of the optimiser, which is no kernel.
        kernels = [
            event
            for event in profile.events() or []
            if event.device_type.name == "CUDA" and not event.name.startswith("Optimizer.")
        ]
        busy = sum(event.self_device_time_total for event in kernels) / 1e6 / count
    return {"step": seconds, "busy": busy, "items": float(sampled)}


def best_of(times: int, device: str, work: Callable[[], object]) -> float:
    """The shortest of several runs, in seconds."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        found.append(time.perf_counter() - started)
    return min(found)


def random_ratings(users: int, items: int, count: int) -> Ratings:
    """So many ratings of items with a heavy tail, at least one for each user."""
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(10, items + 10)
    rows = np.concatenate([np.arange(users), rng.integers(0, users, 2 * count)])
    columns = rng.choice(items, len(rows), p=weights / weights.sum())
    keys = np.unique(rows * items + columns)
    keys = np.sort(rng.permutation(keys)[:count])
    matrix = sp.csr_array((np.ones(len(keys)), (keys // items, keys % items)), shape=(users, items))
    matrix.sort_indices()
    return Ratings(
        SparseMatrix.of(matrix),
        tuple(f"u{u}" for u in range(users)),
        tuple(f"i{i}" for i in range(items)),
        has_values=False,
    )


if __name__ == "__main__":
    main()
