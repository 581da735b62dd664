"""Every arm of a spec on a processor, to the end: minutes, epochs and peak memory, each in a process of its own.

    python -m benchmarks.methods specs/movie_music_cold.toml --data data --out results/cpu

An arm that was measured before is not measured again. One seed, sampled ranks alone: what a full ranking costs is the
same for every method that scores by vectors. NeuMF, CoNet and DDTCDR put every pair through a network: there it takes
minutes of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch

from pricdr.experiments.results import append_line, whole_lines
from pricdr.experiments.runner import run_arm
from pricdr.experiments.spec import read_spec
from pricdr.experiments.tasks import load_task


def main() -> None:
    """Measure what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--prepared", type=Path, help="folder of prepared arrays")
    parser.add_argument("--out", type=Path, required=True, help="folder of results, added to")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--arms", nargs="*", help="these arms only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.spec, given.data, given.prepared, given.one, given.threads)
        return
    spec = read_spec(given.spec, given.spec.parent / "tuned")
    load_task(spec.data, given.data, given.prepared)  # prepared once, so that no arm pays for it
    for name in set(given.arms or ()) - {arm.name for arm in spec.arms}:
        parser.error(f"{given.spec} has no arm {name!r}")
    log = given.out / f"{spec.name}.jsonl"
    for arm in spec.arms:
        known = {line["arm"] for line in map(json.loads, whole_lines(log)) if line["key"] == spec.key(arm)}
        if arm.name not in known and (not given.arms or arm.name in given.arms):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.methods", *sys.argv[1:], "--one", arm.name],
                stdout=subprocess.PIPE,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
                text=True,
                check=True,
            )
            append_line(log, done.stdout.strip())
    sys.stdout.write(f"{'':44}{'minutes':>9}{'epochs':>8}{'GiB':>7}{'threads':>9}\n")
    keys = {spec.key(arm) for arm in spec.arms}
    for line in (line for line in map(json.loads, whole_lines(log)) if line["key"] in keys):
        sys.stdout.write(
            f"{line['arm']:44}{line['seconds'] / 60:>9.1f}{line['epochs']:>8}{line['GiB']:>7.2f}{line['threads']:>9}\n"
        )


def one(path: Path, data: Path, prepared: Path | None, name: str, threads: int) -> None:
    """Measure one arm in this process and print it as JSON."""
    torch.set_num_threads(threads)
    spec = read_spec(path, path.parent / "tuned")
    arm = next(arm for arm in spec.arms if arm.name == name)
    result = run_arm(load_task(spec.data, data, prepared), "cpu", replace(spec, full=False), arm, spec.seeds[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    kept = {key: value for key, value in asdict(result).items() if key in ("arm", "seed", "epochs", "seconds")}
    sys.stdout.write(json.dumps({**kept, "key": spec.key(arm), "GiB": round(peak, 3), "threads": threads}) + "\n")


if __name__ == "__main__":
    main()
