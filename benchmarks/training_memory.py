"""The memory model of training against measurements: the peak of a process minus what it had before it read anything.

Every size runs in its own process. docs/scale.md states the model.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

SIZES = ((5_000, 100_000, 40, 64, 32, 512), (5_000, 1_000_000, 40, 32, 16, 256))
"""Users, items, ratings per user, hidden units, width and batch."""
WEIGHT = 5 * 4
"""Bytes per weight: weights, gradients, two moments, the best epoch's."""
RATING, ID, VALIDATED = 12 + 2 * 12, 72 + 16, 101 * 8
"""Bytes per rating (the matrix, and both directions of it on the device), per user or item (the text of an id and the
start of its row), and per validation item (the item, its 99 negatives and their user)."""


@dataclass(frozen=True)
class Size:
    """The sizes of a training."""

    users: int
    items: int
    per_user: int
    hidden: int
    width: int
    batch: int

    def weights(self) -> int:
        """Return the number of weights of both towers."""
        tables = (self.users + self.items) * self.hidden
        return tables + 2 * (self.hidden + 1) * self.width + self.items + 1

    def expected(self, ratings: int) -> dict[str, float]:
        """Return the bytes that the memory model predicts, by part."""
        sampled = min(self.batch * self.per_user, self.items) + 1024
        entries = sampled * ratings / self.items
        # A label, a logit, a weight and three gradients for each score; four numbers for each hidden unit.
        scores = 6 * 4 * self.batch * sampled
        units = 4 * 4 * self.hidden * (sampled + self.batch)
        step = scores + units + 36 * entries
        validation = 4 * self.width * (3 * self.users + 2 * self.items)
        return {
            "networks": WEIGHT * self.weights(),
            "data": RATING * ratings + ID * (self.users + self.items) + VALIDATED * self.users,
            "step or validation": max(step, validation),
        }


def main() -> None:
    """Print one line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        sys.stdout.write(json.dumps(measure(Size(**json.loads(arguments.one)))) + "\n")
        return
    print(f"{'users':>9} {'items':>10} {'weights':>12} {'expected':>10} {'measured':>10} {'ratio':>6}")
    for numbers in SIZES:
        size = Size(*numbers)
        peak, ratings = run(size)
        expected = sum(size.expected(ratings).values())
        print(
            f"{size.users:>9,} {size.items:>10,} {size.weights():>12,} "
            f"{expected / 1e6:>7.0f} MB {peak / 1e6:>7.0f} MB {peak / expected:>6.2f}"
        )


def run(size: Size) -> tuple[int, int]:
    """Return the growth of a new process up to its peak, in bytes, and the number of ratings."""
    command = [sys.executable, "-m", "benchmarks.training_memory", "--one", json.dumps(asdict(size))]
    # Without the threshold glibc keeps freed memory.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    peak, ratings = json.loads(done.stdout)
    return peak, ratings


def measure(size: Size) -> tuple[int, int]:
    """Train two epochs with checkpoints; return the growth up to the peak in bytes, and the number of ratings."""
    from pricdr.data.ratings import Ratings
    from pricdr.data.splits import HeldOut
    from pricdr.models.methods.dmf import TARGET_OPTIONS, TargetStage, TargetStageConfig, TwoTowers
    from pricdr.models.training_data import TrainingData
    from pricdr.training.checkpoints import Checkpoints
    from pricdr.training.loop import train_network
    from pricdr.training.run_log import RunLog

    before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    draws = np.random.default_rng(0)
    shape = (size.users, size.items)
    columns = draws.integers(0, size.items, (size.users, size.per_user), dtype=np.int32)
    starts = np.arange(0, columns.size + 1, size.per_user, dtype=np.int32)
    matrix = sp.csr_array((np.ones(columns.size), columns.ravel(), starts), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    users = tuple(f"u{number:09d}" for number in range(size.users))
    ratings = Ratings(matrix, users, tuple(f"i{number:09d}" for number in range(size.items)))
    everyone = np.arange(size.users)
    negatives = draws.integers(0, size.items, (size.users, 99))
    held_out = HeldOut(everyone, draws.integers(0, size.items, size.users), negatives)
    del columns, starts, negatives
    options = replace(TARGET_OPTIONS, device="cpu", batch=size.batch, epochs=2)
    with tempfile.TemporaryDirectory() as folder:
        files = Checkpoints(running=Path(folder) / "run")
        data = TrainingData.of(ratings)
        stage = TargetStage(TwoTowers, data, TargetStageConfig(hidden=size.hidden, width=size.width), options)
        train_network(stage, options, validation=held_out, log=RunLog(checkpoints=files))
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, matrix.nnz


if __name__ == "__main__":
    main()
