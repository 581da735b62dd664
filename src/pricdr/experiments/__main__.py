"""``python -m pricdr.experiments``: run specs where numpy, scipy and torch are all there is (a bare GPU machine).

Prepare the arrays elsewhere (``pricdr reproduce --prepared DIR``), copy them, and copy the results back.
"""

import argparse
import sys
from pathlib import Path

from pricdr.errors import PriCDRError, printable
from pricdr.experiments.runner import run
from pricdr.experiments.search import RELEASE, search, tuned_table
from pricdr.experiments.spec import ReleaseSpec, read_search, read_spec
from pricdr.experiments.workers import RunContext
from pricdr.models.catalogue import METHODS
from pricdr.privacy.registry import BY_NAME


def main() -> None:
    """Run every spec named on the command line, or, with ``--trials``, search on their data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--prepared", type=Path, required=True, help="folder of prepared arrays")
    parser.add_argument("--out", type=Path, required=True, help="folder of results, added to")
    parser.add_argument("--tuned", type=Path, help="folder of chosen settings, one TOML per data set")
    parser.add_argument("--trials", type=int, help="search instead: so many settings per method, on validation")
    parser.add_argument(
        "--methods",
        nargs="*",
        default=list(METHODS.own),
        help=f"the methods to search: {', '.join(METHODS.own)}, or others; module:Class also lets specs name it",
    )
    parser.add_argument(
        "--strategy", help="search with a release of this strategy, epsilon 4; module:Class also lets specs name it"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    context = RunContext(
        given.prepared,
        given.prepared,
        given.device,
        given.jobs,
        methods=tuple(given.methods),
        strategies=() if given.strategy is None else (given.strategy,),
    )
    context.import_outside()
    methods = [METHODS.spelled(text) for text in given.methods]

    def tell(what: str, done: float, total: int, note: str = "") -> None:
        sys.stderr.write(printable(f"{what} {done}/{total} {note}") + "\n")

    for path in given.specs:
        if given.trials is None:
            spec = read_spec(path, given.tuned)
            run(spec, given.out / f"{spec.name}.jsonl", context, progress=tell)
            continue
        data, fixed = read_search(path)
        name, release = data.name, RELEASE
        if given.strategy is not None:
            release = ReleaseSpec(strategy=BY_NAME.spelled(given.strategy), epsilon=4.0)
            name = f"{data.name}_{release.strategy}"
        log = given.out / "search" / f"{name}.jsonl"
        best = search(data, methods, given.trials, log, context, release=release, fixed=fixed, progress=tell)
        heading = f"best of {given.trials} trials each on the validation items of {name}"
        (given.out / f"{name}.toml").write_text(tuned_table(best, heading), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except PriCDRError as error:
        sys.exit(f"error: {error}")
