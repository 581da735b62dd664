"""``python -m pricdr.experiments``: run specs where the command line's packages are not installed (a bare GPU machine).

Prepare the arrays elsewhere (``pricdr reproduce --prepared DIR``), copy them, and copy the results back.
"""

import argparse
import sys
from pathlib import Path

from pricdr.errors import ParameterError, PriCDRError, printable
from pricdr.experiments.runner import run
from pricdr.experiments.spec import read_specs, require_runnable
from pricdr.experiments.tasks import RunContext


def main() -> int:
    """Run every spec named on the command line; 1 where a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--prepared", type=Path, required=True, help="folder of prepared arrays")
    parser.add_argument("--out", type=Path, required=True, help="folder of results, added to")
    parser.add_argument("--tuned", type=Path, help="folder of chosen settings, one TOML per data set")
    parser.add_argument("--only", action="append", default=[], help="an arm or curve; may be repeated")
    parser.add_argument("--tables", nargs="*", help="the tables of the specs to run, by name")
    parser.add_argument("--seeds", type=int, nargs="*", default=[])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    context = RunContext(given.prepared, given.prepared, given.device, given.jobs)

    def tell(what: str, done: float, total: int, note: str = "") -> None:
        sys.stderr.write(printable(f"{spec.name}: {what} {done}/{total} {note}") + "\n")

    specs = [spec for path in given.specs for spec in read_specs(path, given.tuned)]
    if unknown := set(given.tables or ()) - {spec.name for spec in specs}:
        raise ParameterError(f"there is no table {min(unknown)!r:.80} in these specs")
    specs = [spec for spec in specs if not given.tables or spec.name in given.tables]
    require_runnable(specs, given.only)
    failures = []
    for spec in specs:
        failures += run(spec, given.out, context, only=given.only, seeds=given.seeds, progress=tell)
    for failure in failures:
        sys.stderr.write(f"failed: {failure}\n")
    return int(bool(failures))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PriCDRError as error:
        sys.exit(f"error: {error}")
