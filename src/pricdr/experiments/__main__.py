"""``python -m pricdr.experiments``: run specs where numpy, scipy and torch are all there is (a bare GPU machine).

Prepare the arrays elsewhere (``pricdr reproduce --prepared DIR``), copy them, and copy the results back.
"""

import argparse
import sys
from pathlib import Path

from pricdr.experiments.runner import Place, run
from pricdr.experiments.spec import read_spec


def main() -> None:
    """Run every spec named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="+", type=Path)
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tuned", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    place = Place(given.prepared, given.prepared, given.device, given.jobs)

    def tell(what: str, done: int, total: int, note: str = "") -> None:
        sys.stderr.write(f"{what} {done}/{total} {note}\n")

    for path in given.specs:
        spec = read_spec(path, given.tuned)
        run(spec, given.out / f"{spec.name}.jsonl", place, progress=tell)


if __name__ == "__main__":
    main()
