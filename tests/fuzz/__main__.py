"""Mutated releases, notices, models, ledgers, checkpoints, specs, ratings, alignments: ``python -m tests.fuzz``.

None may crash, hang, take over 1 GiB more memory than honest input, or be accepted with a meaning it should not have.
Every case follows from the seed, the kind and its number: ``--kind ledgers --only 24`` repeats one.
"""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz.runner import KINDS, Options, run

_SHOWN = 8
"""Case numbers shown of each cause."""


def main() -> int:
    """Run the cases that the command line asks for; 1 where any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=[*KINDS], help="may be given more than once (default: all)")
    parser.add_argument("--count", type=int, default=10_000, help="cases of each kind (default: 10,000)")
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes (default: one a core)")
    parser.add_argument("--show", type=Path, help="folder in which the files of the case are left (with --only)")
    given = parser.parse_args()
    if given.only is None:
        options = Options(count=given.count, seed=given.seed, jobs=given.jobs)
    else:
        options = Options(count=1, first=given.only, seed=given.seed, show=given.show)
    failed = False
    for kind in given.kind or KINDS:
        outcomes = run(kind, options)
        failures = {number: outcome for number, outcome in sorted(outcomes.items()) if outcome.result == "failed"}
        counts = Counter(outcome.result for outcome in outcomes.values())
        accepted, refused = (f"{counts[result]:8,} {result}" for result in ("accepted", "refused"))
        print(f"{kind:12}{len(outcomes):8,} cases{accepted}{refused}{len(failures):8,} failures", flush=True)
        for reason, cases in Counter(outcome.reason for outcome in failures.values()).most_common():
            numbers = [f"#{number}" for number, outcome in failures.items() if outcome.reason == reason]
            more = " …" if cases > _SHOWN else ""
            print(f"  {cases:,} × {reason}: {' '.join(numbers[:_SHOWN])}{more}", flush=True)
        if given.only is not None:
            print(*(outcome.detail for outcome in failures.values()))
        failed |= bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
