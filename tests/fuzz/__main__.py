"""Mutated releases, notices, models, ledgers, checkpoints, specs, ratings, alignments: ``python -m tests.fuzz``.

None may crash, hang, take over 1 GiB more memory than honest input, or be accepted with a meaning it should not have.
Every case follows from the seed, the kind and its number: ``--kind ledgers --only 24`` repeats one.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.fuzz.runner import KINDS, Options, Tally, run

_SHOWN = 8
"""Case numbers shown of each cause."""


def main() -> int:
    """Run the cases that the command line asks for; 1 where any failed."""
    given = _parser().parse_args()
    keep = given.keep or Path(tempfile.mkdtemp(prefix="fuzz-failures-"))
    options = Options(
        keep=keep,
        kinds=tuple(given.kind or KINDS),
        count=given.count if given.only is None else 1,
        first=given.first if given.only is None else given.only,
        seed=given.seed,
        jobs=given.jobs,
        seconds=given.seconds,
        case_seconds=given.case_seconds,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    tallies = run(options)
    print(table(tallies))
    for kind, tally in tallies.items():
        print(causes(kind, tally), end="")
        if given.only is not None:
            for outcome in tally.failures.values():
                print(outcome.detail)
    failed = any(tally.failures for tally in tallies.values())
    if failed:
        print(f"\nfailing inputs are in {keep}")
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=[*KINDS], help="may be given more than once (default: all)")
    parser.add_argument("--count", type=int, default=10_000, help="cases of each kind (default: 10,000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes (default: one a core)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long, all kinds alike")
    parser.add_argument("--case-seconds", type=float, default=30.0, help="the most that one case may take")
    parser.add_argument("--keep", type=Path, help="folder for failing inputs (default: a new temporary one)")
    return parser


def table(tallies: dict[str, Tally]) -> str:
    """One row per kind."""
    head = f"{'kind':12}{'cases':>8}{'accepted':>10}{'refused':>9}{'failures':>10}"
    lines = [f"{head}{'slowest':>20}{'most memory':>24}{'a second':>10}"]
    for kind, tally in tallies.items():
        slowest = f"{tally.slowest[0]:.2f} s (#{tally.slowest[1]})"
        largest = f"{tally.largest[0] / 2**20:+,.0f} MiB (#{tally.largest[1]})"
        lines.append(
            f"{kind:12}{tally.cases:8,}{tally.accepted:10,}{tally.refused:9,}{len(tally.failures):10,}"
            f"{slowest:>20}{largest:>24}{tally.cases / max(tally.seconds, 1e-9):10.0f}"
        )
    return "\n".join(lines)


def causes(kind: str, tally: Tally) -> str:
    """Failures by cause, with the numbers of the first cases of each."""
    numbers: dict[str, list[int]] = {}
    for number, outcome in sorted(tally.failures.items()):
        numbers.setdefault(outcome.reason, []).append(number)
    lines = []
    for reason, cases in sorted(numbers.items(), key=lambda pair: -len(pair[1])):
        shown = " ".join(f"#{number}" for number in cases[:_SHOWN]) + (" …" if len(cases) > _SHOWN else "")
        lines.append(f"{kind}: {len(cases):,} × {reason}: {shown}\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
