"""Training speed: an epoch with matrix products against one with elementwise products, and steps on large data.

Every variant runs in its own process, so that peak memory is measured separately. It needs only numpy, scipy and torch,
so that it also runs on a bare GPU machine: ``PYTHONPATH=src python -m benchmarks.training --device cuda``.
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
        """Return the scores of all items, the slow way."""
        return (self.users(vectors)[:, None, :] * items[None, :, :]).sum(dim=2) + self.item_bias


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="skip the steps on large data")
    parser.add_argument("--large", action="store_true", help="only the steps on large data")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        sys.stdout.write(json.dumps(measure(json.loads(arguments.one))) + "\n")
        return
    if not arguments.large:
        compare_with_elementwise(arguments.device)
    if not arguments.quick:
        measure_large(arguments.device)


def compare_with_elementwise(device: str) -> None:
    """Print one epoch at the paper's Douban size, batch 128, h = 200."""
    idle = child({"kind": "idle", "device": device})
    rows = {
        kind: child({"kind": kind, "size": PAPER, "batch": 128, "device": device}) for kind in ("matmul", "elementwise")
    }
    users, items, _ = PAPER
    print(f"\nOne epoch, {users:,} users x {items:,} items, h = 200, batch 128, {device}")
    print(f"{'':34}{'seconds':>9}{'peak MiB':>10}")
    for kind, result in rows.items():
        print(f"{kind:34}{result['seconds']:9.3f}{result['peak'] - idle['peak']:10.0f}")
    left, right = rows["matmul"], rows["elementwise"]
    memory = (right["peak"] - idle["peak"]) / (left["peak"] - idle["peak"])
    print(f"{'ratio':34}{right['seconds'] / left['seconds']:8.1f}x{memory:9.1f}x")


def measure_large(device: str) -> None:
    """Print steps on the paper's largest target domain, batch 512: on a sample of the items, and on all of them.

    The time on the GPU is that of its kernels. If the whole step takes longer, launching them is the bottleneck.
    """
    users, items, ratings = LARGEST
    print(f"\nA step of 512 users, {users:,} users x {items:,} items, {ratings:,} ratings, {device}")
    heads = ("ms", "on the GPU", "peak MiB", "TFLOP/s", "of matmul peak", "on the GPU")
    print(f"{'':24}{heads[0]:>9}{heads[1]:>12}{heads[2]:>10}{heads[3]:>9}{heads[4]:>16}{heads[5]:>12}")
    peak = matmul_peak(device)
    for name, others in (("sampled items", 1024), ("all items", items)):
        result = child({"kind": "matmul", "size": LARGEST, "batch": 512, "device": device, "others": others})
        work = flops(512, result["items"]) / 1e12
        busy = result["busy"]
        own = (f"{1e3 * busy:12.2f}", f"{work / busy / peak:12.1%}") if busy else ("", "")
        step, memory = result["step"], result["peak"]
        rate = work / step
        print(f"{name:24}{1e3 * step:9.2f}{own[0]:12}{memory:10.0f}{rate:9.2f}{rate / peak:16.1%}{own[1]}")


def flops(batch: int, items: float, hidden: int = 500, width: int = 200) -> float:
    """Return the operations of the dense products of a step, forward and backward (three products per layer)."""
    return 3.0 * (2 * hidden * width * (items + batch) + 2 * width * batch * items)


def matmul_peak(device: str) -> float:
    """Return the TFLOP/s of one large matrix product on this machine."""
    n = 8192 if device == "cuda" else 2048
    left = torch.randn(n, n, device=device)
    left @ left
    return 2 * n**3 / best_of(3, device, lambda: left @ left) / 1e12


def child(plan: dict[str, object]) -> dict[str, float]:
    """Measure one variant in a new process."""
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
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(plan: dict[str, object]) -> dict[str, float]:
    """Return the seconds of an epoch (after a short first one for start-up) and the peak memory of process or GPU."""
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
    """Return the seconds of a step, the seconds of its GPU kernels, and the number of items it is trained on."""
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
        # Only what ran on the device: the calls that launched it have the same times. Without torch's marker around
        # the optimiser's step, which is not a kernel.
        kernels = [
            event
            for event in profile.events() or []
            if event.device_type.name == "CUDA" and not event.name.startswith("Optimizer.")
        ]
        busy = sum(event.self_device_time_total for event in kernels) / 1e6 / count
    return {"step": seconds, "busy": busy, "items": float(sampled)}


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


def random_ratings(users: int, items: int, count: int) -> Ratings:
    """Return ``count`` ratings of items with a heavy-tailed popularity."""
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
